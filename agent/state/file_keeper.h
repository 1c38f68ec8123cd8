// An agent's states in its state folder: checkpoints, newest first, and the one that donors serve.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "agent/state/checkpoint.h"
#include "agent/state/state_keeper.h"

namespace starling {

class FileKeeper final : public StateKeeper {
 public:
  // Makes `folder`/checkpoints. Throws std::runtime_error if it cannot be used.
  FileKeeper(const std::string& folder, uint64_t swarm_id, uint64_t generation, uint32_t keep);
  SaveResult save(const Progress& progress, Trainer& trainer, std::span<const std::byte> memory) override;
  bool restore(Progress* progress, Trainer& trainer, std::vector<std::byte>* memory) override;
  std::shared_ptr<const ModelFile> model() const override { return model_; }

 private:
  const uint64_t swarm_id_, generation_;
  CheckpointStore store_;
  std::shared_ptr<const ModelFile> model_;
};

}  // namespace starling
