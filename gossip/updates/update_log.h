// The log of one slice: a chain of entries, each a merged update of an owner and the list of payloads that it counts.
// Two logs with one head are the same log. Of two logs the one that counted more is the greater; every member moves to
// the greatest that it hears of. Knows no params: slice_replica applies the entries.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "gossip/net/message.h"
#include "gossip/net/transport.h"
#include "gossip/updates/counted_table.h"

namespace starling {

// The order of heads: by weight, then by hash.
bool greater(const LogHead& a, const LogHead& b);

// BLAKE2b-128 of the fields of an entry and of the XXH3-128 of its payload: what head.hash must be.
Digest16 entry_hash(const LogEntry& entry, const Digest16& payload_hash);

// An entry with its payload, as the log took it.
struct LoggedEntry {
  LogEntry entry;
  SharedBytes payload;
  float factor = 1;    // at which it counts: below 1 if it is far larger than the entries before it
  RecentEntry recent;  // what later entries are measured by
  bool quiet = false;  // most of the payloads that it counts are zero: a run ends
};

enum class [[nodiscard]] LogStatus {
  kOk,
  kNotNext,       // it does not follow the head
  kWrongWeight,   // its length or weight is not what its counted payloads make
  kCountedTwice,  // it counts a payload that cannot count any more
  kWrongHash,     // its hash is not that of its bytes
};

class UpdateLog {
 public:
  // An entry counts at most at kNormRatioMax times the median norm of the entries before it. The first kRecentEntries
  // have no such median: they count at most at `first_norm_max`.
  static constexpr float kNormRatioMax = 3;
  // The payloads of so many entries are kept however large they are: nearly all members that miss entries miss one.
  static constexpr size_t kPayloadsMin = 2;

  // `payload_bytes_max`: beyond it, those of older entries are dropped. The size of the slice's whole state, because a
  // member that misses more bytes of entries is better served with the state.
  UpdateLog(float first_norm_max, size_t payload_bytes_max)
      : first_norm_max_(first_norm_max), payload_bytes_max_(payload_bytes_max) {}

  // Whether the newest entries count only payloads of zeros, and each of these members twice or more.
  bool counts_nothing_of(const std::vector<PeerId>& members) const;

  const LogHead& head() const { return head_; }
  const CountedTable& table() const { return table_; }
  const std::vector<RecentEntry>& recent() const { return recent_; }  // the newest last

  // The limit for the norm of a payload; nullopt: not known yet. For owners.
  std::optional<float> payload_norm_max() const;

  bool is_next(const LogEntry& entry) const {
    return entry.previous == head_.hash && entry.head.length == head_.length + 1;
  }
  // `payload_hash`: its XXH3-128; `norm`: its Euclidean norm. Unchanged unless kOk.
  LogStatus append(const LogEntry& entry, SharedBytes payload, const Digest16& payload_hash, double norm);
  const LoggedEntry& newest() const { return entries_.back(); }  // REQUIRES: one was appended

  // Another log takes the place of this one.
  void adopt(const SliceState& state);

  const std::deque<LoggedEntry>& entries() const { return entries_; }  // the newest last; older ones without payload

  // The entries after that head, oldest first. nullopt: it is not among the last kRecentEntries, or one of the payloads
  // was dropped.
  std::optional<std::vector<LoggedEntry>> after(const LogHead& head) const;
  // Whether the entry with this hash is the head or one of the kRecentEntries before it.
  bool has_recent(const Digest16& hash) const;
  // Whether a log with this head, which is not greater, is of another log, or far behind this one.
  bool is_apart(const LogHead& head) const { return head.length > 0 && !has_recent(head.hash); }

 private:
  float factor(double norm) const;
  void drop_old_payloads();

  const float first_norm_max_;
  const size_t payload_bytes_max_;
  LogHead head_;
  CountedTable table_;
  std::vector<RecentEntry> recent_;
  std::deque<LoggedEntry> entries_;  // at most kRecentEntries; the older ones perhaps without payload
};

}  // namespace starling
