// The seam behind which an agent's states are kept.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "agent/state/checkpoint.h"
#include "agent/train/trainer.h"
#include "bootstrap/model_file.h"

namespace starling {

// How far this agent is; saved with a checkpoint.
struct Progress {
  uint64_t round = 0;
  uint64_t steps = 0;
  uint64_t samples = 0;
};

// Where rounds save and restore states: the agent's checkpoint folder, or memory in the simulator.
class StateKeeper {
 public:
  virtual ~StateKeeper() = default;
  // Called inside a worker job while the trainer is idle. When it fails, earlier states stay. No path: kept in memory.
  // `memory` is ModelMemory::save(), opaque here. `alone`: no other member
  // lives. The newest state that was made together is kept as long as only others of an agent alone follow.
  virtual SaveResult save(const Progress& progress, Trainer& trainer, std::span<const std::byte> memory,
                          bool alone) = 0;
  // Makes memory for the next copy, of so many floats; 0: gives it back. It may take long, beside any other call. The
  // next save() gives it back too, and ends what is being made.
  virtual void make_room(size_t /*floats*/) {}
  // As save(), in two parts: what is saved is copied now. What is returned writes it while steps go on, once, on any
  // thread, before anything but model() is called here. Null: there is no room for a copy, which save() does without
  // but for what lies on a GPU; `memory` is left as it was.
  virtual std::function<SaveResult()> copy_to_save(const Progress&, Trainer&, std::vector<std::byte>& /*memory*/,
                                                   bool /*alone*/) {
    return nullptr;
  }
  // Called as save() is. Puts the newest good state back into the trainer. False: there is none.
  virtual bool restore(Progress* progress, Trainer& trainer, std::vector<std::byte>* memory) = 0;
  // The params of the last save, to be served to newcomers; null before the first. Control thread.
  virtual std::shared_ptr<const ModelFile> model() const = 0;
};

}  // namespace starling
