#include "agent/process/trust_watch.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "agent/process/admissions.h"
#include "agent/report/format.h"

namespace starling {
namespace {

constexpr Duration kLookEvery = std::chrono::seconds(1);
constexpr uint64_t kDay = 24 * 3600, kWarnBefore = 7 * kDay, kWarnExpiredEvery = 600;  // seconds

// `again_at`: when to warn next; beyond a day, others' clocks have corrected this one since.
bool warned_lately(uint64_t again_at, uint64_t now) { return now < again_at && again_at <= now + kDay; }

}  // namespace

TrustWatch::TrustWatch(const StatePlace& place, const Trusted& trusted, ZmqTransport& transport, const Clock& clock,
                       MemberClocks& clocks, std::function<void(std::string_view entries)> revoke,
                       std::function<size_t()> others, std::function<bool(const PeerId& member)> lives)
    : place_(place),
      transport_(transport),
      clock_(clock),
      clocks_(clocks),
      revoke_(std::move(revoke)),
      others_(std::move(others)),
      lives_(std::move(lives)),
      revocations_(trusted.revocations),
      keys_(trusted.keys),
      next_look_(clock.now()),
      clock_notice_(clock) {
  if (!revocations_) return;
  for (const PeerId& id : revocations_->ids()) told_.insert(id);
}

TimePoint TrustWatch::next_deadline() const { return revocations_ ? next_look_ : TimePoint::max(); }

void TrustWatch::tick() {
  const std::string foreign = keys_ ? transport_.take_foreign(keys_->swarm()) : "";
  if (!foreign.empty()) {
    spdlog::warn(
        "in the swarm of {}, {}. It has the swarm's link key, but no membership. If that machine is to be a member, "
        "give it a ticket of "
        "this swarm; else nothing need be done",
        place_.folder(), foreign);
  }
  if (!revocations_ || clock_.now() < next_look_) return;
  next_look_ = clock_.now() + kLookEvery;
  if (place_.holds_certified_key()) {
    if (changed(kAdmissionsFile)) read_admissions_again();
  } else if (changed("ticket")) {
    take_next_ticket();
  }
  keep_revocations();
  if (clocks_.heard(others_())) {
    warn_of_end();
    warn_of_others_ends();
  }
  warn_of_clock();
}

// Since the last call. A file that is replaced is another one.
bool TrustWatch::changed(const std::string& name) {
  struct stat info{};
  std::string stamp;
  if (::stat((place_.folder() + "/" + name).c_str(), &info) == 0) {
    stamp = fmt::format("{} {} {} {}", info.st_ino, info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
  }
  return std::exchange(stamp_, stamp) != stamp && !stamp.empty();
}

void TrustWatch::read_admissions_again() {
  try {
    revoke_(revocations_in(place_.folder()));
    place_.remember_admissions();
    ends_.clear();
    for (const SignedRow& row : read_admissions(place_.folder())) {
      uint64_t& end = ends_.try_emplace(row.id, row.not_after).first->second;
      end = end == 0 || row.not_after == 0 ? 0 : std::max(end, row.not_after);
    }
    std::erase_if(ends_, [](const auto& one) { return one.second == 0; });
  } catch (const std::runtime_error& error) {
    spdlog::warn("what this swarm's key has signed cannot be read: {}", error.what());
  }
}

void TrustWatch::take_next_ticket() {
  try {
    const std::optional<Ticket> ticket = stored_ticket(place_.folder());
    if (!ticket) return;
    const auto keys = keys_of_ticket(*ticket, place_, keys_->swarm());
    if (keys->door().open != keys_->door().open) {  // a hand has changed it
      throw std::runtime_error("it does not open this swarm's ports: take the one of `starling admit`");
    }
    const SignedMembership &next = keys->membership(), &held = keys_->membership();
    if (next.serial == held.serial && next.not_after == held.not_after) return;
    if (const uint64_t now = clocks_.now(); has_expired(next.not_after, now)) {
      if (!clocks_.heard(others_())) return stamp_.clear();  // looked at again
      throw std::runtime_error(expired_text(*keys, now, "most clocks here:"));
    }
    keys_ = keys;
    transport_.renew(keys);
    next_warning_ = 0;
    spdlog::info("this agent has another ticket: it is a member {}", until_text(next.not_after));
    keep_ticket(*ticket);
  } catch (const std::runtime_error& error) {
    spdlog::warn("{}/ticket is not taken: {}", place_.folder(), error.what());
  }
}

// For the next life, without an identity that came with it.
void TrustWatch::keep_ticket(const Ticket& ticket) {
  try {
    place_.keep_ticket(ticket);
    (void)changed("ticket");
  } catch (const std::runtime_error& error) {
    spdlog::warn("the next ticket is taken, but not stored as a restart needs it: {}", error.what());
  }
}

void TrustWatch::keep_revocations() {
  if (revocations_->count() == kept_count_) return;
  kept_count_ = revocations_->count();
  for (const PeerId& id : revocations_->ids()) {
    if (told_.insert(id).second && id != place_.id()) {
      spdlog::info("{} is revoked by the holder of this swarm's key: nothing of it is taken any more", id.short_name());
    }
  }
  try {
    place_.keep_revocations(revocations_->bytes());
  } catch (const std::runtime_error& error) {
    spdlog::warn(
        "a restart of this agent would know of no revocation until others tell it ({}); make that file writable",
        error.what());
  }
  if (revocations_->full()) {
    spdlog::warn(
        "this swarm has {} revocations, and takes no more: begin another one from the trained model "
        "(starling init --from {} new.yaml)",
        kRevocationsMax, place_.folder());
  }
  if (revocations_->contains(place_.id())) throw std::runtime_error(revoked_text(place_.id()));
}

void TrustWatch::warn_of_end() {
  const SignedMembership& membership = keys_->membership();
  const uint64_t now = clocks_.now();
  if (membership.not_after == 0 || now + kWarnBefore < membership.not_after) return;
  if (warned_lately(next_warning_, now)) return;
  const bool ended = has_expired(membership.not_after, now);
  next_warning_ = ended ? now + kWarnExpiredEvery : std::min(now + kDay, membership.not_after + 1);
  spdlog::warn(
      "this agent's membership {} on {}: {}. Ask the holder of the swarm's key for the ticket of `starling admit {}`, "
      "and write it into {}/ticket; no restart is needed",
      ended ? "has expired" : "ends", date_text(membership.not_after),
      ended ? "no other member takes anything of it" : "then no other member takes anything of it", place_.id().hex(),
      place_.folder());
}

// The holder of the key renews them, and may not look at the logs of their agents.
void TrustWatch::warn_of_others_ends() {
  const uint64_t now = clocks_.now();
  for (const auto& [id, end] : ends_) {
    if (now + kWarnBefore < end || has_expired(end, now) || !lives_(id)) continue;
    Warned& warned = warned_[id];
    if (warned.end == end && warned_lately(warned.again_at, now)) continue;
    warned = {end, now + kDay};
    spdlog::warn(
        "the membership of {} ends on {}: then no other member takes anything of it. `starling admit {} --state {}` "
        "here renews it: write that ticket into the file `ticket` of its state folder",
        id.short_name(), date_text(end), id.hex(), place_.folder());
  }
}

// Others judge memberships by their clocks, and so does this machine where there are two others.
void TrustWatch::warn_of_clock() {
  const int64_t day = static_cast<int64_t>(kDay), ahead = clocks_.ahead_s();
  const size_t told = clocks_.count();
  if (std::abs(ahead) < day || (told == 1 && others_() > 1)) return;
  clock_notice_.say(fmt::format(
      "in the swarm of {}, this machine's clock is {} {} {}: set it right, {}", place_.folder(),
      print_count(static_cast<uint64_t>((std::abs(ahead) + day / 2) / day), "day"), ahead > 0 ? "ahead of" : "behind",
      told > 1 ? fmt::format("the clocks of {} other members", told) : "the clock of the only other member",
      told > 1 ? "until then memberships end by theirs"
               : "or the other one; until then each ends memberships by its own"));
}

}  // namespace starling
