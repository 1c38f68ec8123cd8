// The inside of Pairwise, shared by its four source files: pairwise.cpp (timers, bookkeeping), proposer.cpp,
// acceptor.cpp, blocks.cpp. Not for anybody else.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "gossip/exchange/budget.h"
#include "gossip/exchange/commit.h"
#include "gossip/exchange/deadline.h"
#include "gossip/exchange/guard.h"
#include "gossip/exchange/pairwise.h"
#include "gossip/exchange/peer_blocks.h"
#include "gossip/exchange/stash.h"

namespace starling {

// One exchange until it is decided. The proposer's ends with its decision; the acceptor's lives on in doubt.
struct PairExchange {
  ExchangeId xid;
  PeerId peer;
  bool initiated = false;
  std::shared_ptr<const Snapshot> own;
  double own_offer = 0;
  bool holds_share = true;          // own_offer is taken from the current budget
  TimePoint started_at, deadline_at;
  Duration deadline{};

  bool agreed = false;              // ACCEPT was sent or received: the next four are known
  uint64_t peer_generation = 0;     // 0: not known yet
  double peer_offer = 0, peer_mass = 0;
  uint64_t peer_round = 0;

  PeerBlocks blocks;                // of the peer
  uint32_t send_next = 0, send_credit = 0;
  TimePoint credit_repeat_at = TimePoint::max();
  uint64_t bytes_sent = 0, bytes_received = 0;

  Duration round_trip{};            // proposer: from PROPOSE to ACCEPT
  std::optional<TimePoint> last_arrival;   // proposer: of a block or the vote

  TimePoint vote_at;                // acceptor: votes with what it has
  std::optional<Bitmap> vote;       // acceptor: in doubt
  TimePoint voted_at, park_at;
  bool parked = false;              // in doubt for so long that it gave up its place
  TimePoint query_at;
  Duration query_backoff{};

  double distance = -1;             // over what was voted on, then over K
  double scale = 1;
  bool guard_fed = false;
  Duration free_in{};               // proposer: as BUSY said
};

struct Pairwise::Impl {
  Impl(const PairwiseOptions& options, const Layout& layout, const Codec& codec, Worker& worker,
       const Clock& clock, Outbox& outbox);

  // pairwise.cpp
  PairExchange& add_exchange(const ExchangeId& xid, const PeerId& peer, double own_offer, Duration deadline);
  PairExchange* find(const ExchangeId& xid, const PeerId& from);
  bool under_way_with(const PeerId& peer) const;
  void handle(const PeerId& from, uint64_t generation, const ExchangeMessage& message, const SharedBytes& payload);
  void tick();
  void tick_exchange(PairExchange& exchange);
  TimePoint next_deadline() const;
  static TimePoint next_event(const PairExchange& exchange);
  void publish(std::shared_ptr<const Snapshot> snapshot, const SnapshotBudget& shares);
  void adopt(std::shared_ptr<const Snapshot> next, const SnapshotBudget& shares, bool had_one);
  void retract();
  void forget(const PeerId& peer, uint64_t generation);
  void repeat_sooner(const std::optional<PeerId>& heard_from);
  bool same_life(const PeerId& from, uint64_t generation);
  void finish_applied(PairExchange& exchange, const CommitTerms& terms);
  void finish_failed(PairExchange& exchange, ExchangeOutcome outcome);
  void report(const PairExchange& exchange, ExchangeOutcome outcome, uint32_t blocks_mixed);
  void count_blocks(const PeerBlocks& blocks, const Bitmap& mixed);
  void ignore() { ++tally.ignored_messages; }

  // proposer.cpp
  bool propose(const PeerId& peer);
  void on_accept(const PeerId& from, uint64_t generation, const Accept& accept);
  void on_busy(const PeerId& from, const Busy& busy);
  void on_have(const PeerId& from, const Have& have);
  void on_query(const PeerId& from, const Query& query);
  void on_ack(const PeerId& from, const CommitAck& ack);
  void answer(const PeerId& to, const ExchangeId& xid, CommitAnswer what);
  void try_decide(PairExchange& exchange);
  void give_up(PairExchange& exchange, ExchangeOutcome outcome);   // ends it undecided and tells the acceptor
  void send_commit(uint64_t counter);
  void tick_commits();
  void watch_late(const PairExchange& exchange);
  void tick_late();

