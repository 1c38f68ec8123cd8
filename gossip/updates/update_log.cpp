#include "gossip/updates/update_log.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>

#include "gossip/net/hash.h"
#include "kernels/check.h"

namespace starling {
namespace {

// The lower one of the two in the middle: half of the entries may be those of one lying owner.
template <typename Part>
float median(const std::vector<RecentEntry>& recent, Part part) {
  std::vector<float> norms;
  for (const RecentEntry& entry : recent) norms.push_back(entry.*part);
  const auto middle = norms.begin() + static_cast<std::ptrdiff_t>((norms.size() - 1) / 2);
  std::nth_element(norms.begin(), middle, norms.end());
  return *middle;
}

bool is_zero(const CountedPayload& payload) { return payload.norm == 0; }

// Of the payloads that are not zero: who has nothing to hand in says nothing about what is usual. `otherwise`: all are.
float payload_median(const std::vector<CountedPayload>& counted, float otherwise) {
  std::vector<float> norms;
  for (const CountedPayload& payload : counted) {
    if (!is_zero(payload)) norms.push_back(payload.norm);
  }
  if (norms.empty()) return otherwise;
  const auto middle = norms.begin() + static_cast<std::ptrdiff_t>((norms.size() - 1) / 2);
  std::nth_element(norms.begin(), middle, norms.end());
  return *middle;
}

class HashedFields {
 public:
  template <typename T>
  void put(T value) {  // little end first on every machine: wire.cpp refuses to build on others
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), bytes, bytes + sizeof value);
  }
  void put(const Digest16& digest) {
    for (uint8_t byte : digest) bytes_.push_back(static_cast<std::byte>(byte));
  }
  void put(const PeerId& id) {
    for (uint8_t byte : id.bytes) bytes_.push_back(static_cast<std::byte>(byte));
  }
  Digest16 hash() const { return blake2b_128(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace

bool greater(const LogHead& a, const LogHead& b) {
  return a.weight != b.weight ? a.weight > b.weight : a.hash > b.hash;
}

Digest16 entry_hash(const LogEntry& entry, const Digest16& payload_hash) {
  HashedFields fields;
  fields.put(entry.previous);
  fields.put(entry.slice);
  fields.put(entry.head.length);
  fields.put(entry.head.weight);
  fields.put(entry.round);
  fields.put(entry.divisor);
  for (const CountedPayload& payload : entry.counted) {
    fields.put(payload.peer);
    fields.put(payload.generation);
    fields.put(payload.seq);
    fields.put(payload.scale);
    fields.put(payload.norm);
  }
  fields.put(entry.codec);
  for (const uint8_t byte : entry.plan) fields.put(byte);
  fields.put(payload_hash);
  return fields.hash();
}

std::optional<float> UpdateLog::payload_norm_max() const {
  if (recent_.size() < kRecentEntries) return std::nullopt;
  return kNormRatioMax * median(recent_, &RecentEntry::payload_norm);
}

float UpdateLog::factor(double norm) const {
  const bool early = recent_.size() < kRecentEntries;
  const double limit = early ? static_cast<double>(first_norm_max_)
                             : static_cast<double>(kNormRatioMax) * median(recent_, &RecentEntry::norm);
  return norm <= limit || limit <= 0 ? 1 : static_cast<float>(limit / norm);
}

LogStatus UpdateLog::append(const LogEntry& entry, SharedBytes payload, const Digest16& payload_hash, double norm) {
  if (!is_next(entry)) return LogStatus::kNotNext;
  if (entry.head.weight != head_.weight + entry.counted.size()) return LogStatus::kWrongWeight;
  for (const CountedPayload& counted : entry.counted) {
    if (!table_.may_count(counted.peer, counted.generation, counted.seq)) return LogStatus::kCountedTwice;
  }
  if (entry_hash(entry, payload_hash) != entry.head.hash) return LogStatus::kWrongHash;
  // The norms before any limit: after an honest jump the median follows within half of the entries.
  const double norm_max = std::numeric_limits<float>::max();
  const auto measured = static_cast<float>(std::min(norm, norm_max));
  const bool zero = measured == 0;
  const auto zeros = std::count_if(entry.counted.begin(), entry.counted.end(), is_zero);
  const bool quiet = 2 * static_cast<size_t>(zeros) > entry.counted.size();
  const RecentEntry before = recent_.empty() ? RecentEntry() : recent_.back();
  const RecentEntry recent{entry.head.hash, zero ? before.norm : measured,
                           payload_median(entry.counted, before.payload_norm)};
  LoggedEntry logged{entry, std::move(payload), factor(norm), recent, quiet};
  for (const CountedPayload& counted : entry.counted) table_.count(counted, entry.head.length);
  head_ = entry.head;
  recent_.push_back(recent);
  if (recent_.size() > kRecentEntries) recent_.erase(recent_.begin());
  entries_.push_back(std::move(logged));
  if (entries_.size() > kRecentEntries) entries_.pop_front();
  drop_old_payloads();
  return LogStatus::kOk;
}

void UpdateLog::drop_old_payloads() {
  size_t count = 0, bytes = 0;
  for (auto logged = entries_.rbegin(); logged != entries_.rend(); ++logged) {
    bytes += logged->payload.size;
    if (++count > kPayloadsMin && bytes > payload_bytes_max_) logged->payload = {};
  }
}

void UpdateLog::adopt(const SliceState& state) {
  head_ = state.head;
  table_ = CountedTable(state.table);
  recent_ = state.recent;
  entries_.clear();
}

std::optional<std::vector<LoggedEntry>> UpdateLog::after(const LogHead& head) const {
  const auto follows = [&](const LoggedEntry& logged) { return logged.entry.previous == head.hash; };
  const auto first = std::find_if(entries_.begin(), entries_.end(), follows);
  if (first == entries_.end() || first->payload.empty()) return std::nullopt;  // those after it have theirs
  return std::vector<LoggedEntry>(first, entries_.end());
}

bool UpdateLog::counts_nothing_of(const std::vector<PeerId>& members) const {
  constexpr size_t kTimes = 2;
  std::map<PeerId, size_t> times;
  for (auto logged = entries_.rbegin(); logged != entries_.rend(); ++logged) {
    const std::vector<CountedPayload>& counted = logged->entry.counted;
    if (!std::all_of(counted.begin(), counted.end(), is_zero)) break;
    for (const CountedPayload& payload : counted) ++times[payload.peer];
  }
  return std::all_of(members.begin(), members.end(), [&](const PeerId& member) { return times[member] >= kTimes; });
}

bool UpdateLog::has_recent(const Digest16& hash) const {
  return std::any_of(recent_.begin(), recent_.end(), [&](const RecentEntry& entry) { return entry.hash == hash; });
}

}  // namespace starling
