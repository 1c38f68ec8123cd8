// The payloads that the log of a slice counts: one row for each process that was ever counted, kept while there is
// room. Part of the replicated state: members with one head have equal tables. A counted payload, or one that is older
// than the newest one of its sender, cannot count again in that log, with any owner.
#pragma once

#include <cstdint>
#include <vector>

#include "gossip/limits.h"
#include "gossip/net/message.h"

namespace starling {

// What of a sender's payloads a log counts.
enum class Counting { kCounted, kNot, kUnknown };  // kUnknown: its row has gone, or is past it

class CountedTable {
 public:
  // The log may grow by so many entries after a payload was encoded before that payload is void.
  static constexpr uint64_t kEntriesToCount = kRecentEntries;
  // A seq is at most so far beyond the one before: more than anybody hands in uncounted, and few enough that no liar's
  // entry uses all of them up.
  static constexpr uint64_t kSeqStepMax = 1ull << 32;
  // Honest members seldom hand in more that nobody counts. Before a larger step the table remembers what was counted: a
  // liar's step would move all of that out of the window. A member that takes this table over would then not know which
  // of its own work is counted.
  static constexpr uint64_t kUsualStepMax = 8;

  CountedTable() = default;
  explicit CountedTable(std::vector<CountedRow> rows) : rows_(std::move(rows)) {}  // as in SliceState

  const std::vector<CountedRow>& rows() const { return rows_; }  // ascending by peer
  const CountedRow* row(const PeerId& peer) const;               // null: none

  Counting counting(const PeerId& peer, uint64_t generation, uint64_t seq) const;

  // Whether a payload can still be counted by the entry after `length` of them. `encoded_at`: its sender's length.
  bool may_count(const PeerId& peer, uint64_t generation, uint64_t seq) const;
  // Whether the log counted anything of this sender after it had this length. What was encoded then holds that too.
  bool counted_since(const PeerId& peer, uint64_t generation, uint64_t encoded_at) const;
  static bool too_old(uint64_t encoded_at, uint64_t length) { return length > encoded_at + kEntriesToCount; }

  // Whether this table counts every payload that the other does, as far as it can be known.
  bool counts_all_of(const CountedTable& other) const;

  // `length`: of the log that ends with the entry. REQUIRES: may_count(). Beyond kCountedRowsMax the row goes that
  // counted nothing for longest.
  void count(const CountedPayload& payload, uint64_t length);

  bool operator==(const CountedTable&) const = default;

 private:
  std::vector<CountedRow> rows_;
};

}  // namespace starling
