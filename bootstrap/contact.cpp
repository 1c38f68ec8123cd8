#include "bootstrap/contact.h"

#include <algorithm>
#include <utility>
#include <variant>

namespace starling {
namespace {

std::string list(const std::vector<Endpoint>& endpoints) {
  std::string text;
  for (const Endpoint& endpoint : endpoints) text += (text.empty() ? "" : ", ") + endpoint.to_string();
  return text;
}

}  // namespace

Contact::Contact(const ContactOptions& options, Membership& membership, const Clock& clock, Outbox& outbox,
                 uint64_t rng_seed)
    : options_(options), membership_(membership), clock_(clock), outbox_(outbox), rng_(rng_seed),
      started_(clock.now()), next_attempt_(clock.now()), backoff_(options.retry_min) {
  std::erase(options_.bootstrap, membership_.self().endpoint);   // asking ourselves answers nothing
}

TimePoint Contact::next_deadline() const {
  return state_ == State::kSearching ? next_attempt_ : TimePoint::max();
}

// Asks all addresses at once, because the only good one may be the last of the list. Full jitter spreads the requests
// of many newcomers over time.
void Contact::tick() {
  const TimePoint now = clock_.now();
  if (state_ != State::kSearching) return;
  if (refused_ && now - *refused_ > kRefusalPatience) state_ = State::kRefused;
  if (state_ != State::kSearching || now < next_attempt_) return;
  ++attempts_;
  for (const Endpoint& address : options_.bootstrap) {
    outbox_.send(address, Join{membership_.self(), options_.settings});
  }
  backoff_ = std::min(2 * backoff_, options_.retry_max);
  next_attempt_ =
      now + options_.retry_min + from_seconds(rng_.uniform() * seconds(backoff_ - options_.retry_min));
}

void Contact::handle(const FrameHeader& header, const BootstrapMessage& message) {
  if (state_ != State::kSearching) return;
  if (const auto* reply = std::get_if<JoinReply>(&message)) {
    take(header, *reply);
  } else if (const auto* refused = std::get_if<JoinRefused>(&message)) {
    refuse(header, refused->reason, refused->settings);
  }
}

void Contact::take(const FrameHeader& header, const JoinReply& reply) {
  met_empty_registry_ = reply.settings.empty();
  if (met_empty_registry_ && options_.settings.empty()) {
    return;   // neither side has settings yet: keep asking
  }
  if (!options_.settings.empty() && !reply.settings.empty() && reply.settings != options_.settings) {
    if (!options_.compare || !options_.compare(reply.settings, options_.settings).empty()) {
      refuse(header, "it welcomes this agent with other settings", reply.settings);
      return;
    }
    // The same settings in another text: the other side's text is adopted. Of two agents that begin together only one
    // may adopt the other's.
    const bool begins_too = !reply.members.empty() && reply.members.front().id == header.sender &&
                            reply.members.front().meta.role == Role::kAgent &&
                            reply.members.front().meta.phase == Phase::kJoining;
    if (begins_too && options_.settings < reply.settings) return;
  }
  if (options_.settings.empty() && options_.problem_of) {
    const std::string problem = options_.problem_of(reply.settings);
    if (!problem.empty()) return pass_over(header, "has settings that this program cannot use: " + problem);
  }
  settings_ = reply.settings.empty() ? options_.settings : reply.settings;
  for (const PeerRecord& record : reply.members) membership_.add(record);
  state_ = State::kAnswered;
}

// The other side lists the differences from its own point of view, so they are listed anew, with this agent as "here".
void Contact::refuse(const FrameHeader& header, const std::string& reason, const std::string& theirs) {
  const std::string difference = options_.compare ? options_.compare(options_.settings, theirs) : "";
  pass_over(header, difference.empty() ? "belongs to another swarm; it says: " + reason
                                       : "belongs to another swarm (here: this agent; there: that swarm):\n" +
                                             difference);
}

void Contact::pass_over(const FrameHeader& header, const std::string& why) {
  if (refusals_.size() >= options_.bootstrap.size()) return;
  refusals_[header.sender] = header.reply_to.to_string() + " (peer " + header.sender.short_name() + ") " + why;
  if (!refused_) refused_ = clock_.now();
  if (refusals_.size() >= options_.bootstrap.size()) state_ = State::kRefused;
}

std::string Contact::refusal() const {
  std::string text;
  for (const auto& [peer, why] : refusals_) text += why + "\n";
  if (options_.settings.empty()) return text + "Give the address of another member with --bootstrap";
  return text + "To join that swarm, start without --config and with a new folder (--state). To join your own, give "
                "the address of one of its members with --bootstrap";
}

std::string Contact::waiting_for() const {
  const auto waited = std::chrono::duration_cast<std::chrono::seconds>(clock_.now() - started_).count();
  if (options_.bootstrap.empty()) return "no address to join through; give one with --bootstrap HOST:PORT";
  if (refused_by_some()) {
    return "some of " + list(options_.bootstrap) + " cannot be joined, the others do not answer (" +
           std::to_string(waited) + " s): " + refusals_.begin()->second;
  }
  if (met_empty_registry_) {
    return "the registry at " + list(options_.bootstrap) + " answers, but has met no swarm yet (" +
           std::to_string(waited) + " s); start one agent with --config, or give this one a config";
  }
  return "no answer from " + list(options_.bootstrap) + " after " + std::to_string(attempts_) +
         (attempts_ == 1 ? " try" : " tries") + " in " + std::to_string(waited) +
         " s; is an agent or registry running there, and its port and the next one open? Trying on";
}

}  // namespace starling
