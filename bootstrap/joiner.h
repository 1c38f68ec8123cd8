// How a newcomer becomes a member. It finds any member and learns the settings and the member list. If the swarm has
// begun training, it fetches the model from live donors and checks each block against that donor's root. If a donor
// dies, it asks another one. A newcomer never gives up; waiting_for() says what it waits for.
// A state machine: no sockets, no threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gossip/clock.h"
#include "gossip/membership/membership.h"
#include "gossip/net/message.h"
#include "gossip/net/outbox.h"
#include "gossip/rng.h"
#include "gossip/worker.h"

namespace starling {

struct JoinerOptions {
  std::vector<Endpoint> bootstrap;
  std::string settings;            // own; empty: adopt
  // As in RouterOptions: lists the differences between two settings texts. Without it any two different texts conflict.
  std::function<std::string(const std::string& ours, const std::string& theirs)> compare;
  Duration retry_min = std::chrono::milliseconds(250);
  Duration retry_max = std::chrono::seconds(5);
  Duration block_timeout = std::chrono::seconds(2);
  uint32_t blocks_in_flight = 8;   // per donor
  uint32_t donors_max = 3;
};

// 1. Contact: sends Join to every bootstrap address until one answers.
class Contact {
 public:
  enum class State { kSearching, kAnswered, kRefused };
  Contact(const JoinerOptions& options, Membership& membership, const Clock& clock, Outbox& outbox,
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

  JoinerOptions options_;
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

// 2. ModelFetch: the params of the swarm, from up to donors_max living members at once. Blocks of different donors may
// be of different rounds: each is checked against its own donor's root, and the mixture is no farther from the mean
// than its donors are on average.
class ModelFetch {
 public:
  // Called in a worker job for each block that passed its hash: copies the bytes to their place. False: no params; the
  // block then counts as a bad one of its donor. No call begins after this object's end, but one may still be running.
  using Sink = std::function<bool(uint64_t offset_bytes, std::span<const std::byte> bytes)>;
  ModelFetch(const JoinerOptions& options, uint64_t total_bytes_expected, Membership& membership, const Clock& clock,
             Outbox& outbox, Worker& worker, Sink sink, uint64_t rng_seed);
  ~ModelFetch();
  void tick();
  void handle(const FrameHeader& header, const BootstrapMessage& message, const SharedBytes& payload);
  bool done() const;
  uint64_t round() const;            // of the newest donor used
  uint64_t steps() const;
  Duration transfer_time() const;    // from the first block asked for to the last one placed, or so far
  double progress() const;           // 0..1
  std::string waiting_for() const;   // for people
  TimePoint next_deadline() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace starling