  // acceptor.cpp
  void on_propose(const PeerId& from, uint64_t generation, const Propose& propose);
  std::optional<uint32_t> busy_for_ms(const Propose& propose) const;
  void on_commit(const PeerId& from, const Commit& commit);
  void on_abort(const PeerId& from, uint64_t generation, const Abort& abort);
  void try_vote(PairExchange& exchange);
  void drop_out(PairExchange& exchange);
  void ask_again(PairExchange& exchange);
  void park(PairExchange& exchange);
  void retry_votes();

  // blocks.cpp
  void on_block(const PeerId& from, const BlockPayload& block, const SharedBytes& payload);
  void on_credit(const PeerId& from, const Credit& credit);
  void receive(PairExchange& exchange, const BlockPayload& block, const SharedBytes& payload);
  void judge(PairExchange& exchange, uint32_t index);
  void on_judged(const ExchangeId& xid, uint32_t index, BlockVerdict verdict, const PairStats& stats);
  void send_blocks(PairExchange& exchange);
  void grant_credit(PairExchange& exchange);
  double distance(const PairExchange& exchange, const Bitmap& blocks) const;
  bool pass_guard(PairExchange& exchange, const Bitmap& blocks);   // sets distance and scale; false: refuse
  void keep_lessons(const PairExchange& exchange);

  static constexpr size_t kReportsMax = 4096;     // kept for a caller that does not fetch them
  static constexpr size_t kLessonsMax = 64;       // exchanges; the oldest go first
  static constexpr size_t kLateMax = 64;
  static constexpr size_t kWaitingMax = 16;
  static constexpr size_t kEagerBytesMax = 64 * 1024;
  static constexpr size_t kSpareBytes = 4 << 20;  // a snapshot twice in memory is no matter below this
  static constexpr double kVoteFraction = 0.6;    // of the deadline: the vote must reach the proposer in time
  static constexpr int kCreditRepeats = 8;        // per deadline, while nothing comes
  static constexpr int kParkAfter = 10;           // deadlines in doubt
  static constexpr Duration kRepeatMin = std::chrono::milliseconds(20);
  static constexpr Duration kRepeatSoon = std::chrono::seconds(1);   // at most, to a peer that answers
  static constexpr Duration kRepeatMax = std::chrono::seconds(30);

  const PairwiseOptions options;
  const Layout& layout;
  const Codec& codec;
  Worker& worker;
  const Clock& clock;
  Outbox& outbox;
  Company* company = nullptr;

  std::vector<size_t> payload_bytes_max;   // by block
  size_t payload_bytes_total = 0;      // at most
  uint32_t window = 2;                 // blocks in flight towards this agent, per exchange

  std::shared_ptr<const Snapshot> snapshot;
  bool retracted = false;              // the next snapshot is being encoded
  struct Waiting {
    PeerId from;
    uint64_t generation = 0;
    Propose propose;
  };
  std::vector<Waiting> waiting;        // proposals that came meanwhile
  TimePoint published_at;
  Duration publish_interval{};
  SnapshotBudget budget;
  AdaptiveDeadline deadline;
  ClipGuard guard;
  CommitDecider decider;
  CommitVoter voter;
  uint64_t last_counter = 0;
  std::map<ExchangeId, PairExchange> exchanges;

  // Commits without an ACK: when to say them again.
  struct Repeat {
    PeerId acceptor;
    uint64_t generation = 0;
    TimePoint next_at;
    Duration backoff{};
  };
  std::map<uint64_t, Repeat> commits;

  // Own exchanges that ended by the deadline: what still comes of them tells how long it should have been.
  struct Late {
    ExchangeId xid;
    PeerId peer;
    TimePoint started_at, expires_at;
    Duration deadline{};
    std::optional<TimePoint> last_arrival;
  };
  std::vector<Late> late;

  Stash stash;
  std::vector<PairDelta> decided;
  std::deque<std::vector<BlockLesson>> lessons;   // by exchange that ended, not yet handed out
  std::vector<double> decided_shares;   // of this budget, not yet handed out
  std::vector<ExchangeReport> reports;
  PairwiseCounters counters;
  BlockTally tally;
  std::shared_ptr<int> alive = std::make_shared<int>(0);   // completions of a destroyed Pairwise do nothing
};

}  // namespace starling
