#include "agent/simulate/keeper.h"

#include <algorithm>
#include <span>

#include "bootstrap/memory_model.h"
#include "gossip/net/hash.h"

namespace starling {
namespace {

std::shared_ptr<const ModelFile> model_of(const std::vector<float>& params, const Progress& progress) {
  const auto bytes = std::as_bytes(std::span(params));
  const uint64_t snapshot = xxh3_64(bytes);  // differs where the params do
  return std::make_shared<MemoryModel>(SharedBytes::copy_of(bytes), snapshot, progress.round, progress.steps);
}

class SimKeeper final : public StateKeeper {
 public:
  explicit SimKeeper(SimDisk& disk) : disk_(disk) {}
  SaveResult save(const Progress& progress, Trainer& trainer, std::span<const std::byte> memory, bool) override {
    const View params = trainer.params(), momentum = trainer.momentum();
    disk_.progress = progress;
    disk_.params.assign(params.data, params.data + params.count);
    disk_.momentum.assign(momentum.data, momentum.data + momentum.count);
    disk_.trainer_state = trainer.save_state();
    disk_.memory.assign(memory.begin(), memory.end());
    disk_.written = true;
    model_ = model_of(disk_.params, progress);
    return {};
  }
  bool restore(Progress* progress, Trainer& trainer, std::vector<std::byte>* memory) override {
    if (!disk_.written || !trainer.load_state(disk_.trainer_state)) return false;
    std::copy(disk_.params.begin(), disk_.params.end(), trainer.params().data);
    std::copy(disk_.momentum.begin(), disk_.momentum.end(), trainer.momentum().data);
    trainer.params_changed();
    *progress = disk_.progress;
    *memory = disk_.memory;
    return true;
  }
  std::shared_ptr<const ModelFile> model() const override { return model_; }

 private:
  SimDisk& disk_;
  std::shared_ptr<const ModelFile> model_;
};

}  // namespace

std::unique_ptr<StateKeeper> make_sim_keeper(SimDisk& disk) { return std::make_unique<SimKeeper>(disk); }

}  // namespace starling
