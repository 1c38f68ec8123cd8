// The second step of a newcomer, if the swarm has begun training: it fetches the params from up to donors_max living
// members at once. Blocks of different donors may be of different rounds: each is checked against its own donor's root,
// and the mixture is no farther from the mean than its donors are on average. If a donor dies, it asks another one. It
// never gives up; waiting_for() says what it waits for. A state machine: no sockets, no threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "bootstrap/block_plan.h"
#include "bootstrap/model_offers.h"
#include "bootstrap/model_sources.h"
#include "gossip/clock.h"
#include "gossip/membership/membership.h"
#include "gossip/net/message.h"
#include "gossip/net/outbox.h"
#include "gossip/worker.h"

namespace starling {

class ModelFetch {
 public:
  // Called in a worker job for each block that passed its hash: copies the bytes to their place. False: no params; the
  // block then counts as a bad one of its donor. No call begins after this object's end, but one may still be running.
  using Sink = std::function<bool(uint64_t offset_bytes, std::span<const std::byte> bytes)>;
  // `secret`: nobody else may guess it.
  ModelFetch(const ModelFetchOptions& options, uint64_t total_bytes_expected, Membership& membership,
             const Clock& clock, Outbox& outbox, Worker& worker, Sink sink, uint64_t rng_seed, uint64_t secret);
  void tick();
  void handle(const FrameHeader& header, const BootstrapMessage& message, const SharedBytes& payload);
  bool done() const { return plan_.done(); }
  uint64_t round() const { return round_; }  // of the newest donor used
  uint64_t steps() const { return steps_; }
  Duration transfer_time() const;   // from the first block asked for to the last one placed, or so far
  double progress() const;          // 0..1
  std::string waiting_for() const;  // for people
  TimePoint next_deadline() const;

 private:
  void expire();
  void release(const PeerId& peer, ModelSource& source);
  void release_block(const PeerId& peer, uint32_t index);
  void take_gone(const PeerId& from, const ModelGone& gone);
  std::optional<uint32_t> block_of_a_slower_one(const PeerId& peer);
  void ask_blocks(const PeerId& peer, ModelSource& source);
  void take_block(const PeerId& from, const ModelBlock& block, const SharedBytes& payload);
  void check_block(const PeerId& from, const ModelSource& source, uint32_t index, const SharedBytes& payload);
  void judge(const PeerId& from, uint32_t index, bool good);

  const ModelFetchOptions options_;
  const uint64_t total_bytes_;
  Membership& membership_;
  const Clock& clock_;
  Outbox& outbox_;
  Worker& worker_;
  const Sink sink_;
  ModelSources sources_;
  ModelOffers offers_;
  BlockPlan plan_;
  TimePoint started_;
  std::optional<TimePoint> first_asked_, last_placed_;
  uint64_t round_ = 0, steps_ = 0;
  // Worker jobs may outlive the fetch, so they check this before they touch it.
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace starling
