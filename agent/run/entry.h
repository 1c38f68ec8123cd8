// How an agent enters a swarm: whose settings it takes, its trainer, and the params it begins with. A state machine on
// the control thread; the worker makes the trainer and restores checkpoints.
//
//   make trainer -> contact a member -> own checkpoint, else a donor's model, else the genesis -> begin
//   (without settings of its own an agent contacts first: it trains only what the swarm trains)
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>

#include "agent/run/parts.h"
#include "agent/run/shared_model.h"
#include "bootstrap/contact.h"
#include "bootstrap/model_fetch.h"
#include "bootstrap/router.h"

namespace starling {

class Entry {
 public:
  struct Hooks {
    std::function<void()> model_made;   // swarm(), trainer() and model() exist; the params are the genesis
    std::function<void(const Progress& from, const char* how)> begin;   // genesis | fetched | resumed | alone
  };

  // `router` outlives the entry. Nothing happens before start().
  Entry(const AgentOptions& options, const AgentParts& parts, Router& router, Hooks hooks);
  ~Entry();

  void start();
  void tick();                       // keeps asking for members after begin; throws std::runtime_error for a start
                                     // that cannot work
  TimePoint next_deadline() const;
  void give_up();                    // the agent leaves: begin is not called any more
  void handle(const FrameHeader& header, const BootstrapMessage& message, const SharedBytes& payload);

  const SwarmConfig& swarm() const { return swarm_; }
  Trainer* trainer() { return trainer_.get(); }   // null: not made yet; the same for the next two
  SharedModel* model() { return model_.get(); }
  StateKeeper* keeper() { return keeper_.get(); }

 private:
  enum class Stage { kMakingTrainer, kContacting, kRestoring, kFetching, kEntered, kGivenUp };

  void take_stored_settings();
  void make_trainer();
  void trainer_made();
  void contact_somebody(const std::string& settings);
  void contact_answered();
  void enter();                      // settings, trainer and contact are ready: looks for a saved state
  void restored(const Progress* own);   // continues from it; null: from a donor's model or the genesis
  void begin_fetch();
  void fetched();
  void begin(const Progress& from, const char* how);
  void keep_asking();
  std::string other_genesis() const;   // for people: why this agent cannot make the genesis itself
  void say_waiting(const std::string& what);

  AgentOptions options_;
  const AgentParts parts_;
  Router& router_;
  Hooks hooks_;
  SwarmConfig swarm_;
  std::string own_genesis_hash_, swarm_genesis_hash_;
  std::unique_ptr<Contact> contact_;
  std::unique_ptr<ModelFetch> fetch_;
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<StateKeeper> keeper_;
  std::unique_ptr<SharedModel> model_;
  std::exception_ptr start_error_;
  Stage stage_ = Stage::kMakingTrainer;
  bool adopted_ = false;             // the settings came from another member
  TimePoint born_, contact_began_, next_waiting_, next_rejoin_;
};

}  // namespace starling
