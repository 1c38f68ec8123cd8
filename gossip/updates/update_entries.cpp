#include "gossip/updates/update_entries.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "gossip/net/hash.h"

namespace starling {

UpdateEntries::UpdateEntries(size_t element_count, const UpdateCodecs& codecs, Worker& worker, UpdateRefusals& refusals,
                             std::function<void()> on_checked)
    : element_count_(element_count),
      codecs_(codecs),
      worker_(worker),
      refusals_(refusals),
      on_checked_(std::move(on_checked)) {}

UpdateEntries::Key UpdateEntries::key_of(const LogEntry& entry) {
  Digest16 parts{};
  std::memcpy(parts.data(), &entry.parts, sizeof entry.parts);
  return {entry.head.hash, entry_hash(entry, parts)};
}

void UpdateEntries::add(const PeerId& from, const LogEntry& entry, const SharedBytes& part, const UpdateLog& log) {
  const uint64_t length = log.head().length;
  if (entry.head.length <= length || entry.head.length > length + kHeldMax) return;
  const Key key = key_of(entry);
  const auto [at, fresh] = items_.try_emplace(key, Item{entry, from, {}});
  if (at->second.state != State::kAssembling) return;
  if (at->second.from != from) at->second.from.reset();
  at->second.parts.add(entry.part, entry.parts, part);
  const bool complete = at->second.parts.complete();
  if (complete) check(key);
  if (fresh) make_room();
}

// The sender of most of them makes room, or a liar's would leave none for the true one. Of these the one that follows
// last: those before it are needed first.
void UpdateEntries::make_room() {
  if (items_.size() <= kHeldMax) return;
  std::map<std::optional<PeerId>, size_t> counts;
  for (const auto& [key, item] : items_) ++counts[item.from];
  const auto rank = [&](const Item& item) { return std::pair(counts[item.from], item.entry.head.length); };
  items_.erase(std::max_element(items_.begin(), items_.end(),
                                [&](const auto& a, const auto& b) { return rank(a.second) < rank(b.second); }));
}

// What is not what its hash says is forgotten at once: another member may send the true one.
void UpdateEntries::check(const Key& key) {
  struct Job {
    SharedBytes payload;
    uint8_t codec = 0;
    bool good = false;
    Digest16 payload_hash{};
    double norm = 0;
  };
  Item& item = items_.at(key);
  item.state = State::kChecking;
  auto job = std::make_shared<Job>(Job{item.parts.whole(), item.entry.codec});
  auto run = [job, &codecs = codecs_, count = element_count_] {
    const UpdateCodec& codec = *codecs.of(job->codec);
    const std::optional<double> norm = codec.checked_norm(UpdateRole::kEntry, job->payload.span(), count);
    job->good = norm.has_value();
    job->norm = norm.value_or(0);
    job->payload_hash = xxh3_128(job->payload.span());
  };
  auto done = [this, job, key, still_here = std::weak_ptr<int>(alive_)] {
    if (still_here.expired()) return;
    const auto at = items_.find(key);
    if (at == items_.end() || at->second.state != State::kChecking) return;
    const bool true_hash = entry_hash(at->second.entry, job->payload_hash) == key.first;
    at->second.state = job->good ? State::kChecked : State::kBad;
    at->second.payload_hash = job->payload_hash;
    at->second.norm = job->norm;
    if (!job->good || !true_hash) refusals_.note(&UpdateRefusals::entries, at->second.from);
    if (!true_hash) items_.erase(at);
    on_checked_();
  };
  worker_.submit(std::move(run), std::move(done));
}

const UpdateEntries::Item* UpdateEntries::whole(const Digest16& hash) const {
  for (auto at = items_.lower_bound({hash, {}}); at != items_.end() && at->first.first == hash; ++at) {
    if (at->second.state == State::kChecking || at->second.state == State::kChecked) return &at->second;
  }
  return nullptr;
}

bool UpdateEntries::connects(const Digest16& hash, const UpdateLog& log) const {
  const Item* at = whole(hash);
  for (size_t i = 0; i < items_.size() && at != nullptr; ++i) {
    if (log.is_next(at->entry)) return true;
    at = whole(at->entry.previous);
  }
  return false;
}

size_t UpdateEntries::bytes(HeldBytes& held) const {
  size_t bytes = 0;
  for (const auto& [key, item] : items_) bytes += held.add(item.parts.held());
  return bytes;
}

bool UpdateEntries::checking() const {
  return std::any_of(items_.begin(), items_.end(),
                     [](const auto& item) { return item.second.state == State::kChecking; });
}

bool UpdateEntries::append_next(UpdateLog& log) {
  bool appended = false;
  for (auto& [key, item] : items_) {
    if (item.state != State::kChecked || !log.is_next(item.entry)) continue;
    appended = log.append(item.entry, item.parts.whole(), item.payload_hash, item.norm) == LogStatus::kOk;
    if (appended) break;
    item.state = State::kBad;
    refusals_.note(&UpdateRefusals::entries, item.from);
  }
  std::erase_if(items_, [&](const auto& item) { return item.second.entry.head.length <= log.head().length; });
  return appended;
}

}  // namespace starling
