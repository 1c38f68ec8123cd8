// An agent's calls to its bootstrap addresses: first until a member answers with the settings, then again and again, so
// that two islands of one swarm merge, and so that a registry that restarted empty learns of the swarm again.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "bootstrap/contact.h"
#include "bootstrap/router.h"
#include "gossip/clock.h"

namespace starling {

class SeedCalls {
 public:
  // `options` of the first contact, whose settings begin() names. `own`: where this agent listens; not called. The
  // references outlive the object.
  SeedCalls(ContactOptions options, const Endpoint& own, Router& router, const Clock& clock, uint64_t rng_seed)
      : options_(std::move(options)), own_(own), router_(router), clock_(clock), rng_seed_(rng_seed) {}

  bool none() const { return options_.bootstrap.empty(); }
  // `settings`: the text that this agent brings; empty: it adopts what it is answered.
  void begin(const std::string& settings);
  const Contact* contact() const { return contact_.get(); }   // null: not begun
  Duration lasted() const { return clock_.now() - began_; }

  void handle(const FrameHeader& header, const BootstrapMessage& message);
  void tick();                       // the first contact
  void call_again();                 // to be called at every tick once this agent knows its swarm
  TimePoint next_deadline(bool calls_again) const;

 private:
  bool searching() const { return contact_ && contact_->state() == Contact::State::kSearching; }

  ContactOptions options_;
  const Endpoint own_;
  Router& router_;
  const Clock& clock_;
  const uint64_t rng_seed_;
  std::unique_ptr<Contact> contact_;
  TimePoint began_, next_call_;
};

}  // namespace starling
