// The first step of a newcomer: it sends Join to every bootstrap address until a member answers with the settings and
// the member list. Where nobody answers it asks for ever, and waiting_for() says so. It is refused once everybody that
// answered refused it and kRefusalPatience has passed. A state machine: no sockets, no threads.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bootstrap/asked_addresses.h"
#include "gossip/clock.h"
#include "gossip/membership/membership.h"
#include "gossip/net/message.h"
#include "gossip/net/outbox.h"
#include "gossip/rng.h"

namespace starling {

inline constexpr Duration kRefusalPatience = std::chrono::seconds(10);  // others may still answer

struct ContactOptions {
  std::vector<Endpoint> bootstrap;
  std::vector<Endpoint> known;  // members of an earlier life: asked as well, but by now another swarm may listen there
  std::string settings;         // own; empty: adopt
  std::string signature{};      // of the own settings; empty: the swarm is open, or this agent has none
  uint64_t wanted = 0;          // only the settings with this hash are adopted; 0: any
  // As in RouterOptions: lists the differences between two settings texts. Without it any two different texts conflict.
  std::function<std::string(const std::string& ours, const std::string& theirs)> compare;
  // What is wrong with a settings text that would be adopted, and with the signature of the swarm's key beside it;
  // empty: nothing. Without it any text is adopted.
  std::function<std::string(const std::string& settings, const std::string& signature)> problem_of;
  FindPath find_path{};
  Duration retry_min = std::chrono::milliseconds(250);
  Duration retry_max = std::chrono::seconds(5);
};

class Contact {
 public:
  enum class State { kSearching, kAnswered, kRefused };
  // `secret`: nobody else may guess it.
  Contact(const ContactOptions& options, Membership& membership, const Clock& clock, Outbox& outbox, uint64_t rng_seed,
          uint64_t secret);
  void tick();
  void handle(const FrameHeader& header, const BootstrapMessage& message);  // JoinReply, JoinRefused
  State state() const { return state_; }
  const std::string& settings() const { return settings_; }    // of the swarm, in its members' words
  const std::string& signature() const { return signature_; }  // of the settings; empty: it has none
  bool refused_by_some() const { return !refusals_.empty(); }
  // An address that was given lets nobody in without its ticket.
  bool closed() const { return asked_.surely_closed(options_.find_path, options_.bootstrap.size()); }
  std::string refusal() const;      // for people: the refusing peer, the difference of settings, and the remedy
  std::string waiting_for() const;  // for people: what was tried, with which address, for how long
  std::string tried() const { return asked_.list(); }  // for people: the addresses
  TimePoint next_deadline() const;

 private:
  void take(size_t asked, const FrameHeader& header, const JoinReply& reply);
  void pass_over(size_t asked, const PeerId& peer, const std::string& why);
  void hear_of_other_self(size_t asked, const PeerId& peer, const JoinRefused& refused);
  std::string why_not(const JoinReply& reply) const;
  std::string problem_of(const JoinReply& reply) const;
  std::string why_closed() const;

  ContactOptions options_;
  Membership& membership_;
  const Clock& clock_;
  Rng rng_;
  AskedAddresses asked_;
  State state_ = State::kSearching;
  std::string settings_, signature_;
  std::map<size_t, std::string> refusals_;  // by index of the address: why this agent cannot join there
  std::optional<TimePoint> refused_;        // first
  TimePoint started_, next_attempt_;
  Duration backoff_;
  uint32_t attempts_ = 0;
  bool met_empty_registry_ = false;
  std::string other_self_;  // the last refusal because of another process of this agent; empty: none
};

// Both lists, each address once.
std::vector<Endpoint> all_addresses(const ContactOptions& options);
bool is_named(const ContactOptions& options, const Endpoint& address);  // in `bootstrap`

// For people: why the other side at an address refused. `reason`: in its words.
std::string refusal_text(const ContactOptions& options, const std::string& reason, const std::string& theirs);

// For people, with the remedy: `peer` is reached, and nothing comes back.
std::string describe_no_way_back(const Endpoint& peer, const Endpoint& own);

// What to do when every address belongs to another swarm.
// `settings`: the own ones; empty: none.
std::string refusal_remedy(const std::string& settings);

}  // namespace starling
