// An agent's states in its state folder: checkpoints, newest first, and the one that donors serve.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "agent/report/free_memory.h"
#include "agent/state/checkpoint.h"
#include "agent/state/file_ops.h"
#include "agent/state/float_copy.h"
#include "agent/state/state_keeper.h"

namespace starling {

class FileKeeper final : public StateKeeper {
 public:
  // Makes `folder`/checkpoints. Throws std::runtime_error if it cannot be used. `mend`: called before each save, in its
  // thread; a std::runtime_error of it is that save's error. `memory_left`: bytes that a copy may take.
  FileKeeper(
      const std::string& folder, uint64_t swarm_id, uint64_t generation, uint32_t keep,
      std::function<void()> mend = [] {}, std::unique_ptr<FileOps> files = make_file_ops(),
      std::function<uint64_t()> memory_left = [] { return free_memory().bytes; });
  SaveResult save(const Progress& progress, Trainer& trainer, std::span<const std::byte> memory, bool alone) override;
  void make_room(size_t floats) override;
  std::function<SaveResult()> copy_to_save(const Progress& progress, Trainer& trainer, std::vector<std::byte>& memory,
                                           bool alone) override;
  bool restore(Progress* progress, Trainer& trainer, std::vector<std::byte>* memory) override;
  std::shared_ptr<const ModelFile> model() const override;

 private:
  CheckpointMeta meta(const Progress& progress, bool alone) const;
  SaveResult write(const CheckpointContent& content);
  std::unique_ptr<FloatCopy> keep_room(std::unique_ptr<FloatCopy> next);
  void serve(std::shared_ptr<const ModelFile> model);

  const uint64_t swarm_id_, generation_;
  const std::function<void()> mend_;
  const std::function<uint64_t()> memory_left_;
  CheckpointStore store_;
  bool told_of_memory_ = false;
  std::atomic<uint64_t> saves_ = 0;  // and copies that have begun
  mutable std::mutex mutex_;
  std::shared_ptr<const ModelFile> model_;  // guarded by mutex_, like room_
  std::unique_ptr<FloatCopy> room_;         // for the next copy; null: it makes its own
};

}  // namespace starling
