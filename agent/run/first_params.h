// The params that an agent begins with. First choice: its own checkpoint, if the swarm has not gone far beyond it. Then
// the model of living donors, if the swarm has begun to train. Last the genesis, if this program makes the same one.
// Restoring runs on the worker, because reading and checking a large checkpoint takes seconds.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/observe/events.h"
#include "agent/run/agreed_swarm.h"
#include "agent/run/parts.h"
#include "agent/share/model_memory.h"
#include "bootstrap/model_fetch.h"
#include "bootstrap/router.h"

namespace starling {

// Puts blocks of a model that is fetched to their places in `params`; false: one holds a number that is not finite.
ModelFetch::Sink params_sink(View params);

class FirstParams {
 public:
  // How the agent came by them: genesis | fetched | resumed | alone.
  using Begin = std::function<void(const Progress& from, const char* how)>;

  // Looks for a checkpoint at once; `begin` is called later, once. All references outlive the object.
  FirstParams(const AgentOptions& options, const AgentParts& parts, AgreedSwarm& swarm, Router& router,
              Trainer& trainer, ModelMemory& model, StateKeeper& keeper, Begin begin);

  void tick();  // throws std::runtime_error if the params can never come
  void handle(const FrameHeader& header, const BootstrapMessage& message, const SharedBytes& payload);
  void give_up() { given_up_ = true; }  // the agent leaves: nothing is begun any more
  bool fetching() const { return fetch_ != nullptr; }
  std::string waiting_for() const { return fetch_->waiting_for(); }  // for people. REQUIRES: fetching()
  TimePoint next_deadline() const { return fetch_ ? fetch_->next_deadline() : TimePoint::max(); }

 private:
  void restore();
  void restored(const Progress* own);  // null: there is no checkpoint
  void refuse_to_lose(const Progress& progress) const;
  void draw();
  void drawn();
  uint64_t outdated_by(const Progress& own) const;                                      // rounds; 0: it is not outdated
  std::vector<const PeerRecord*> far_ahead(const Progress& own, size_t* others) const;  // of so many that take part
  void warn_of_lead(const Progress& own) const;
  bool swarm_trains() const;
  Progress median_progress() const;  // of the members that train
  Progress believable(Progress claimed) const;
  void look_for_donors();
  void begin_fetch();
  void fetched();

  const AgentOptions& options_;
  const AgentParts& parts_;
  AgreedSwarm& swarm_;
  Router& router_;
  Trainer& trainer_;
  ModelMemory& model_;
  StateKeeper& keeper_;
  Begin begin_;
  std::unique_ptr<ModelFetch> fetch_;  // null: not fetching
  bool given_up_ = false;
  const TimePoint born_;
  bool resumable_ = false;             // there is a checkpoint
  std::optional<TimePoint> deserted_;  // since when all members that could give the model have left
};

}  // namespace starling
