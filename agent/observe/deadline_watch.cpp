#include "agent/observe/deadline_watch.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <vector>

#include <spdlog/spdlog.h>

#include "agent/report/format.h"

namespace starling {
namespace {

constexpr uint64_t kAttemptsMin = 8;  // exchanges, before the verdict
constexpr Duration kWarningEvery = std::chrono::seconds(30);
constexpr Duration kLateEvery = std::chrono::minutes(1);
constexpr Duration kAfterSilence = std::chrono::seconds(10);

std::string print_ms(Duration duration) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
  return ms % 1000 == 0 ? fmt::format("{}s", ms / 1000) : fmt::format("{}ms", ms);  // as the config writes it
}

// Zero: not measured yet.
Duration median_round_trip(const Membership& membership) {
  std::vector<Duration> measured;
  membership.visit_alive([&](const Member& member) {
    if (member.round_trip > Duration::zero()) measured.push_back(member.round_trip);
  });
  if (measured.empty()) return Duration::zero();
  std::sort(measured.begin(), measured.end());
  return measured[(measured.size() - 1) / 2];
}

// Such members make exchanges late, whatever the deadline: those that do not answer, or did not until they died. Not
// those that never answered: anybody can invent them.
bool many_are_silent(const Membership& membership, TimePoint now) {
  size_t silent = 0, others = 0;
  membership.visit_all([&](const Member& member) {
    const bool lately = member.state == MemberState::kDead && now - member.since < kAfterSilence;
    if (!member.ever_answered || (member.state > MemberState::kSuspect && !lately)) return;
    ++others;
    silent += member.state != MemberState::kAlive;
  });
  return 4 * silent > others;
}

}  // namespace

// A shorter deadline than the longest one is the exchange's own choice, and grows by itself.
void DeadlineWatch::look_at_late(Duration longest, const ExchangeCounts& tally, const LateExchange& last,
                                 TimePoint now) {
  if (tally.late == late_said_ || now < next_late_ || last.lasted < longest * 9 / 10 || last.blocks == 0) return;
  late_said_ = tally.late;
  next_late_ = now + kLateEvery;
  const auto all = static_cast<double>(last.blocks_total) / static_cast<double>(last.blocks);
  spdlog::warn(
      "{} had {} of {} blocks ({} received) when swarm.exchange.deadline_max ended it after {}. That is too short for "
      "this model on this link: all blocks would take about {:.1f} s. Start the swarm with a longer deadline_max, or "
      "send less (swarm.exchange.codec: modulo4, swarm.exchange.fragments)",
      last.with.empty() ? "an exchange" : "an exchange with " + last.with, last.blocks, last.blocks_total,
      print_bytes(last.bytes), print_ms(last.lasted), seconds(last.lasted) * all);
}

void DeadlineWatch::look(Duration longest, const ExchangeStatus& exchange, const ExchangeCounts& tally,
                         const std::optional<LateExchange>& last_late, const Membership& membership, TimePoint now) {
  const Duration least = exchange.latencies * median_round_trip(membership) / 2;  // whatever the size
  const bool nothing_in_time = exchange.block_tally.counted == 0;
  if (nothing_in_time && tally.done + tally.late + tally.failed >= kAttemptsMin && least > longest) {
    throw std::runtime_error("the other agents are " + print_ms(median_round_trip(membership)) +
                             " away, there and "
                             "back, and swarm.exchange.deadline_max gives up after " +
                             print_ms(longest) +
                             ": no exchange can end in time; start the swarm with a deadline_max of " +
                             print_ms(3 * median_round_trip(membership)) + " or more, or this agent nearer to it");
  }
  if (many_are_silent(membership, now)) {
    late_said_ = tally.late;
    next_warning_ = std::max(next_warning_, now + kAfterSilence);
    return;
  }
  if (last_late) look_at_late(longest, tally, *last_late, now);
  if (exchange.usual_duration < longest || now < next_warning_) return;
  next_warning_ = now + kWarningEvery;
  spdlog::warn(
      "half of the exchanges take {} or longer, and swarm.exchange.deadline_max gives up after {}: most come "
      "to nothing; start the swarm with a longer one, or a smaller payload",
      print_ms(exchange.usual_duration), print_ms(longest));
}

}  // namespace starling
