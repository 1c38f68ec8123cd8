// An agent's calls to its bootstrap addresses, and to the members that it knew: first until a member answers with the
// settings, then again and again. So two islands of one swarm merge, and a registry that restarted empty learns of the
// swarm again. Says what is wrong with the bootstrap addresses for as long as it is.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bootstrap/asked_addresses.h"
#include "bootstrap/contact.h"
#include "bootstrap/router.h"
#include "gossip/clock.h"

namespace starling {

class SeedCalls {
 public:
  // `options` of the first contact; begin() names its settings. `own`: where this agent listens; not called.
  // The references outlive the object.
  SeedCalls(ContactOptions options, const Endpoint& own, Router& router, const Clock& clock, uint64_t rng_seed);

  bool none() const { return asked_.count() == 0; }
  // `settings`: the text that this agent brings; empty: it adopts what it is answered.
  void begin(const std::string& settings);
  const Contact* contact() const { return contact_.get(); }  // null: not begun
  Duration lasted() const { return clock_.now() - began_; }

  void handle(const FrameHeader& header, const BootstrapMessage& message);
  void tick();  // the first contact
  // To be called at every tick once this agent knows its swarm. `all`: asks the known members too, though one lives.
  void call_again(bool all = false);
  TimePoint next_deadline(bool calls_again) const;

  // For people, since call_again(): which addresses serve another swarm, with both sides' settings; what a registry
  // serves beside this swarm; or that nobody answers, while no other member lives. With the remedy. Empty: all is well.
  std::string trouble() const;
  bool alone() const;  // no other agent lives

  // All that answered have refused this agent, the first one kRefusalPatience ago.
  bool refused() const;

 private:
  struct Address {
    std::string refusal, note;                   // the last answer's; empty: none
    std::optional<TimePoint> answered, refused;  // last; first since the last welcome
  };
  bool searching() const { return contact_ && contact_->state() == Contact::State::kSearching; }
  void hear(size_t asked, const FrameHeader& header, const BootstrapMessage& message);
  bool all_left() const;
  std::string no_answer() const;

  ContactOptions options_;
  Router& router_;
  const Clock& clock_;
  const uint64_t rng_seed_;
  AskedAddresses asked_;
  std::vector<Address> addresses_;  // of the same index
  std::unique_ptr<Contact> contact_;
  TimePoint began_, next_call_;
  std::optional<TimePoint> first_call_;  // by call_again()
};

}  // namespace starling
