#include "bootstrap/registry.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "bootstrap/asked_addresses.h"
#include "gossip/membership/record_check.h"
#include "gossip/net/hash.h"
#include "gossip/net/inbox.h"
#include "gossip/net/name_cache.h"
#include "gossip/net/text.h"
#include "kernels/check.h"

namespace starling {
namespace {

constexpr int kFramesPerTickMax = 256;
constexpr Duration kEmptyLife = std::chrono::minutes(1);  // of a swarm without members

class Forward final : public Router::Handler {
 public:
  Forward(Registry::Listener& listener, const Router& router) : listener_(listener), router_(router) {}
  void on_bootstrap(const FrameHeader&, const BootstrapMessage&, const SharedBytes&) override {}
  void on_exchange(const FrameHeader&, const ExchangeMessage&, const SharedBytes&) override {}
  void on_member(const MemberEvent& event) override { listener_.on_member(router_.membership(), event); }

 private:
  Registry::Listener& listener_;
  const Router& router_;
};

}  // namespace

struct Registry::Swarm {
  Swarm(const RouterOptions& options, std::string name_in, const std::string& settings, const std::string& signature,
        Transport& transport, const Clock& clock)
      : name(std::move(name_in)), inbox(transport), router(options, inbox, clock), seen(clock.now()) {
    router.set_settings(settings, signature);
  }
  size_t agents() const {
    size_t count = 0;
    router.membership().visit_alive([&](const Member& member) { count += member.record.meta.role == Role::kAgent; });
    return count;
  }
  bool lives() const { return agents() > 0; }
  const std::string name;
  Inbox inbox;  // the frames that the registry has found to be of this swarm
  Router router;
  TimePoint seen;         // when it had a member last
  uint64_t namesake = 0;  // the swarm that its note is about; 0: no note
};

// What it was told to stay in touch with. The router of a swarm does so, but a swarm may begin before its registry.
class Registry::Seeds {
 public:
  explicit Seeds(Registry& registry)
      : registry_(registry),
        asked_(registry.options_.seeds, registry.options_.self.endpoint, registry, secret_number(registry.secret_, 0)) {
  }

  void ask() {
    const TimePoint now = registry_.clock_.now();
    if (asked_.count() == 0 || now < next_) return;
    const bool may = registry_.twins_.may_join();
    next_ = now + (may ? kAskEvery : kLookEvery);
    if (!may) return;
    if (!registry_.living_swarms().empty()) {
      since_.reset();
      return;
    }
    if (!since_) since_ = now;
    for (size_t i = 0; i < asked_.count(); ++i) asked_.ask(i, registry_.options_.self, "", "");
  }
  TimePoint next_deadline() const { return asked_.count() == 0 ? TimePoint::max() : next_; }

  // False: it is no answer to a question of this.
  bool take(Listener& listener, const BootstrapMessage& message) {
    if (asked_.show_cookie(message, registry_.options_.self, "", "")) return true;
    const std::optional<size_t> from = asked_.answered(message);
    if (!from) return false;
    since_ = registry_.clock_.now();
    if (const auto* refused = std::get_if<JoinRefused>(&message)) {
      if (refused->held) return registry_.hear_of_self(*refused->held), true;
      trouble_ = asked_.address(*from).to_string() + " gives this registry no swarm to serve: " + refused->reason;
    } else if (const auto* reply = std::get_if<JoinReply>(&message); !reply->settings.empty()) {
      registry_.begin_as_told(listener, *reply);
    }
    return true;
  }
  void complain(const std::string& trouble) { trouble_ = trouble; }

  // Once, and again when it is another one.
  std::string take_trouble() {
    const FindPath& find_path = registry_.options_.find_path;
    if (trouble_.empty() && since_) trouble_ = asked_.closed(find_path, asked_.count());
    if (trouble_.empty() && since_ && registry_.clock_.now() - *since_ >= kAnswerPatience) {
      trouble_ = "no agent answers at " + asked_.list(find_path) +
                 ", so this registry knows no swarm; start it with the address of one that runs (--bootstrap)";
    }
    const std::string now = std::exchange(trouble_, "");
    if (now.empty() || now == said_) return "";
    said_ = now;
    return now;
  }

 private:
  static constexpr Duration kAskEvery = std::chrono::seconds(2);
  static constexpr Duration kLookEvery = std::chrono::milliseconds(100);
  static constexpr Duration kAnswerPatience = std::chrono::seconds(10);

