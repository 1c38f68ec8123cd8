// The inside of Group, shared by its four source files: group.cpp (the list, rounds, timers), group_blocks.cpp (what
// arrives), group_owner.cpp (the arithmetic), group_end.cpp (how a round ends). Not for anybody else.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "compression/codec.h"
#include "gossip/exchange/deadline.h"
#include "gossip/exchange/group.h"
#include "gossip/exchange/round_stream.h"

namespace starling {

struct Group::Impl {
  static constexpr size_t kReportsMax = 4096;         // kept for a caller that does not fetch them
  static constexpr uint64_t kRoundMax = 1ull << 62;   // no honest count of rounds gets near it, and + 1 cannot wrap
  static constexpr int kCreditRepeats = 8;            // per deadline, while blocks are missing
  static constexpr uint64_t kTenure = 4;              // long enough for most of what is late to count in the next round

  // What became of a block that is due. Final from kCounted on.
  enum class Fate : uint8_t { kMissing, kHere, kCounted, kOld, kLate, kRefused, kInjected, kDead };

  // A list of members as this agent sees it.
  struct Roster {
    uint64_t group = 0;
    std::vector<PeerId> members;   // sorted; the index is the rank
    size_t self = 0;               // own rank

    size_t count() const { return members.size(); }
    // By turns, each for kTenure rounds: who is always late would keep its blocks from all the others for good.
    size_t owner(uint32_t index, uint64_t round) const { return (index + round / kTenure) % count(); }
    std::optional<size_t> rank_of_other(const PeerId& peer) const;
    uint32_t first_block(size_t rank, uint64_t round) const;   // it owns this one and every count()th after it
    std::vector<uint32_t> blocks_of(size_t rank, size_t block_count, uint64_t round) const;
  };

  struct Link {                    // by phase
    std::array<InStream, 2> in;
    std::array<OutStream, 2> out;
    bool waited_for = true;        // not dead, and not seen in a later round
    bool dead = false;
  };
  struct Contribution {
    Fate fate = Fate::kMissing;
    double mass = 0;
    SharedBytes payload;           // while kHere and not yet with the worker
  };
  struct Owned {                   // the i-th block that this agent owns, at i
    std::vector<Contribution> from;   // by rank; the own one is not used
    size_t waits_for = 0;
    bool started = false;          // is being averaged, or was
    uint32_t counted = 0;          // the ranks that are in the average
  };
  struct Average {
    Fate fate = Fate::kMissing;
    double squared_distance = 0;
    SharedBytes payload;
  };

  // Open until nobody is owed anything; what stays of it until two rounds later only judges what comes late.
  struct Round {
    Roster roster;
    uint64_t number = 0;
    std::shared_ptr<const Snapshot> own;
    TimePoint begun_at, first_at, second_at, credit_repeat_at = TimePoint::max();
    uint32_t window = 0;
    bool open = true;
    bool first_over = false, second_over = false;   // the deadlines
    bool time_given = false;       // the first was put off for those behind
    bool ended = false;            // this agent's own exchange
    std::vector<Link> links;       // by rank
    std::vector<Owned> owned;
    std::vector<Average> averages; // by block
    size_t unresolved = 0;         // averages that are waited for or with the worker
    size_t jobs = 0;               // with the worker
    std::array<size_t, 2> due{}, arrived{}, counted{};   // by phase, of others
    size_t late_counted = 0;
  };

  // Blocks of a round not begun yet: per sender one round, and of it no more than the first credit allows.
  struct Early {
    uint64_t group = 0, round = 0;
    std::map<std::pair<uint8_t, uint32_t>, std::pair<RoundBlock, SharedBytes>> blocks;   // by phase and index
  };
  struct Late {
    uint64_t round = 0;
    double mass = 0;
    SharedBytes payload;
  };
  struct Seen { uint64_t group = 0, round = 0; };

  struct AverageJob {
    struct Item {
      size_t rank = 0;
      double mass = 0;
      SharedBytes payload;
      bool late = false, passed = true;
    };
    std::shared_ptr<const Snapshot> own;
    size_t self = 0;               // own rank
    std::vector<Item> items;       // by rank
    SharedBytes average;           // empty: it is not finite
    uint32_t counted = 0;
    double squared_distance = 0;
  };

