// The seam of the exchanges: what the round machine asks of pairwise, neighborhood and group alike.
//
//   boundary: take_decided() ─> apply and encode ─> publish(snapshot) ─> begin() ─> ... while under_way() ... ─> again
//
// State machines: no sockets, no threads; arithmetic goes through a Worker. All calls on the control thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "compression/codec.h"
#include "gossip/clock.h"
#include "gossip/exchange/snapshot.h"
#include "gossip/net/message.h"

namespace starling {

// Who takes part, as far as this agent knows: what an exchange asks of the membership and the topology.
struct Participant {
  PeerId peer;
  double weight = 0;   // neighbor: of its params in this agent's row; group: its mass
};

class Company {
 public:
  virtual ~Company() = default;
  virtual std::optional<PeerId> choose() = 0;                        // pairwise: a partner
  virtual std::vector<Participant> neighbors(uint64_t round) = 0;    // neighborhood: weights sum to at most 1
  virtual std::vector<Participant> group() = 0;                      // this agent among them, sorted by id
};

// What became of the blocks that were due from others, each counted once and under one cause, since this agent began.
// A block is due once its fate is final: group: when the next round begins; neighborhood: when the round's mix is made;
// pairwise: when the exchange is decided (what failed or was busy decides on no block).
struct BlockTally {
  uint64_t due = 0;                // the sum of counted, old, late, missing, dead, refused and injected
  uint64_t counted = 0;            // mixed, or averaged
  uint64_t old = 0;                // its sender's last payload counted instead
  uint64_t late = 0;               // came after the deadline
  uint64_t missing = 0;            // never came, or after all was over; pairwise: not in time at both ends
  uint64_t dead = 0;               // never came, and its sender left
  uint64_t refused = 0;            // of the wrong size, not finite, or left out by the codec
  uint64_t injected = 0;           // dropped on purpose (inject_loss)
  uint64_t averages_due = 0;       // group: of those due, the averages that owners send back; the others are
  uint64_t averages_counted = 0;   //   contributions to this agent's own blocks
  uint64_t ignored_messages = 0;   // of strangers, of other rounds or exchanges, doubled, or nonsense

  // What became of the blocks due, by name; the sum is `due`.
  std::array<std::pair<const char*, uint64_t>, 7> fates() const {
    return {{{"counted", counted}, {"old", old}, {"late", late}, {"missing", missing}, {"dead", dead},
             {"refused", refused}, {"injected", injected}}};
  }
  // Of the blocks due, those in whose place nothing counted.
  double missed_part() const {
    return due == 0 ? 0 : static_cast<double>(due - counted - old) / static_cast<double>(due);
  }
  BlockTally& operator+=(const BlockTally& other);
};

inline constexpr uint64_t kEveryLife = UINT64_MAX;

// How an exchange stands, and what it is.
struct ExchangeStatus {
  bool under_way = false;          // what begin() began is neither decided nor given up
  bool idle = true;                // no other agent waits for this one: it may leave
  bool retries = false;            // begin() may be tried again at once when the last one came to nothing
  bool in_rounds = false;          // blocks are due from several peers in each round, so some may miss it
  int latencies = 1;               // one exchange takes at least this many one-way latencies
  Duration usual_duration{};       // median of the own exchanges, those that came too late included; 0: not known yet
  // An exchange that another agent began uses the snapshot and should end by then. Publishing before that keeps two
  // large snapshots in memory. nullopt: publish at any time.
  std::optional<TimePoint> serving_until;
  BlockTally block_tally;
  uint64_t doubts_broken = 0;      // exchanges given up in doubt for want of room: a half of each may be lost
};

class Exchange {
 public:
  virtual ~Exchange() = default;

  // A new boundary: from now on exchanges use this snapshot. Null: share nothing until the next one.
  virtual void publish(std::shared_ptr<const Snapshot> snapshot) = 0;

  // Releases the snapshot published last, so that its memory can be used for the next one. publish() must follow at
  // once; proposals that come in between wait for it.
  virtual void retract() = 0;

  // Begins this agent's exchange of the snapshot it published last. False: there is none, or nobody to exchange with.
  virtual bool begin() = 0;

  // Messages of other exchanges are ignored. `from` and `generation` are the frame's sender.
  virtual void handle(const PeerId& from, uint64_t generation, const ExchangeMessage& message,
                      const SharedBytes& payload) = 0;
  virtual void tick() = 0;
  virtual TimePoint next_deadline() const = 0;     // when tick() has something to do next

  // The peer's lives before `generation` are over for good: it came back with this one, or its tombstone expired
  // (kEveryLife). A peer that is only dead may be cut off, and may still hold a half of an exchange.
  virtual void forget(const PeerId& peer, uint64_t generation) = 0;

  // What ended since the last call: the deltas that were decided, which the caller applies all at its boundary and in
  // this order, and what its encoder learns from every exchange, failed ones too.
  virtual Decided take_decided() = 0;
  virtual std::vector<ExchangeReport> take_reports() = 0;

  virtual ExchangeStatus status() const = 0;
};

inline BlockTally& BlockTally::operator+=(const BlockTally& other) {
  due += other.due;
  counted += other.counted;
  old += other.old;
  late += other.late;
  missing += other.missing;
  dead += other.dead;
  refused += other.refused;
  injected += other.injected;
  averages_due += other.averages_due;
  averages_counted += other.averages_counted;
  ignored_messages += other.ignored_messages;
  return *this;
}

}  // namespace starling
