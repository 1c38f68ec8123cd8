#include "agent/state/file_keeper.h"

#include <cstring>
#include <span>
#include <stdexcept>
#include <vector>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "agent/state/spare_descriptors.h"
#include "kernels/transfer.h"

namespace starling {
namespace {

// The floats themselves where they lie in host memory, else a copy in `staging`.
std::span<const float> on_host(ConstView view, std::vector<float>& staging) {
  if (view.space == MemorySpace::kHost) return {view.data, view.count};
  staging.resize(view.count);
  copy_to_host(view, staging.data());
  return staging;
}

void report_skipped(const std::string& skipped) {
  spdlog::warn("checkpoint passed over, trying the one before it: {}", skipped);
}

}  // namespace

FileKeeper::FileKeeper(const std::string& folder, uint64_t swarm_id, uint64_t generation, uint32_t keep)
    : swarm_id_(swarm_id), generation_(generation), store_(folder + "/checkpoints", keep) {
  keep_spare_descriptors();
}

SaveResult FileKeeper::save(const Progress& progress, Trainer& trainer, std::span<const std::byte> memory) {
  std::vector<float> params, momentum;
  const std::vector<std::byte> state = trainer.save_state();
  CheckpointContent content;
  content.meta = {swarm_id_, progress.round, progress.steps, progress.samples, generation_};
  content.params = on_host(trainer.params(), params);
  content.momentum = on_host(trainer.momentum(), momentum);
  content.trainer_state = state;
  content.codec_states = memory;
  SaveResult result = store_.save(content);
  keep_spare_descriptors();
  if (!result.ok()) return result;
  std::string problem;
  const auto saved = read_checkpoint(result.path, Verify::kStructure, &problem);
  if (!saved) return {"", "the checkpoint just written cannot be read back: " + problem};
  model_ = make_model_file(*saved);
  return result;
}

bool FileKeeper::restore(Progress* progress, Trainer& trainer, std::vector<std::byte>* memory) {
  size_t damaged = 0;
  const auto loaded = store_.load_newest(swarm_id_, report_skipped, &damaged);
  // Beginning anew would remove the damaged files as the oldest, and with them what might be saved of the model.
  if (!loaded && damaged > 0 && !model_) {
    throw std::runtime_error(fmt::format(
        "none of the checkpoints in {} can be read ({} damaged, named above). Nothing was changed. Put good copies "
        "back, or move that folder away: this agent then fetches the model from a member, or begins anew",
        store_.folder(), damaged));
  }
  if (!loaded) return false;
  const CheckpointContent& content = loaded->content;
  if (content.params.size() != trainer.params().count || content.momentum.size() != trainer.momentum().count) {
    spdlog::warn("{} holds {} params, this model has {}; starting without it", loaded->path, content.params.size(),
                 trainer.params().count);
    return false;
  }
  if (!trainer.load_state(content.trainer_state)) {
    spdlog::warn("{} was written with another optimizer; starting without it", loaded->path);
    return false;
  }
  copy_from_host(content.params.data(), trainer.params());
  copy_from_host(content.momentum.data(), trainer.momentum());
  trainer.params_changed();
  memory->assign(content.codec_states.begin(), content.codec_states.end());
  *progress = {content.meta.round, content.meta.steps, content.meta.samples};
  model_ = make_model_file(*loaded);
  return true;
}

}  // namespace starling