  Impl(const GroupOptions& options, const Layout& layout, const Codec& codec, Worker& worker, const Clock& clock,
       Outbox& outbox, Company& company);

  // group.cpp
  std::optional<Roster> make_roster() const;
  void publish(std::shared_ptr<const Snapshot> next);
  bool begin();
  uint64_t seen_round(const Roster& roster, size_t rank) const;
  uint64_t median_round(const Roster& roster, uint64_t own) const;
  uint64_t next_number(const Roster& roster) const;
  void open_round(Roster roster, uint64_t number);
  void give_contributions();
  void tick();
  bool ahead_of_most() const;
  void give_time();
  void take_back_time();
  void pass_first();
  void pass_second();
  TimePoint next_deadline() const;
  void ignore() { ++tally.ignored_messages; }

  // group_end.cpp
  uint64_t& count_of(Fate fate);
  void settle(Fate* fate, Fate value);
  void settle(Contribution& contribution, Fate value) { settle(&contribution.fate, value); }
  void settle(Average& average, Fate value);
  void forget(const PeerId& peer);
  void stop_waiting(size_t rank);
  void stop_waiting_for_those_ahead();
  void stop_waiting_for_the_silent();
  void try_end();
  void finish();
  void report(ExchangeOutcome outcome, uint32_t blocks_mixed);
  double distance() const;
  bool drained() const;
  void close();
  void retire();

  // group_blocks.cpp
  void handle(const PeerId& from, const ExchangeMessage& message, const SharedBytes& payload);
  void on_block(const PeerId& from, const RoundBlock& block, const SharedBytes& payload);
  void on_credit(const PeerId& from, const RoundCredit& credit);
  void note_round(const PeerId& from, const RoundBlock& block);
  bool hold_early(const Roster& roster, size_t rank, const RoundBlock& block, const SharedBytes& payload);
  void take_early();
  void receive(size_t rank, const RoundBlock& block, const SharedBytes& payload, Duration after);
  void receive_contribution(size_t rank, const RoundBlock& block, const SharedBytes& payload);
  void receive_average(size_t rank, const RoundBlock& block, const SharedBytes& payload);
  void receive_previous(size_t rank, const RoundBlock& block, const SharedBytes& payload);
  bool injected_loss(const PeerId& from, const RoundBlock& block) const;
  void pump(size_t rank, uint8_t phase);
  void send_credit(size_t rank, uint8_t phase, uint32_t credit);
  void repeat_credits();

  // group_owner.cpp
  void average_if_complete(Owned& owned);
  void start_average(Owned& owned);
  static bool average(const Codec& codec, uint32_t index, size_t element_count, AverageJob& job);
  static void run_average(const Codec& codec, uint32_t index, size_t element_count, AverageJob& job);
  void on_averaged(uint32_t index, AverageJob& job);
  void judge(uint32_t index);
  void on_judged(uint32_t index, PairStatus status, const PairStats& stats);

  // In this round.
  std::vector<uint32_t> blocks_of(size_t rank) const {
    return round->roster.blocks_of(rank, layout.blocks.size(), round->number);
  }
  Owned& owned_block(uint32_t index) { return round->owned[index / round->roster.count()]; }

  const GroupOptions options;
  const Layout& layout;
  const Codec& codec;
  Worker& worker;
  const Clock& clock;
  Outbox& outbox;
  Company& company;

  std::vector<size_t> payload_bytes_max;   // by block
  size_t largest_payload = 1;

  std::shared_ptr<const Snapshot> snapshot;
  std::array<AdaptiveDeadline, 2> deadlines;   // by phase, both from the beginning of the round
  std::optional<Round> round, previous;
  std::map<PeerId, Early> early;
  std::map<std::pair<PeerId, uint32_t>, Late> late;   // by sender and block: contributions for the next round
  std::map<PeerId, Seen> seen;                        // the newest round of each member
  uint64_t bytes_sent = 0, bytes_received = 0;        // since the last report
  std::vector<PairDelta> decided;
  std::vector<ExchangeReport> reports;
  GroupCounters counters;
  BlockTally tally;
  std::shared_ptr<int> alive = std::make_shared<int>(0);   // completions of a destroyed Group do nothing
};

}  // namespace starling
