// How an agent enters a swarm: the settings it takes, its trainer, and the params it begins with. A state machine on
// the control thread; the worker makes the trainer and restores checkpoints.
//
//   make trainer -> contact a member -> own checkpoint, else a donor's model, else the genesis -> begin
//   (without settings of its own an agent contacts first: it trains only what the swarm trains)
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "agent/observe/trouble_notice.h"
#include "agent/observe/waiting_notice.h"
#include "agent/run/agreed_swarm.h"
#include "agent/run/first_params.h"
#include "agent/run/parts.h"
#include "agent/share/shared_model.h"
#include "agent/share/update_model.h"
#include "bootstrap/router.h"
#include "bootstrap/seed_calls.h"

namespace starling {

class JoinPhase {
 public:
  struct Hooks {
    std::function<void()> model_made;  // swarm(), trainer() and model() exist; those of updates
                                       // begin with the genesis
    FirstParams::Begin begin;
    std::function<bool()> exchanged;  // this agent has exchanged with somebody
  };

  // `router` outlives the entry. Nothing happens before start().
  JoinPhase(const AgentOptions& options, const AgentParts& parts, Router& router, Hooks hooks);

  void start();
  void tick();  // keeps asking for members after begin; throws std::runtime_error for a start
                // that cannot work
  TimePoint next_deadline() const;
  void give_up();  // the agent leaves: begin is not called any more
  void handle(const FrameHeader& header, const BootstrapMessage& message, const SharedBytes& payload);

  const SwarmConfig& swarm() const { return swarm_.config(); }
  Trainer* trainer() { return trainer_.get(); }      // null: not made yet; the same for the next two
  SharedModel* model() { return model_.get(); }      // null also in a swarm that shares updates
  UpdateModel* updates() { return updates_.get(); }  // null also in all others
  ModelMemory& memory() { return model_ ? static_cast<ModelMemory&>(*model_) : *updates_; }  // REQUIRES: one is made
  StateKeeper* keeper() { return keeper_.get(); }

 private:
  enum class Stage { kMakingTrainer, kContacting, kChoosingParams, kEntered, kGivenUp };

  void make_trainer();
  void trainer_made(const std::string& genesis);
  void contact_somebody(const std::string& settings);
  void look_at_contact();
  void contact_answered();
  void enter();  // settings, trainer and contact are ready
  void begin(const Progress& from, const char* how);
  void say_waiting(const std::string& what);
  struct Returned {
    size_t here = 0;      // agents that answered
    bool trains = false;  // one of them does, or has
  };
  Returned returned() const;
  // Members that this agent expects back: those that lived last beside it, or one if it knows older ones alone.
  size_t together() const;
  size_t majority() const;  // of these and this agent: so many others
  bool misses_peers() const;
  void look_at_seeds();  // once this agent trains
  void look_at_company();

  const AgentOptions options_;
  const AgentParts parts_;
  Router& router_;
  Hooks hooks_;
  AgreedSwarm swarm_;
  SeedCalls seeds_;
  WaitingNotice notice_;
  TroubleNotice trouble_;
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<StateKeeper> keeper_;
  std::unique_ptr<SharedModel> model_;
  std::unique_ptr<UpdateModel> updates_;
  std::unique_ptr<FirstParams> first_;
  Stage stage_ = Stage::kMakingTrainer;
  TimePoint born_;
  std::optional<TimePoint> alone_since_;  // after exchanges with others
};

}  // namespace starling
