#include "bootstrap/seed_calls.h"

#include <algorithm>
#include <chrono>
#include <variant>
#include <vector>

namespace starling {
namespace {

constexpr Duration kCallEvery = std::chrono::seconds(5);

}  // namespace

void SeedCalls::begin(const std::string& settings) {
  options_.settings = settings;
  contact_ = std::make_unique<Contact>(options_, router_.membership(), clock_, router_, rng_seed_);
  began_ = clock_.now();
}

void SeedCalls::handle(const FrameHeader& header, const BootstrapMessage& message) {
  if (contact_) contact_->handle(header, message);
  const auto* reply = std::get_if<JoinReply>(&message);
  if (!reply || reply->settings != router_.settings()) return;
  for (const PeerRecord& record : reply->members) router_.membership().add(record);
}

void SeedCalls::tick() {
  if (contact_) contact_->tick();
}

void SeedCalls::call_again() {
  if (searching()) {
    contact_->tick();
    return;
  }
  const TimePoint now = clock_.now();
  if (now < next_call_) return;
  next_call_ = now + kCallEvery;
  const std::vector<Member> members = router_.membership().alive();
  for (const Endpoint& seed : options_.bootstrap) {
    const bool known = std::any_of(members.begin(), members.end(),
                                   [&](const Member& member) { return member.record.endpoint == seed; });
    if (known || seed == own_) continue;
    router_.send(seed, Join{router_.membership().self(), router_.settings()});
  }
}

TimePoint SeedCalls::next_deadline(bool calls_again) const {
  if (searching()) return contact_->next_deadline();
  return calls_again ? next_call_ : TimePoint::max();
}

}  // namespace starling
