#include "bootstrap/join_gate.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <span>

#include <fmt/format.h>

#include "bootstrap/peer_troubles.h"
#include "gossip/limits.h"
#include "gossip/net/hash.h"
#include "gossip/net/name_cache.h"

namespace starling {
namespace {

constexpr size_t kUnshownMax = 64;
constexpr uint32_t kUnshownJoins = 3;
constexpr Duration kUnshownFor = std::chrono::seconds(4), kUnshownLife = std::chrono::minutes(1);
constexpr Duration kUnshownDoubt = std::chrono::seconds(4);  // a link to an earlier agent there may be made anew

}  // namespace

bool TokenBucket::take(TimePoint now, double per_second, double most) {
  if (at_ != TimePoint{}) spent_ = std::max(0.0, spent_ - per_second * seconds(now - at_));
  at_ = now;
  if (spent_ + 1 > most) return false;
  spent_ += 1;
  return true;
}

JoinGate::Verdict JoinGate::judge(const std::string& host, const Join& join) {
  // Before it shows a cookie, since the oldest programs know of none.
  const bool waits = join.record.meta.phase == Phase::kJoining && join.revision < kOpenRevision;
  if (waits || (sealed_ && join.revision < kProtocolRevision)) {
    return may_answer(host) ? Verdict::kOlder : Verdict::kTooMany;
  }
  const TimePoint now = clock_.now();
  Source& from = source(host);
  from.last = now;
  if (!from.joins.take(now, kJoinsPerSecond, kJoinsAtOnce)) return Verdict::kTooMany;
  const uint64_t current = minute();
  const bool shown = join.cookie == cookie(join.record, current) || join.cookie == cookie(join.record, current - 1);
  if (!shown) {
    note_unshown(host, join);
    return Verdict::kShowCookie;
  }
  unshown_.erase(join.record.endpoint);
  return Verdict::kOpen;
}

void JoinGate::note_unshown(const std::string& host, const Join& join) {
  const TimePoint now = clock_.now();
  std::erase_if(unshown_, [now](const auto& one) { return now - one.second.first >= kUnshownLife; });
  if (unshown_.size() >= kUnshownMax) return;
  Unshown& unshown = unshown_.try_emplace(join.record.endpoint, Unshown{.first = now}).first->second;
  if (++unshown.count < kUnshownJoins || unshown.doubted || now - unshown.first < kUnshownFor) return;
  unshown.doubted = true;
  unshown.due = Unreached{join.record, host, join.nonce};
  unshown.at = now + kUnshownDoubt;
}

std::optional<JoinGate::Unreached> JoinGate::take_unreached() {
  const TimePoint now = clock_.now();
  for (auto& [endpoint, unshown] : unshown_) {
    if (unshown.due && now >= unshown.at) return std::exchange(unshown.due, std::nullopt);
  }
  return std::nullopt;
}

std::string describe_unreached(const JoinGate::Unreached& newcomer, const Endpoint& own) {
  const Endpoint& claimed = newcomer.record.endpoint;
  const std::string source = unmapped(newcomer.source);
  if (claims_loopback(claimed, source, own)) {
    return fmt::format(
        "agent {} at {} names itself {}, where only its own machine reaches it: start it without --listen and "
        "--advertise, or with --advertise {}",
        print_name(newcomer.record), source, claimed.to_string(), Endpoint{source, claimed.port}.to_string());
  }
  return fmt::format(
      "agent {} asks to join from {}, but the answers of {} do not arrive at {}: open that port and the next one, or "
      "start it with --advertise and an address that is reached from here",
      print_name(newcomer.record), source.empty() ? "an unknown address" : source, own.to_string(),
      claimed.to_string());
}

bool claims_loopback(const Endpoint& claimed, const std::string& source, const Endpoint& own) {
  if (!is_loopback(claimed.host)) return false;
  const std::string host = unmapped(source);
  return !host.empty() && !is_loopback(host) && host != own.host;
}

bool JoinGate::may_answer(const std::string& host) {
  Source& from = source(host);
  from.last = clock_.now();
  return from.answers.take(from.last, kJoinsPerSecond, kJoinsAtOnce);
}

uint64_t JoinGate::minute() const {
  return 1 + static_cast<uint64_t>(
                 std::chrono::duration_cast<std::chrono::minutes>(clock_.now().time_since_epoch()).count());
}

uint64_t JoinGate::cookie(const PeerId& id, uint64_t generation, const Endpoint& address, uint64_t minute) const {
  std::array<uint64_t, 4> numbers{secret_, generation, address.port, minute};
  Blake2b256 hash;
  hash.update(std::as_bytes(std::span(numbers)));
  hash.update(std::as_bytes(std::span(id.bytes)));
  hash.update(std::as_bytes(std::span(address.host)));
  const auto digest = hash.finish();
  uint64_t result;
  std::memcpy(&result, digest.data(), sizeof result);
  return result ? result : 1;
}

// Where too many hosts ask, the one that asked longest ago is forgotten, unless it is still within a second: then all
// new ones share one count.
JoinGate::Source& JoinGate::source(const std::string& host) {
  const auto found = sources_.find(host);
  if (found != sources_.end()) return found->second;
  if (sources_.size() < kJoinSourcesMax) return sources_[host];
  const auto oldest = std::min_element(sources_.begin(), sources_.end(),
                                       [](const auto& a, const auto& b) { return a.second.last < b.second.last; });
  if (clock_.now() - oldest->second.last < std::chrono::seconds(1)) return sources_[""];
  sources_.erase(oldest);
  return sources_[host];
}

}  // namespace starling