  Registry& registry_;
  AskedAddresses asked_;
  TimePoint next_;
  std::optional<TimePoint> since_;  // of the last answer, or the first question
  std::string trouble_, said_;
};

Registry::Registry(RegistryOptions options, Transport& transport, const Clock& clock)
    : options_(std::move(options)),
      transport_(transport),
      clock_(clock),
      secret_(process_secret(options_.secret, options_.rng_seed)),
      gate_(secret_, clock, options_.keys != nullptr),
      twins_(options_.self, clock, *this, secret_, options_.sign),
      clocks_(clock),
      rng_seed_(options_.rng_seed),
      seeds_(std::make_unique<Seeds>(*this)) {
  STARLING_CHECK(options_.compare != nullptr && options_.read != nullptr);
  seal();
  if (options_.last_address) twins_.ask(*options_.last_address);
}

// Members hold another process of this identity: the one that lives ends, or goes on above that one.
void Registry::hear_of_self(const PeerRecord& held) {
  const bool genuine = !options_.keys || options_.keys->is_genuine(held);
  if (held.id == options_.self.id && held.version.generation <= kOwnGenerationMax && genuine) twins_.on_record(held);
}

void Registry::seal() {
  if (options_.keys) options_.keys->seal(options_.self);
}

Registry::~Registry() = default;

void Registry::tick(Listener& listener) {
  for (int i = 0; i < kFramesPerTickMax; ++i) {
    std::optional<ReceivedFrame> frame = transport_.poll();
    if (!frame) break;
    receive(listener, std::move(*frame));
  }
  for (const auto& [id, swarm] : swarms_) {
    Forward handler(listener, swarm->router);
    swarm->router.tick(handler);
    if (swarm->lives()) swarm->seen = clock_.now();
  }
  forget_empty(listener);
  twins_.tick();
  seeds_->ask();
}

void Registry::forget_empty(Listener& listener) {
  std::erase_if(swarms_, [&](const auto& entry) {
    const auto& [id, swarm] = entry;
    if (clock_.now() - swarm->seen < kEmptyLife) return false;
    for (const auto& [other, namesake] : swarms_) {
      if (namesake->namesake != id) continue;
      namesake->namesake = 0;
      namesake->router.set_note("");
    }
    listener.on_swarm_forgotten(swarm->name, id);
    return true;
  });
}

TimePoint Registry::next_deadline() const {
  TimePoint next = std::min(seeds_->next_deadline(), twins_.next_deadline());
  for (const auto& [id, swarm] : swarms_) {
    next = std::min({next, swarm->router.next_deadline(), swarm->seen + kEmptyLife});
  }
  return next;
}

std::vector<std::string> Registry::take_troubles() {
  std::vector<std::string> all;
  for (const auto& [id, swarm] : swarms_) {
    for (std::string& text : swarm->router.take_troubles()) all.push_back(std::move(text));
  }
  if (const std::string trouble = seeds_->take_trouble(); !trouble.empty()) all.push_back(trouble);
  const auto unreached = gate_.take_unreached();
  if (!unreached) return all;
  const Endpoint& own = options_.self.endpoint;
  all.push_back(describe_unreached(*unreached, own));
  if (!claims_loopback(unreached->record.endpoint, unreached->source, own)) return all;
  send({{unmapped(unreached->source), unreached->record.endpoint.port}, unreached->record.id},
       JoinRefused{plain_prefix(all.back(), kReasonBytesMax), "", unreached->nonce});
  return all;
}

void Registry::move_to(const Endpoint& endpoint) {
  options_.self.endpoint = endpoint;
  seal();
  for (const auto& [id, swarm] : swarms_) swarm->router.move_to(endpoint);
}

void Registry::announce_leave() {
  for (const auto& [id, swarm] : swarms_) swarm->router.announce_leave();
}

void Registry::revoke(std::string_view entries) {
  for (const auto& [id, swarm] : swarms_) swarm->router.membership().revoke(entries);
  if (swarms_.empty() && options_.revocations) (void)options_.revocations->take(entries);
}

const Router* Registry::find(uint64_t swarm_id) const {
  const auto found = swarms_.find(swarm_id);
  return found == swarms_.end() ? nullptr : &found->second->router;
}

void Registry::visit(const std::function<void(const Router&)>& use) const {
  for (const auto& [id, swarm] : swarms_) use(swarm->router);
}

size_t Registry::members() const {
  size_t sum = 0;
  visit([&](const Router& router) { sum += router.membership().alive_count(); });
  return sum;
}

RouterCounters Registry::counters() const {
  RouterCounters sum = strangers_;
  visit([&](const Router& router) { sum.add(router.counters()); });
  return sum;
}

// The swarm's router decodes the frame again: a registry sees few frames, and one way in is one set of checks.
void Registry::receive(Listener& listener, ReceivedFrame frame) {
  FrameHeader header;
  Message message;
  const DecodeStatus status = decode_frame(frame.channel, frame.header.span(), frame.payload.span(), &header, &message);
  if (status != DecodeStatus::kOk) {
    ++strangers_.undecoded[static_cast<size_t>(status)];
    if (status != DecodeStatus::kUnknownMessage) transport_.refuse(frame);
    if (status == DecodeStatus::kWrongVersion) {
      strangers_.joins_refused += refuse_other_version(frame, options_.self, gate_, transport_);
    }
  } else if (frame.authenticated && *frame.authenticated != header.sender) {
    ++strangers_.wrong_sender;
    transport_.cut(frame);
  } else if (options_.revocations && options_.revocations->contains(header.sender)) {
    ++strangers_.no_member;
    turn_away_revoked(frame, header, options_.self, *options_.revocations, gate_, transport_);
  } else if (is_late(frame, header, message)) {
    ++strangers_.no_member;
  } else if (const auto* revoked = message_as<Revoked>(message)) {
    if (options_.revocations) revoke(revoked->entries);
  } else if (header.sender == options_.self.id && !is_read(message)) {
    twins_.handle(header, message);
  } else {
    const auto* answer = std::get_if<BootstrapMessage>(&message);
    if (answer && seeds_->take(listener, *answer)) return;
    Swarm* swarm = swarm_of(listener, header, message, frame.source);
    if (swarm) swarm->inbox.take(std::move(frame));
  }
}

// Of what no router judges. A registry that serves no swarm yet hears the answers to its own questions, as a newcomer
// does.
bool Registry::is_late(const ReceivedFrame& frame, const FrameHeader& header, const Message& message) {
  const bool asked = swarms_.empty() && message_is<JoinReply, JoinRefused, JoinCookie>(message);
  const bool judged_here = std::holds_alternative<BootstrapMessage>(message) || message_is<Revoked>(message);
  return judged_here && !asked &&
         turn_away_expired(frame, header, message, certified_clocks(), options_.self, gate_, transport_);
}

// Null: of none; counted, and a Join is answered.
Registry::Swarm* Registry::swarm_of(Listener& listener, const FrameHeader& header, const Message& message,
                                    const std::string& source) {
  if (const auto* join = message_as<Join>(message)) return swarm_to_join(listener, header, *join, source);
  const auto found = swarms_.find(header.swarm);
  if (found != swarms_.end()) return found->second.get();
  ++strangers_.other_swarm;
  return nullptr;
}

// As Router::answer_join: nobody is read, served or refused before it has shown that it can be reached.
bool Registry::let_in(const Join& join, const std::string& source) {
  const auto tell = [&](const Message& message) { send({join.record.endpoint, join.record.id}, message); };
  return starling::let_in(gate_, gate_.judge(source, join), join, strangers_, tell);
}

Registry::Swarm* Registry::swarm_to_join(Listener& listener, const FrameHeader& header, const Join& join,
                                         const std::string& source) {
  if (join.reads != 0) return swarm_to_read(join, source);
  const uint64_t wanted = join.settings.empty() ? header.swarm : swarm_id_of(join.settings);
  const auto found = swarms_.find(wanted);
  if (found != swarms_.end()) return found->second.get();  // its router has a gate of its own
  const std::vector<Swarm*> living = living_swarms();
  if (join.settings.empty() && wanted == 0 && living.size() == 1) return living.front();
  if (!let_in(join, source)) return nullptr;
  if (join.settings.empty()) {
    if (living.empty()) {
      send({join.record.endpoint, join.record.id},
           JoinReply{"", {options_.self}, "", join.nonce});  // nobody could give the model
    } else {
      refuse(join, list_swarms());
    }
    return nullptr;
  }
  const SettingsRead read = options_.read(join.settings, join.signature);
  if (!read.problem.empty()) {
    refuse(join, "this registry cannot use the settings: " + read.problem);
    return nullptr;
  }
  for (const auto& [id, swarm] : swarms_) {  // the same in other words: the first text stays
    if (swarm->name == read.name && options_.compare(swarm->router.settings(), join.settings).empty()) {
      return swarm.get();
    }
  }
  if (const Swarm* meant = swarm_meant(header, join, read)) {
    refuse(join, options_.compare(meant->router.settings(), join.settings), meant->router.settings());
    return nullptr;
  }
  if (options_.only != 0 && wanted != options_.only) {
    const Router* router = find(options_.only);
    refuse(join,
           router ? options_.compare(router->settings(), join.settings)
                  : fmt::format("this registry serves the swarm {:016x} alone", options_.only),
           router ? router->settings() : "");
    return nullptr;
  }
  if (swarms_.size() >= kRegistrySwarmsMax) {
    refuse(join, fmt::format("this registry serves {} swarms, its limit", swarms_.size()));
    return nullptr;
  }
  return begin(listener, join.settings, join.signature, read);
}

Registry::Swarm* Registry::swarm_to_read(const Join& join, const std::string& source) {
  const auto found = swarms_.find(join.reads);
  if (found != swarms_.end()) return found->second.get();
  const std::vector<Swarm*> living = living_swarms();
  if (join.reads == kOnlySwarm && living.size() == 1) return living.front();
  if (!let_in(join, source)) return nullptr;
  if (living.empty()) {
    send({join.record.endpoint, join.record.id}, JoinReply{"", {options_.self}, "", join.nonce});
  } else {
    send({join.record.endpoint, join.record.id},
         JoinRefused{plain_prefix(list_swarms(), kReasonBytesMax), "", join.nonce});
  }
  return nullptr;
}

Registry::Swarm* Registry::begin(Listener& listener, const std::string& settings, const std::string& signature,
                                 const SettingsRead& read) {
  const uint64_t id = swarm_id_of(settings);
  const RouterOptions options{
      options_.self,        read.membership, options_.seeds,     ++rng_seed_, options_.compare, secret_, {},
      options_.revocations, options_.keys,   certified_clocks(), &twins_};
  Swarm* namesake = largest_of(read.name);
  const auto added =
      swarms_.emplace(id, std::make_unique<Swarm>(options, read.name, settings, signature, transport_, clock_));
  note_namesake(*added.first->second, namesake);
  listener.on_swarm(read.name, id);
  return added.first->second.get();
}

void Registry::begin_as_told(Listener& listener, const JoinReply& reply) {
  const uint64_t id = swarm_id_of(reply.settings);
  if (swarms_.contains(id) || (options_.only != 0 && options_.only != id)) return;
  const SettingsRead read = options_.read(reply.settings, reply.signature);
  if (read.problem.empty()) {
    begin(listener, reply.settings, reply.signature, read);
  } else {
    seeds_->complain("this registry cannot serve the swarm there: " + read.problem);
  }
}

std::vector<Registry::Swarm*> Registry::living_swarms() const {
  std::vector<Swarm*> living;
  for (const auto& [id, swarm] : swarms_) {
    if (swarm->lives()) living.push_back(swarm.get());
  }
  return living;
}

// Null: no swarm of that name lives.
Registry::Swarm* Registry::largest_of(const std::string& name) const {
  Swarm* largest = nullptr;
  size_t most = 0;
  for (const auto& [id, swarm] : swarms_) {
    const size_t members = swarm->agents();
    if (swarm->name != name || members <= most) continue;
    largest = swarm.get();
    most = members;
  }
  return largest;
}

// The swarm that a newcomer means to join, with an error in its config: the one of that name. Null: it names its own by
// id, it trains already, or nobody of that name lives.
const Registry::Swarm* Registry::swarm_meant(const FrameHeader& header, const Join& join,
                                             const SettingsRead& read) const {
  const bool begins = join.record.meta.phase == Phase::kJoining && header.swarm != swarm_id_of(join.settings);
  return begins ? largest_of(read.name) : nullptr;
}

// Two swarms of one name may still be a mistake in one of the two configs: newcomers to either are told of the other.
void Registry::note_namesake(Swarm& added, Swarm* largest) {
  if (!largest) return;
  const auto note = [this](Swarm& swarm, const Router& other) {
    swarm.namesake = other.swarm_id();
    const std::string text = fmt::format(
        "serves another swarm '{}' (id {:016x}) beside this one. The difference (here: this swarm; there: the "
        "other one):\n{}\nTo join the other one, start without --config and with a new folder (--state), with --swarm "
        "{:016x}",
        swarm.name, other.swarm_id(), options_.compare(swarm.router.settings(), other.settings()), other.swarm_id());
    swarm.router.set_note(plain_prefix(text, kReasonBytesMax));
  };
  note(added, largest->router);
  if (largest->namesake == 0) note(*largest, added.router);
}

// TwinWatch and Seeds send to addresses alone.
void Registry::send(const PeerId&, const Message&, SharedBytes) { STARLING_CHECK(false); }

void Registry::send(const PeerAddress& to, const Message& message, SharedBytes payload) {
  STARLING_CHECK(payload.span().empty());
  const FrameHeader own{0, options_.self.id, options_.self.version.generation, options_.self.endpoint};
  Frame frame{encode_frame_header(own, message, {}), {}, to.id};
  if (transport_.send(to.endpoint, channel_of(message), std::move(frame)) != SendStatus::kQueued) {
    ++strangers_.sends_failed;
  }
}

void Registry::refuse(const Join& join, const std::string& why, const std::string& settings) {
  ++strangers_.joins_refused;
  send({join.record.endpoint, join.record.id}, JoinRefused{plain_prefix(why, kReasonBytesMax), settings, join.nonce});
}

std::string Registry::list_swarms() const {
  std::string text = "this registry serves these swarms; name one with --swarm ID:";
  for (const Swarm* swarm : living_swarms()) {
    text += fmt::format("\n  {:016x}  '{}', agents: {}", swarm->router.swarm_id(), swarm->name, swarm->agents());
  }
  return text;
}

}  // namespace starling
