// The payloads of one slice that a member handed in and still holds. Those are the ones that may yet count, and the
// newest counted one, because another log may lack it. Void ones are kept for a while, because another log may count
// them. Of older ones, as much as costs little: otherwise a payload under way at a cut would count twice.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "gossip/net/transport.h"

namespace starling {

class CountedTable;
struct PeerId;

struct SentPayload {
  // How much of it was taken out of the accumulator: coefficient * payload, on the support of the entry.
  struct Settled {
    float coefficient = 1;
    uint8_t entry_codec = 0;  // 0: everywhere
    SharedBytes entry{};
  };
  uint64_t seq = 0;
  uint64_t length = 0;  // of the log when it was encoded
  uint8_t codec = 0;    // UpdateKind
  SharedBytes bytes{};
  std::optional<Settled> settled{};
  bool retired = false;  // a long split made it part of the drift; it is not handed in again
  bool past = false;     // held only in case that another log counts it; for all else it is gone
};

class SentPayloads {
 public:
  // So many of a slice may wait to be counted, and more while they are small. A member that loses several in a row
  // would hand in the newest of them again, without the drift that came since.
  static constexpr size_t kLiveMax = 2, kSmallLiveMax = 8;
  static constexpr size_t kSmallBytes = 1 << 20;  // together, of a slice
  static bool may_join(const std::vector<const SentPayload*>& live);

  // Of past payloads as many are held as are no larger than a quarter of the slice in fp32, or than kPastBytes.
  static constexpr size_t kPastMax = 128, kPastBytes = 32 * 1024;

  explicit SentPayloads(size_t element_count) : past_bytes_max_(std::max(kPastBytes, element_count)) {}

  std::vector<SentPayload>& all() { return sent_; }  // ascending by seq
  const std::vector<SentPayload>& all() const { return sent_; }
  SentPayload* find(uint64_t seq);  // null: not held
  const SentPayload* find(uint64_t seq) const;

  // Those that the log may yet count. Each was made from the whole accumulator, so one of them at most counts.
  std::vector<const SentPayload*> live(const CountedTable& table, const PeerId& self, uint64_t generation,
                                       uint64_t length) const;

  const SentPayload& add(uint64_t length, uint8_t codec, SharedBytes bytes);  // under the next seq
  void prune(const CountedTable& table, const PeerId& self, uint64_t generation, uint64_t length);
  void clear() { sent_.clear(); }
  uint64_t newest_seq() const { return newest_seq_; }  // 0: none was ever handed in
  // The log counts this one, which may never have been handed in: a liar's entry. Smaller ones cannot count any more.
  void skip_to(uint64_t seq);
  bool was_handed_in(uint64_t seq) const;

 private:
  void drop_past();

  const size_t past_bytes_max_;
  std::vector<SentPayload> sent_;
  uint64_t newest_seq_ = 0;
  std::deque<std::pair<uint64_t, uint64_t>> skipped_;  // first and last; the newest of them
};

}  // namespace starling
