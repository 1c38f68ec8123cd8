#include "bootstrap/seed_calls.h"

#include <algorithm>
#include <chrono>
#include <variant>

#include "gossip/net/hash.h"

namespace starling {
namespace {

constexpr Duration kCallEvery = std::chrono::seconds(5);
constexpr Duration kAnswerPatience = std::chrono::seconds(15);  // several calls

}  // namespace

SeedCalls::SeedCalls(ContactOptions options, const Endpoint& own, Router& router, const Clock& clock, uint64_t rng_seed)
    : options_(std::move(options)),
      router_(router),
      clock_(clock),
      rng_seed_(rng_seed),
      asked_(all_addresses(options_), own, router, secret_number(router.secret(), rng_seed)),
      addresses_(asked_.count()) {}

void SeedCalls::begin(const std::string& settings) {
  options_.settings = settings;
  options_.signature = router_.signature();
  contact_ = std::make_unique<Contact>(options_, router_.membership(), clock_, router_, rng_seed_, router_.secret());
  began_ = clock_.now();
}

void SeedCalls::handle(const FrameHeader& header, const BootstrapMessage& message) {
  if (contact_) contact_->handle(header, message);
  if (asked_.show_cookie(message, router_.membership().self(), router_.settings(), router_.signature())) return;
  if (const std::optional<size_t> asked = asked_.answered(message)) hear(*asked, header, message);
}

void SeedCalls::hear(size_t asked, const FrameHeader& header, const BootstrapMessage& message) {
  Address& address = addresses_[asked];
  address.answered = clock_.now();
  address.refusal.clear();
  address.note.clear();
  const std::string who = header.reply_to.to_string() + " (peer " + header.sender.short_name() + ") ";
  ContactOptions own = options_;
  own.settings = router_.settings();
  const auto* refused = std::get_if<JoinRefused>(&message);
  if (refused && refused->held) return router_.membership().hear_of_self(*refused->held, header.sender);
  if (refused) {
    address.refusal = who + refusal_text(own, refused->reason, refused->settings);
  } else if (const auto* reply = std::get_if<JoinReply>(&message)) {
    if (!reply->note.empty()) address.note = who + reply->note;
    if (reply->settings == router_.settings()) {
      router_.membership().add(reply->members, header.sender);
      router_.membership().prove(header.sender, header.generation);
    } else if (!reply->settings.empty()) {
      address.refusal =
          who + refusal_text(own, "its settings mean the same in other words, so it is another swarm", reply->settings);
    }
  }
  if (!is_named(options_, asked_.address(asked))) address = {.answered = address.answered};
  if (address.refusal.empty()) {
    address.refused.reset();
  } else if (!address.refused) {
    address.refused = address.answered;
  }
}

void SeedCalls::tick() {
  if (contact_) contact_->tick();
}

void SeedCalls::call_again(bool all) {
  if (searching()) contact_->tick();
  const TimePoint now = clock_.now();
  if (now < next_call_) return;
  next_call_ = now + kCallEvery;
  if (!first_call_) first_call_ = now;
  const std::vector<Member> members = router_.membership().alive();
  all |= alone();
  for (size_t i = 0; i < asked_.count(); ++i) {
    if (!all && !is_named(options_, asked_.address(i))) continue;
    const bool known = std::any_of(members.begin(), members.end(), [&](const Member& member) {
      return member.record.endpoint == asked_.address(i) && member.record.meta.role == Role::kAgent;
    });
    if (known) {
      addresses_[i] = {.answered = now};
    } else {
      asked_.ask(i, router_.membership().self(), router_.settings(), router_.signature());
    }
  }
}

TimePoint SeedCalls::next_deadline(bool calls_again) const {
  if (searching()) return contact_->next_deadline();
  return calls_again ? next_call_ : TimePoint::max();
}

bool SeedCalls::alone() const {
  return !router_.membership().any_alive([](const Member& member) { return member.record.meta.role == Role::kAgent; });
}

std::string SeedCalls::no_answer() const {
  const std::string closed = asked_.closed(options_.find_path, options_.bootstrap.size());
  if (!closed.empty()) return "this agent is alone: " + closed;
  if (!first_call_ || clock_.now() - *first_call_ < kAnswerPatience || asked_.count() == 0) return "";
  for (const Address& address : addresses_) {
    if (address.answered && clock_.now() - *address.answered < kAnswerPatience) return "";
  }
  const std::string silent = "this agent is alone: " + asked_.list(options_.find_path) + " do not answer. ";
  if (const std::string lost = asked_.lost_long_answers(); !lost.empty()) return silent + lost;
  const Endpoint& own = router_.membership().self().endpoint;
  if (const Endpoint* accepting = asked_.accepting(options_.find_path)) {
    return silent + describe_no_way_back(*accepting, own);
  }
  const std::string names = asked_.doubt_of_names(options_.find_path);
  return silent + "Either nobody runs there, or " + (names.empty() ? "" : names + ", or ") +
         "the answers do not reach this agent: they are sent to " + own.to_string() +
         " and the next port, which must be open and reachable from "
         "there. Name another address of this machine with --advertise HOST:PORT; behind a router that hides it, no "
         "one can reach it";
}

// The agents at all its addresses said that they end.
bool SeedCalls::all_left() const {
  const std::vector<Member> members = router_.membership().all();
  const auto left = [&](size_t address) {
    return std::any_of(members.begin(), members.end(), [&](const Member& member) {
      return member.state == MemberState::kLeft && member.record.endpoint == asked_.address(address);
    });
  };
  for (size_t i = 0; i < asked_.count(); ++i) {
    if (!left(i)) return false;
  }
  return asked_.count() > 0;
}

std::string SeedCalls::trouble() const {
  std::string text;
  for (const Address& address : addresses_) {
    if (!address.refusal.empty()) text += address.refusal + "\n";
  }
  if (text.empty() && !alone()) return "";  // first what costs little: this is asked at every tick
  if (all_left()) return "";
  if (!text.empty()) return text + refusal_remedy(router_.settings());
  for (const Address& address : addresses_) text += address.note;
  return text.empty() ? no_answer() : "this agent is alone: " + text;
}

bool SeedCalls::refused() const {
  std::optional<TimePoint> first;
  for (const Address& address : addresses_) {
    if (address.answered && !address.refused) return false;
    if (address.refused && (!first || *address.refused < *first)) first = address.refused;
  }
  return first && clock_.now() - *first >= kRefusalPatience;
}

}  // namespace starling
