#include "bootstrap/contact.h"

#include <algorithm>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "bootstrap/router.h"
#include "gossip/net/hash.h"

namespace starling {

Contact::Contact(const ContactOptions& options, Membership& membership, const Clock& clock, Outbox& outbox,
                 uint64_t rng_seed, uint64_t secret)
    : options_(options),
      membership_(membership),
      clock_(clock),
      rng_(rng_seed),
      asked_(all_addresses(options), membership.self().endpoint, outbox, secret_number(secret, rng_.next_u64())),
      started_(clock.now()),
      next_attempt_(clock.now()),
      backoff_(options.retry_min) {}

TimePoint Contact::next_deadline() const {
  if (state_ != State::kSearching) return TimePoint::max();
  return refused_ ? std::min(next_attempt_, *refused_ + kRefusalPatience) : next_attempt_;
}

// Asks all addresses at once, because the only good one may be the last of the list; also those that refused, because
// a registry may have met this agent's swarm by now. Full jitter spreads the requests of many newcomers over time.
void Contact::tick() {
  const TimePoint now = clock_.now();
  if (state_ != State::kSearching) return;
  if (refused_ && now - *refused_ >= kRefusalPatience) state_ = State::kRefused;
  if (state_ != State::kSearching || now < next_attempt_) return;
  ++attempts_;
  for (size_t i = 0; i < asked_.count(); ++i) asked_.ask(i, membership_.self(), options_.settings, options_.signature);
  backoff_ = std::min(2 * backoff_, options_.retry_max);
  next_attempt_ = now + options_.retry_min + from_seconds(rng_.uniform() * seconds(backoff_ - options_.retry_min));
}

void Contact::handle(const FrameHeader& header, const BootstrapMessage& message) {
  const auto shows_cookie = [&] {
    return asked_.show_cookie(message, membership_.self(), options_.settings, options_.signature);
  };
  if (state_ != State::kSearching || shows_cookie()) return;
  const std::optional<size_t> asked = asked_.answered(message);
  if (!asked) return;
  if (const auto* reply = std::get_if<JoinReply>(&message)) {
    take(*asked, header, *reply);
  } else if (const auto* refused = std::get_if<JoinRefused>(&message)) {
    if (refused->held) return hear_of_other_self(*asked, header.sender, *refused);
    pass_over(*asked, header.sender, refusal_text(options_, refused->reason, refused->settings));
  }
}

// Passes, as the router finds out whether the other one lives, and this one begins above it if it does not.
void Contact::hear_of_other_self(size_t asked, const PeerId& peer, const JoinRefused& refused) {
  other_self_ = asked_.address(asked).to_string() + " does not let this agent in yet: " + refused.reason;
  membership_.hear_of_self(*refused.held, peer);
}

// Empty: the reply's settings can be this agent's.
std::string Contact::why_not(const JoinReply& reply) const {
  if (!options_.settings.empty()) {
    if (reply.settings.empty() || reply.settings == options_.settings) return "";
    const bool same = options_.compare && options_.compare(options_.settings, reply.settings).empty();
    if (!same) return refusal_text(options_, "it welcomes this agent with other settings", reply.settings);
  } else if (options_.wanted != 0 && swarm_id_of(reply.settings) != options_.wanted) {
    return "belongs to another swarm than --swarm names";
  }
  const std::string problem = problem_of(reply);
  return problem.empty() ? "" : "has settings that this program cannot use: " + problem;
}

std::string Contact::problem_of(const JoinReply& reply) const {
  return options_.problem_of ? options_.problem_of(reply.settings, reply.signature) : "";
}

void Contact::take(size_t asked, const FrameHeader& header, const JoinReply& reply) {
  met_empty_registry_ = reply.settings.empty();
  if (met_empty_registry_ && options_.settings.empty()) return;  // neither side has settings yet: keep asking
  const std::string why = why_not(reply);
  if (!why.empty()) return pass_over(asked, header.sender, why);
  if (!options_.settings.empty() && !reply.settings.empty() && reply.settings != options_.settings) {
    // The same settings in another text: the other side's text is adopted. Of two agents that begin together only one
    // may adopt the other's.
    const bool begins_too = !reply.members.empty() && reply.members.front().id == header.sender &&
                            reply.members.front().meta.role == Role::kAgent &&
                            reply.members.front().meta.phase == Phase::kJoining;
    if (begins_too && options_.settings < reply.settings) return;
  }
  settings_ = reply.settings.empty() ? options_.settings : reply.settings;
  signature_ = reply.settings.empty() || !problem_of(reply).empty() ? options_.signature : reply.signature;
  membership_.add(reply.members, header.sender);
  membership_.prove(header.sender, header.generation);
  state_ = State::kAnswered;
}

void Contact::pass_over(size_t asked, const PeerId& peer, const std::string& why) {
  if (!is_named(options_, asked_.address(asked))) return;
  refusals_[asked] = asked_.address(asked).to_string() + " (peer " + peer.short_name() + ") " + why;
  if (!refused_) refused_ = clock_.now();
}

// Where a member listened in an earlier life, another swarm may be by now: that says nothing.
std::string Contact::why_closed() const { return asked_.closed(options_.find_path, options_.bootstrap.size()); }

std::string Contact::refusal() const {
  std::string text;
  for (const auto& [asked, why] : refusals_) text += why + "\n";
  return text + refusal_remedy(options_.settings);
}

std::string Contact::waiting_for() const {
  const auto waited = std::chrono::duration_cast<std::chrono::seconds>(clock_.now() - started_).count();
  if (asked_.count() == 0) {
    const std::string own = membership_.self().endpoint.to_string() + " is this agent's own address: ";
    return (options_.bootstrap.empty() ? "" : own) +
           "no address to join through; give one of another agent or of a registry with --bootstrap HOST:PORT, or "
           "begin a swarm with settings, --config FILE (starling init writes one)";
  }
  if (refused_by_some()) {
    const bool all = refusals_.size() == asked_.count();
    return (all ? asked_.list() + " cannot be joined ("
                : "some of " + asked_.list() + " cannot be joined, the others do not answer (") +
           std::to_string(waited) + " s): " + refusals_.begin()->second;
  }
  if (!other_self_.empty()) return other_self_;
  if (met_empty_registry_) {
    return "the registry at " + asked_.list() + " answers, but knows no living swarm yet (" + std::to_string(waited) +
           " s); start one agent with --config, or give this one a config";
  }
  if (const std::string closed = why_closed(); !closed.empty()) {
    return closed + ". Trying on (" + std::to_string(waited) + " s)";
  }
  const std::string no_answer = "no answer from " + asked_.list(options_.find_path) + " after " +
                                std::to_string(attempts_) + (attempts_ == 1 ? " try" : " tries") + " in " +
                                std::to_string(waited) + " s; ";
  const std::string lost = asked_.lost_long_answers();
  if (!lost.empty()) return no_answer + lost + ". Trying on";
  if (const Endpoint* accepting = asked_.accepting(options_.find_path)) {
    return no_answer + describe_no_way_back(*accepting, membership_.self().endpoint) + ". Trying on";
  }
  const std::string names = asked_.doubt_of_names(options_.find_path);
  return no_answer + (names.empty() ? "" : "perhaps " + names + "; else ") +
         "is an agent or registry running there, with "
         "its port and the next one open, and can it reach this agent at " +
         membership_.self().endpoint.to_string() + " (--advertise)? Trying on";
}

std::string describe_no_way_back(const Endpoint& peer, const Endpoint& own) {
  return peer.to_string() + " takes connections, but its answers do not reach this agent: they go to " +
         own.to_string() +
         " and the next port. Open both here, or name another address of this machine with --advertise HOST:PORT; "
         "behind "
         "a router that hides it, no one can reach it";
}

std::vector<Endpoint> all_addresses(const ContactOptions& options) {
  std::vector<Endpoint> all = options.bootstrap;
  for (const Endpoint& address : options.known) {
    if (std::find(all.begin(), all.end(), address) == all.end()) all.push_back(address);
  }
  return all;
}

bool is_named(const ContactOptions& options, const Endpoint& address) {
  return std::find(options.bootstrap.begin(), options.bootstrap.end(), address) != options.bootstrap.end();
}

// The other side lists the differences from its own point of view, so they are listed anew, with this agent as "here".
std::string refusal_text(const ContactOptions& options, const std::string& reason, const std::string& theirs) {
  const bool both = !options.settings.empty() && !theirs.empty();
  const std::string difference = both && options.compare ? options.compare(options.settings, theirs) : "";
  if (difference.empty()) return "does not let this agent in; it says: " + reason;
  return "belongs to another swarm (here: this agent; there: that swarm):\n" + difference;
}

std::string refusal_remedy(const std::string& settings) {
  if (settings.empty()) return "Give the address of another member with --bootstrap, or name the swarm with --swarm ID";
  return fmt::format(
      "To join that swarm, start without --config and with a new folder (--state). To join your own, "
      "give the address of one of its members with --bootstrap. To begin your own at a registry, beside "
      "another one of that name, add --swarm {:016x}",
      swarm_id_of(settings));
}

}  // namespace starling
