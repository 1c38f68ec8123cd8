#include "agent/state/file_keeper.h"

#include <memory>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "agent/report/format.h"
#include "agent/state/float_copy.h"
#include "agent/state/spare_descriptors.h"
#include "kernels/transfer.h"

namespace starling {
namespace {

bool fits(uint64_t bytes, uint64_t left) { return left >= bytes + bytes / 4; }

// Throws std::bad_alloc where less than that is left.
std::unique_ptr<FloatCopy> room(size_t floats, uint64_t left) {
  if (!fits(floats * sizeof(float), left)) throw std::bad_alloc();
  return std::make_unique<FloatCopy>(floats);
}

// Of host memory, to read these there.
uint64_t bytes_to_copy(ConstView view) { return view.space == MemorySpace::kHost ? 0 : view.count * sizeof(float); }

void report_skipped(const std::string& skipped) {
  spdlog::warn("checkpoint passed over, trying the one before it: {}", skipped);
}

}  // namespace

FileKeeper::FileKeeper(const std::string& folder, uint64_t swarm_id, uint64_t generation, uint32_t keep,
                       std::function<void()> mend, std::unique_ptr<FileOps> files,
                       std::function<uint64_t()> memory_left)
    : swarm_id_(swarm_id),
      generation_(generation),
      mend_(std::move(mend)),
      memory_left_(std::move(memory_left)),
      store_(folder + "/checkpoints", keep, std::move(files)) {
  keep_spare_descriptors();
}

CheckpointMeta FileKeeper::meta(const Progress& progress, bool alone) const {
  return {swarm_id_, progress.round, progress.steps, progress.samples, generation_, alone};
}

SaveResult FileKeeper::save(const Progress& progress, Trainer& trainer, std::span<const std::byte> memory, bool alone) {
  ++saves_;
  keep_room(nullptr);
  const uint64_t copies = bytes_to_copy(trainer.params()) + bytes_to_copy(trainer.momentum()), left = memory_left_();
  if (!fits(copies, left)) {
    return {"", fmt::format("to write what lies on the GPU takes {} of host memory, and {} are left; free some",
                            print_bytes(copies), print_bytes(left))};
  }
  const HostValues params(trainer.params()), momentum(trainer.momentum());
  const std::vector<std::byte> state = trainer.save_state();
  return write({meta(progress, alone), params.all(), momentum.all(), state, memory});
}

void FileKeeper::make_room(size_t floats) {
  const uint64_t saves = saves_;
  const auto wanted = [&] { return saves == saves_; };
  std::unique_ptr<FloatCopy> made;
  try {
    if (floats > 0) made = room(floats, memory_left_());
  } catch (const std::bad_alloc&) {  // the copy does without, or says so
  }
  if (made) made->touch(wanted);
  keep_room(std::move(made));
  if (!wanted()) keep_room(nullptr);
}

// Returns the last one.
std::unique_ptr<FloatCopy> FileKeeper::keep_room(std::unique_ptr<FloatCopy> next) {
  const std::lock_guard lock(mutex_);
  return std::exchange(room_, std::move(next));
}

std::function<SaveResult()> FileKeeper::copy_to_save(const Progress& progress, Trainer& trainer,
                                                     std::vector<std::byte>& memory, bool alone) {
  struct Copied {
    CheckpointMeta meta;
    std::unique_ptr<FloatCopy> floats;
    std::vector<std::byte> trainer_state, memory;
  };
  const std::vector<ConstView> views{trainer.params(), trainer.momentum()};
  const size_t count = views[0].count + views[1].count;
  ++saves_;
  std::unique_ptr<FloatCopy> floats = keep_room(nullptr);
  const uint64_t left = memory_left_();
  std::shared_ptr<Copied> copied;
  try {
    if (!floats || floats->count() != count) floats = room(count, left);
    floats->fill(views);
    copied = std::make_shared<Copied>(meta(progress, alone), std::move(floats), trainer.save_state());
  } catch (const std::bad_alloc&) {
    if (!std::exchange(told_of_memory_, true)) {
      spdlog::info("steps wait while a checkpoint is written: a copy of the state wants {} of memory, and {} are left",
                   print_bytes(count * sizeof(float)), print_bytes(left));
    }
    return nullptr;
  }
  copied->memory = std::move(memory);
  return [this, copied] {
    const FloatCopy& floats = *copied->floats;
    return write({copied->meta, floats.part(0), floats.part(1), copied->trainer_state, copied->memory});
  };
}

SaveResult FileKeeper::write(const CheckpointContent& content) {
  try {
    mend_();
  } catch (const std::runtime_error& error) {
    return {"", error.what()};
  }
  SaveResult result = store_.save(content);
  keep_spare_descriptors();
  if (!result.ok()) return result;
  std::string problem;
  auto served = open_model_file(result.path, &problem);
  if (!served) return {"", "the checkpoint just written cannot be read back: " + problem + "; check the disk"};
  serve(std::move(served));
  return result;
}

void FileKeeper::serve(std::shared_ptr<const ModelFile> model) {
  const std::lock_guard lock(mutex_);
  model_ = std::move(model);
}

std::shared_ptr<const ModelFile> FileKeeper::model() const {
  const std::lock_guard lock(mutex_);
  return model_;
}

bool FileKeeper::restore(Progress* progress, Trainer& trainer, std::vector<std::byte>* memory) {
  size_t damaged = 0;
  const auto loaded = store_.load_newest(swarm_id_, report_skipped, &damaged);
  // Beginning anew would remove the damaged files as the oldest, and with them what might be saved of the model.
  if (!loaded && damaged > 0 && !model()) {
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
  std::string problem;
  serve(open_model_file(loaded->path, &problem));  // null: it vanished just now, and the next save gives another
  return true;
}

}  // namespace starling
