#include "agent/sim_keeper.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "gossip/limits.h"
#include "gossip/net/hash.h"

namespace starling {
namespace {

class SimModel final : public ModelFile {
 public:
  SimModel(const std::vector<float>& params, const Progress& progress) : progress_(progress) {
    const auto bytes = std::as_bytes(std::span<const float>(params));
    bytes_ = SharedBytes::copy_of(bytes);
    Blake2b256 root;
    for (size_t at = 0; at < bytes.size(); at += kTransferBlockBytes) {
      hashes_.push_back(xxh3_128(bytes.subspan(at, std::min(kTransferBlockBytes, bytes.size() - at))));
      root.update(std::as_bytes(std::span(hashes_.back())));
    }
    root_ = root.finish();
    std::memcpy(&snapshot_, root_.data(), sizeof snapshot_);
  }
  uint64_t snapshot() const override { return snapshot_; }
  uint64_t round() const override { return progress_.round; }
  uint64_t steps() const override { return progress_.steps; }
  uint64_t total_bytes() const override { return bytes_.size; }
  const std::array<uint8_t, 32>& root() const override { return root_; }
  const std::vector<std::array<uint8_t, 16>>& hashes() const override { return hashes_; }
  SharedBytes block(uint32_t index) const override {
    const size_t at = index * kTransferBlockBytes;
    return {bytes_.owner, bytes_.data + at, std::min(kTransferBlockBytes, bytes_.size - at)};
  }

 private:
  Progress progress_;
  SharedBytes bytes_;
  uint64_t snapshot_ = 0;
  std::array<uint8_t, 32> root_{};
  std::vector<std::array<uint8_t, 16>> hashes_;
};

class SimKeeper final : public StateKeeper {
 public:
  explicit SimKeeper(SimDisk& disk) : disk_(disk) {}
  std::string save(const Progress& progress, Trainer& trainer, const std::vector<BlockState>& blocks) override {
    const View params = trainer.params(), momentum = trainer.momentum();
    disk_.progress = progress;
    disk_.params.assign(params.data, params.data + params.count);
    disk_.momentum.assign(momentum.data, momentum.data + momentum.count);
    disk_.trainer_state = trainer.save_state();
    disk_.blocks = blocks;
    disk_.written = true;
    model_ = std::make_shared<SimModel>(disk_.params, progress);
    return "";
  }
  bool restore(Progress* progress, Trainer& trainer, std::vector<BlockState>* blocks) override {
    if (!disk_.written || !trainer.load_state(disk_.trainer_state)) return false;
    std::copy(disk_.params.begin(), disk_.params.end(), trainer.params().data);
    std::copy(disk_.momentum.begin(), disk_.momentum.end(), trainer.momentum().data);
    trainer.params_changed();
    *progress = disk_.progress;
    *blocks = disk_.blocks;
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
