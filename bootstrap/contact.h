// The first step of a newcomer: it sends Join to every bootstrap address until a member answers with the settings and
// the member list. It never gives up; waiting_for() says what it waits for. A state machine: no sockets, no threads.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "gossip/clock.h"
#include "gossip/membership/membership.h"
#include "gossip/net/message.h"
#include "gossip/net/outbox.h"
#include "gossip/rng.h"

namespace starling {

struct ContactOptions {
  std::vector<Endpoint> bootstrap;
  std::string settings;            // own; empty: adopt
  // As in RouterOptions: lists the differences between two settings texts. Without it any two different texts conflict.
  std::function<std::string(const std::string& ours, const std::string& theirs)> compare;
  Duration retry_min = std::chrono::milliseconds(250);
  Duration retry_max = std::chrono::seconds(5);
};

class Contact {
 public:
  enum class State { kSearching, kAnswered, kRefused };
  Contact(const ContactOptions& options, Membership& membership, const Clock& clock, Outbox& outbox,
          uint64_t rng_seed);
  void tick();
  void handle(const FrameHeader& header, const BootstrapMessage& message);  // JoinReply, JoinRefused
  State state() const { return state_; }
  const std::string& settings() const { return settings_; }        // of the swarm, in its members' words
  const std::string& refusal() const { return refusal_; }          // for people: both sides' settings
  std::string waiting_for() const;   // for people: what was tried, with which address, for how long
  TimePoint next_deadline() const;

 private:
  void take(const FrameHeader& header, const JoinReply& reply);
  void refuse(const FrameHeader& header, const std::string& reason, const std::string& theirs);

  ContactOptions options_;
  Membership& membership_;
  const Clock& clock_;
  Outbox& outbox_;
  Rng rng_;
  State state_ = State::kSearching;
  std::string settings_, refusal_;
  TimePoint started_, next_attempt_;
  Duration backoff_;
  uint32_t attempts_ = 0;
  bool met_empty_registry_ = false;
};

}  // namespace starling
