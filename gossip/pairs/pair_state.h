// The state that all pair exchanges of one agent share: the snapshot with its budget, the guard, and the results of the
// exchanges that ended.
//
// By turns the budget of a snapshot is not used: take_offer() is always 1. Once a delta is queued, the snapshot is no
// longer the newest state. So it is withdrawn until the caller has applied the delta and adopted the next one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "gossip/exchange/exchange.h"
#include "gossip/pairs/budget.h"
#include "gossip/pairs/commit.h"
#include "gossip/pairs/fragments.h"
#include "gossip/pairs/guard.h"
#include "gossip/pairs/options.h"
#include "gossip/pairs/pair_blocks.h"
#include "gossip/pairs/pair_exchange.h"
#include "gossip/pairs/quant_step_backoff.h"
#include "gossip/pairs/settling_guard.h"
#include "gossip/pairs/status.h"

namespace starling {

class PairState {
 public:
  // All references must outlive the object.
  PairState(const PairwiseOptions& options, const Layout& layout, const PairBlocks& blocks, const Clock& clock);

  bool by_turns() const { return by_turns_; }
  // By turns: an exchange's delta was queued (mixed), or it came to nothing. May be null.
  std::function<void(const PairExchange&, bool mixed)> on_met;
  // By turns: the peer said BUSY for so long, unasked or to a proposal. May be null.
  std::function<void(const PeerId&, Duration, bool unasked)> on_busy_for;
  // An exchange was decided, or came to nothing by the peer's doing. May be null.
  std::function<void(const PairExchange&, bool decided)> on_ended;

  // The snapshot.
  const std::shared_ptr<const Snapshot>& snapshot() const { return snapshot_; }
  bool retracted() const { return retracted_; }  // the next snapshot is being encoded
  void retract();
  void withdraw();  // from now on there is no snapshot to share
  // An exchange of this snapshot came to nothing by what the codec has learned from since: another encode does better.
  bool outdated() const { return outdated_; }
  void adopt(std::shared_ptr<const Snapshot> next, const SnapshotBudget& budget);
  uint64_t boundary() const { return boundary_; }      // of the snapshot adopted last
  std::optional<TimePoint> next_at() const;            // Snapshot::next_at of the one adopted last, while it lies ahead
  Duration steps_time() const { return steps_time_; }  // that it named
  void tell_steps(Duration between_boundaries);        // by turns, to the partners of exchanges
  uint32_t steps_us() const { return steps_us_; }
  Duration until_next_snapshot() const;  // estimated from the interval between the last two

  // The budget of the snapshot. After adopt() each open exchange that took an offer of an earlier snapshot must hold it
  // again: its delta is not in the new snapshot yet, so it still counts against the budget.
  double take_offer() { return by_turns_ ? 1 : budget_.take(); }
  bool spent() const { return budget_.largest_free() == 0; }
  void hold_offer(double offer) { budget_.hold(offer); }

  // The part of the model that the next exchange with the peer carries. By turns it counts once its delta is queued.
  uint32_t next_fragment(const PeerId& peer) const { return fragments_.next_with(peer); }
  void forget(const PeerId& peer);  // its process has ended

  // Sets the exchange's distance and scale. False: refuse the exchange, as what came is no number or too far away, or
  // this agent settles and does not know yet which models are. Call it once per exchange and set of blocks.
  [[nodiscard]] bool pass_guard(PairExchange& exchange, const Bitmap& blocks);

  // By turns, before the decision: queues the delta over these blocks. applied() and failed() take it back where the
  // decision is another. REQUIRES: pass_guard() for these blocks; no delta of this exchange is queued.
  void apply_early(PairExchange& exchange, const Bitmap& blocks);

  // Called at the end of an exchange. applied() queues its delta; failed() frees its offer. The caller then erases it.
  void applied(PairExchange& exchange, const CommitTerms& terms);
  void failed(PairExchange& exchange, ExchangeOutcome outcome, Duration free_in = Duration::zero());
  void in_vain(PairExchange& exchange);  // counts once against the peer, even if the decision comes late
  // From a PROPOSE or a vote to its answer. round_trip(): the shortest of the last ones; 0: not known yet.
  void answered_after(Duration duration);
  void answers_wait(bool wait) { answers_wait_ = wait; }  // for this agent's blocks: they tell no round trip
  Duration round_trip() const { return round_trip_; }
  // When a message that is answered at once, and a little later at the worst, was lost.
  Duration repeat_after() const {
    return round_trip_ == Duration::zero() ? kRepeatUnknown : std::max(round_trip_ + round_trip_ / 4, kRepeatMin);
  }
  void ignore() { ++tally_.ignored_messages; }

  Decided take_decided();
  std::vector<ExchangeReport> take_reports() { return std::exchange(reports_, {}); }
  const BlockTally& tally() const { return tally_; }
  PairwiseCounters& counters() { return counters_; }
  const PairwiseCounters& counters() const { return counters_; }

 private:
  bool is_far(const PairExchange& exchange, double distance) const;
  double judge(PairExchange& exchange);
  bool momentum_mixed(const PairExchange& exchange, const Bitmap& mixed) const;
  float coefficient(const PairExchange& exchange) const;
  void refused(PairExchange& exchange);
  void queue(PairExchange& exchange, const Bitmap& blocks, float coefficient, bool keep);
  void take_back(PairExchange& exchange);
  void state_moved();
  void report(const PairExchange& exchange, ExchangeOutcome outcome, uint32_t blocks_mixed, Duration free_in);
  void count_blocks(const PeerBlocks& blocks, const Bitmap& mixed);
  bool teaches(const PairExchange& exchange) const;
  bool keep_lessons(const PairExchange& exchange);  // whether there are any

  static constexpr size_t kReportsMax = 4096;  // kept for a caller that does not fetch them
  static constexpr size_t kLessonsMax = 64;    // exchanges; the oldest go first
  static constexpr Duration kRepeatUnknown = std::chrono::milliseconds(125), kRepeatMin = std::chrono::milliseconds(20);

  const Layout& layout_;
  const PairBlocks& blocks_;
  const Clock& clock_;
  const size_t param_blocks_;
  const bool by_turns_;
  const bool guarded_;  // in training too

  std::shared_ptr<const Snapshot> snapshot_;
  bool retracted_ = false, outdated_ = false;
  TimePoint published_at_;
  std::optional<TimePoint> next_at_;
  Duration steps_time_{};
  uint64_t boundary_ = 0;
  uint32_t steps_us_ = 0;
  Duration publish_interval_{};
  SnapshotBudget budget_;
  FragmentTurns fragments_;
  std::vector<ClipGuard> guards_;               // by fragment: layers differ in how far apart they are
  std::vector<SettlingGuard> settling_guards_;  // likewise
  QuantStepBackoff coarse_steps_;
  std::vector<Delta> decided_;
  uint64_t early_deltas_ = 0;                     // how many were queued before their decision
  std::vector<double> decided_offers_;            // of this budget, not yet handed out
  std::deque<std::vector<BlockLesson>> lessons_;  // by exchange that ended, not yet handed out
  std::vector<ExchangeReport> reports_;
  Duration round_trip_{};
  bool answers_wait_ = false;
  BlockTally tally_;
  PairwiseCounters counters_;
};

}  // namespace starling
