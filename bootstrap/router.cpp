#include "bootstrap/router.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "gossip/limits.h"
#include "gossip/membership/taking_part.h"
#include "gossip/net/hash.h"
#include "gossip/net/name_cache.h"
#include "gossip/net/other_version.h"
#include "gossip/net/text.h"
#include "kernels/check.h"

namespace starling {
namespace {

constexpr int kFramesPerTickMax = 256;                        // per tick, so that timers are not starved
constexpr size_t kReadersMax = 64;                            // with a link that is kept for their next question
constexpr Duration kReaderLife = std::chrono::seconds(10);    // after its last one
constexpr Duration kEarlierFrames = std::chrono::seconds(3);  // of a process that has ended
constexpr const char* kWrongSender = "its sender is not the one that its key belongs to";
constexpr const char* kOtherSwarm = "of another swarm";
constexpr const char* kExpiredText =
    "its membership has expired, by the clocks here: the holder of the swarm's key admits it again with `starling "
    "admit`; start with that ticket";
constexpr const char* kNoMember = "of a member that is revoked or has expired";

std::string describe_forged(const ForgedRecord& forged) {
  return fmt::format(
      "agent {} passes on a {} of agent {} that the latter did not sign for this swarm; it is not taken. Update the "
      "program of {} where it is older than this one; else it lies: stop it, or remove it from a certified swarm "
      "(starling revoke)",
      forged.from.short_name(), forged.record.farewell ? "farewell" : "record", forged.record.id.short_name(),
      forged.from.short_name());
}

template <typename... Calls>
struct Overloaded : Calls... {
  using Calls::operator()...;
};

}  // namespace

uint64_t swarm_id_of(const std::string& settings) {
  const auto hash = blake2b_256(std::as_bytes(std::span(settings)));
  uint64_t id;
  std::memcpy(&id, hash.data(), sizeof id);
  return id ? id : 1;
}

uint64_t RouterCounters::frames_refused() const {
  return std::accumulate(undecoded.begin(), undecoded.end(), wrong_sender + other_swarm + no_member);
}

bool refuse_other_version(const ReceivedFrame& frame, const PeerRecord& self, JoinGate& gate, Transport& transport) {
  const auto join = frame.channel == Channel::kControl ? decode_other_version(frame.header.span()) : std::nullopt;
  if (!join || !gate.may_answer(frame.source)) return false;
  const FrameHeader header{0, self.id, self.version.generation, self.endpoint};
  return transport.send(join->reply_to, Channel::kControl, {encode_version_refusal(header, *join), {}, join->sender}) ==
         SendStatus::kQueued;
}

bool is_read(const Message& message) {
  const auto* join = message_as<Join>(message);
  return join && join->reads != 0;
}

void turn_away_revoked(const ReceivedFrame& frame, const FrameHeader& header, const PeerRecord& self,
                       const Revocations& revocations, JoinGate& gate, Transport& transport) {
  transport.cut(frame);
  if (!gate.may_answer(frame.source)) return;
  const FrameHeader own{header.swarm, self.id, self.version.generation, self.endpoint};
  const Message answer = Revoked{revocations.bytes_of({header.sender})};
  (void)transport.send(header.reply_to, Channel::kControl, {encode_frame_header(own, answer, {}), {}, header.sender});
}

bool turn_away_expired(const ReceivedFrame& frame, const FrameHeader& header, const Message& message,
                       MemberClocks* clocks, const PeerRecord& self, JoinGate& gate, Transport& transport) {
  if (!clocks || !has_expired(frame.not_after, clocks->now())) return false;
  if (has_expired(frame.not_after, clocks->earliest())) transport.cut(frame);
  const auto* join = message_as<Join>(message);
  if (!join || !gate.may_answer(frame.source)) return true;
  const FrameHeader own{header.swarm, self.id, self.version.generation, self.endpoint};
  const Message answer = JoinRefused{kExpiredText, "", join->nonce};
  (void)transport.send(header.reply_to, Channel::kControl, {encode_frame_header(own, answer, {}), {}, header.sender});
  return true;
}

bool let_in(JoinGate& gate, JoinGate::Verdict verdict, const Join& join, RouterCounters& counters,
            const std::function<void(const Message&)>& tell) {
  switch (verdict) {
    case JoinGate::Verdict::kOpen: return true;
    case JoinGate::Verdict::kTooMany: ++counters.joins_dropped; break;
    case JoinGate::Verdict::kOlder:
      ++counters.joins_older;
      tell(JoinRefused{describe_older(join), "", join.nonce});
      break;
    case JoinGate::Verdict::kShowCookie:
      ++counters.joins_unproven;
      tell(JoinCookie{gate.cookie(join.record), join.nonce});
      break;
  }
  return false;
}

void RouterCounters::add(const RouterCounters& other) {
  for (size_t i = 0; i < undecoded.size(); ++i) undecoded[i] += other.undecoded[i];
  wrong_sender += other.wrong_sender;
  other_swarm += other.other_swarm;
  no_member += other.no_member;
  joins += other.joins;
  joins_unproven += other.joins_unproven;
  reads += other.reads;
  requests_unproven += other.requests_unproven;
  joins_dropped += other.joins_dropped;
  joins_older += other.joins_older;
  joins_refused += other.joins_refused;
  proposals_refused += other.proposals_refused;
  sends_failed += other.sends_failed;
}

std::vector<std::pair<const char*, uint64_t>> RouterCounters::refusals() const {
  std::vector<std::pair<const char*, uint64_t>> causes;
  for (size_t i = 0; i < undecoded.size(); ++i) {
    if (undecoded[i] > 0) causes.emplace_back(describe(static_cast<DecodeStatus>(i)), undecoded[i]);
  }
  if (wrong_sender > 0) causes.emplace_back(kWrongSender, wrong_sender);
  if (other_swarm > 0) causes.emplace_back(kOtherSwarm, other_swarm);
  if (no_member > 0) causes.emplace_back(kNoMember, no_member);
  return causes;
}

Router::Router(const RouterOptions& options, Transport& transport, const Clock& clock)
    : options_(options),
      secret_(process_secret(options.secret, options.rng_seed)),
      transport_(transport),
      clock_(clock),
      membership_(options.membership, options.self, clock, *this, options.rng_seed, secret_, options.revocations,
                  options.keys),
      donor_(*this),
      own_twins_(options.twins ? nullptr
                               : std::make_unique<TwinWatch>(membership_.self(), clock, *this, secret_, options.sign)),
      twins_(options.twins ? *options.twins : *own_twins_),
      gate_(secret_, clock, options.keys != nullptr),
      troubles_(clock) {
  STARLING_CHECK(options_.compare != nullptr);
  membership_.set_seeds(options.seeds);
}

void Router::set_settings(std::string settings, std::string signature) {
  settings_ = std::move(settings);
  signature_ = std::move(signature);
  swarm_id_ = settings_.empty() ? 0 : swarm_id_of(settings_);
}

void Router::tick(Handler& handler) {
  for (int i = 0; i < kFramesPerTickMax; ++i) {
    const std::optional<ReceivedFrame> frame = transport_.poll();
    if (!frame) break;
    receive(handler, *frame);
  }
  if (twins_.may_join()) membership_.tick();
  twins_.tick();
  forget_readers();
  look_at_strangers();
  for (const MemberEvent& event : membership_.take_events()) {
    if (event.kind == MemberEventKind::kDied || event.kind == MemberEventKind::kLeft) {
      if (const Member* member = membership_.find(event.peer)) forget_link(member->record.endpoint);
    }
    handler.on_member(event);
  }
}

TimePoint Router::next_deadline() const {
  return twins_.may_join() ? std::min(membership_.next_deadline(), twins_.next_deadline()) : twins_.next_deadline();
}

// Another member may be reached there: an agent that began anew with another identity, or one that a forged record
// names.
void Router::forget_link(const Endpoint& endpoint) {
  const bool used = membership_.any_alive([&](const Member& member) { return member.record.endpoint == endpoint; });
  if (!used) transport_.forget(endpoint);
}

// A newcomer that was given the number of the second port hears the first one's: true. At most as often as Joins.
bool Router::answer_at_bulk_port(const ReceivedFrame& frame) {
  FrameHeader header;
  Message message;
  if (frame.channel != Channel::kBulk || decode_frame(Channel::kControl, frame.header.span(), frame.payload.span(),
                                                      &header, &message) != DecodeStatus::kOk) {
    return false;
  }
  const auto* join = message_as<Join>(message);
  if (!join || !gate_.may_answer(frame.source)) return false;
  const Endpoint& own = membership_.self().endpoint;
  const std::string text =
      fmt::format("port {} is the one for bulk data; name the one before, {}", own.port + 1, own.to_string());
  send({join->record.endpoint, join->record.id}, JoinRefused{plain_prefix(text, kReasonBytesMax), "", join->nonce});
  return true;
}

// Where this machine's clock is far ahead, all others seem to have expired, and only their clocks show that they have
// not. So a known member is asked for its clock, which counts unless that member has expired by the others' clocks.
// A router that knows no member hears the answers to its own Joins.
bool Router::is_late(const ReceivedFrame& frame, const FrameHeader& header, const Message& message) {
  if (!options_.clocks || !frame.authenticated) return false;
  const bool counts = !has_expired(frame.not_after, options_.clocks->earliest()) && membership_.find(header.sender);
  const auto* ack = message_as<PingAck>(message);
  if (ack && counts) options_.clocks->hear(header.sender, ack->unix_s);
  const bool asked = message_is<JoinReply, JoinRefused, JoinCookie>(message) && membership_.alive_count() == 0 &&
                     !has_expired(frame.not_after, options_.clocks->earliest());
  if (asked || !turn_away_expired(frame, header, message, options_.clocks, membership_.self(), gate_, transport_)) {
    ended_.erase(header.sender);
    return false;
  }
  if (membership_.find(header.sender)) ended_.insert(header.sender);
  const auto* ping = message_as<Ping>(message);
  const bool asks_back = ping && ping->sequence == 0;  // two that are late to each other would never end
  if (counts && !ack && !asks_back && gate_.may_answer(frame.source)) {
    send({header.reply_to, header.sender}, Ping{0, header.sender, {}});
  }
  return true;
}

bool Router::admit(Handler& handler, const ReceivedFrame& frame, FrameHeader* header, Message* message) {
  const DecodeStatus status = decode_frame(frame.channel, frame.header.span(), frame.payload.span(), header, message);
  if (status == DecodeStatus::kWrongChannel && answer_at_bulk_port(frame)) return false;
  if (status != DecodeStatus::kOk) {
    ++counters_.undecoded[static_cast<size_t>(status)];
    if (status != DecodeStatus::kUnknownMessage) transport_.refuse(frame);  // a newer program may send those
    handler.on_frame_refused(frame, describe(status));
    if (status == DecodeStatus::kWrongVersion) {
      counters_.joins_refused += refuse_other_version(frame, membership_.self(), gate_, transport_);
    }
    return false;
  }
  if (frame.authenticated && *frame.authenticated != header->sender) {
    ++counters_.wrong_sender;
    transport_.cut(frame);
    handler.on_frame_refused(frame, kWrongSender);
    return false;
  }
  if (options_.revocations && options_.revocations->contains(header->sender)) {
    ++counters_.no_member;
    turn_away_revoked(frame, *header, membership_.self(), *options_.revocations, gate_, transport_);
    if (options_.clocks) options_.clocks->forget(header->sender);
    handler.on_frame_refused(frame, kNoMember);
    return false;
  }
  if (is_late(frame, *header, *message)) {
    ++counters_.no_member;
    handler.on_frame_refused(frame, kNoMember);
    return false;
  }
  if (const auto* revoked = message_as<Revoked>(*message)) {  // signed, so any sender may bring it
    if (options_.revocations) membership_.revoke(revoked->entries);
    return false;
  }
  if (header->sender == membership_.self().id && !is_read(*message)) {
    twins_.handle(*header, *message);
    return false;
  }
  if (!twins_.may_join()) return false;
  const bool ours = swarm_id_ != 0 && header->swarm == swarm_id_;
  if (ours) {
    membership_.heard_from(header->sender, header->generation);
    look_at_sender(*header, frame.source);
  }
  if (ours || message_is<Join, JoinReply, JoinRefused, JoinCookie>(*message)) return true;
  ++counters_.other_swarm;
  return false;
}

// Frames of an earlier process may be under way for a moment. One that goes on holds a lower generation than its
// members do, and nothing of it is believed: it is told so. One that names another address than its record here is told
// as well: all answers go to that address, and where the record is forged its next version takes that back.
void Router::look_at_sender(const FrameHeader& header, const std::string& source) {
  const Member* member = membership_.find(header.sender);
  if (!member) return;
  const PeerRecord& record = member->record;
  if (claims_loopback(header.reply_to, source, membership_.self().endpoint)) {
    troubles_.add(header.sender, describe_unreached({record, source}, membership_.self().endpoint));
  }
  const bool earlier = record.version.generation > header.generation && clock_.now() - member->since >= kEarlierFrames;
  const bool elsewhere = record.version.generation == header.generation && record.endpoint != header.reply_to;
  if ((earlier || elsewhere) && gate_.may_answer(source))
    send({header.reply_to, header.sender}, Gossip{Updates{.alive = {record}}});
}

// What others say of this agent's id, which of them pass on forged records, and which newcomers the answers do not
// reach. One that names loopback is told at the address that it asks from.
void Router::look_at_strangers() {
  if (const auto other = membership_.take_other_self()) twins_.on_record(*other);
  const Endpoint& own = membership_.self().endpoint;
  if (const auto record = membership_.take_record_ahead()) {
    troubles_.add(record->id,
                  fmt::format("a record of agent {} is not taken yet: it began {} by its clock, days ahead of "
                              "this agent's, and an earlier process of it still seems to live. It is taken "
                              "once that one is found dead",
                              print_name(*record), clock_text(record->version.generation)));
  }
  if (const auto forged = membership_.take_forged()) troubles_.add(forged->from, describe_forged(*forged));
  const auto unreached = gate_.take_unreached();
  if (!unreached) return;
  const std::string text = describe_unreached(*unreached, own);
  troubles_.add(unreached->record.id, text);
  if (!claims_loopback(unreached->record.endpoint, unreached->source, own)) return;
  const Endpoint asks_from{unmapped(unreached->source), unreached->record.endpoint.port};
  send({asks_from, unreached->record.id}, JoinRefused{plain_prefix(text, kReasonBytesMax), "", unreached->nonce});
}

void Router::move_to(const Endpoint& endpoint) {
  for (const Member& member : membership_.all()) transport_.forget(member.record.endpoint);
  for (const Endpoint& seed : options_.seeds) transport_.forget(seed);
  if (options_.clocks) options_.clocks->forget_all();
  membership_.move_to(endpoint);
}

void Router::announce_leave() {
  if (twins_.twin() && twins_.twin()->older) return twins_.part(membership_.farewell());
  membership_.announce_leave();
}

void Router::receive(Handler& handler, const ReceivedFrame& frame) {
  FrameHeader header;
  Message message;
  if (!admit(handler, frame, &header, &message)) return;
  std::visit(Overloaded{
                 [&](const MembershipMessage& m) { membership_.handle(header.sender, m, header.generation); },
                 [&](const BootstrapMessage& m) {
                   if (const auto* join = std::get_if<Join>(&m)) return answer_join(header, *join, frame.source);
                   if (may_have_model(header, m, frame.source)) donor_.handle(header, m, frame.source);
                   handler.on_bootstrap(header, m, frame.payload);
                 },
                 [&](const ExchangeMessage& m) {
                   if (may_exchange(header, m, frame.source)) handler.on_exchange(header, m, frame.payload);
                 },
             },
             message);
}

// Proposals are of living members that train or settle, and blocks of pairs of members: a vote for anybody else could
// wait for ever. Records lag, so one that is refused may be a newcomer: it is told at once, and asked for its record.
// What else concerns an exchange passes, since it may settle one that its sender was a member for.
bool Router::may_exchange(const FrameHeader& header, const ExchangeMessage& message, const std::string& source) {
  const auto* propose = std::get_if<Propose>(&message);
  if (!propose && !std::holds_alternative<BlockPayload>(message)) return true;
  const Member* member = membership_.find(header.sender);
  const bool lives =
      member && member->state <= MemberState::kSuspect && member->record.version.generation == header.generation;
  if (!propose) return lives;
  if (lives && member->state == MemberState::kAlive && takes_part(member->record.meta)) return true;
  ++counters_.proposals_refused;
  if (!gate_.may_answer(source)) return false;
  DigestEntry held{.id = header.sender};
  if (member) held = {header.sender, member->record.version, static_cast<uint8_t>(member->state)};
  send({header.reply_to, header.sender}, Busy{propose->xid, 0});
  send({header.reply_to, header.sender},
       Sync{.digest = {held}, .revoked = options_.revocations ? options_.revocations->sum() : 0});
  return false;
}

// A stranger that knows the swarm's id may name any address to answer to. It gets a few bytes until it has shown that
// it asks.
bool Router::may_have_model(const FrameHeader& header, const BootstrapMessage& message, const std::string& source) {
  const auto* request = std::get_if<ModelRequest>(&message);
  const auto* block = std::get_if<ModelBlockRequest>(&message);
  if (!request && !block) return false;
  const uint64_t nonce = request ? request->nonce : block->nonce;
  const uint64_t cookie = gate_.model_cookie(header);
  counters_.joins_older += request && nonce == 0;
  if ((request ? request->cookie : block->cookie) == cookie) return true;
  if (!gate_.may_answer(source)) {
    ++counters_.joins_dropped;
    return false;
  }
  ++counters_.requests_unproven;
  send({header.reply_to, header.sender}, JoinCookie{cookie, nonce});
  return false;
}

// The record is the sender's own: a Join for another does not decode.
void Router::answer_join(const FrameHeader& header, const Join& join, const std::string& source) {
  const PeerAddress newcomer{join.record.endpoint,
                             join.record.id};  // all answers go where the cookie does; the frame may name another
  const auto tell = [&](const Message& message) { send(newcomer, message); };
  if (!let_in(gate_, gate_.judge(source, join), join, counters_, tell)) return;
  if (join.reads != 0) return answer_reader(join);
  std::string refusal;
  if (!settings_.empty() && !join.settings.empty() && join.settings != settings_) {
    refusal = options_.compare(settings_, join.settings);
  } else if (!settings_.empty() && join.settings.empty() && header.swarm != 0 && header.swarm != swarm_id_) {
    refusal = "this node serves another swarm";
  }
  if (!refusal.empty()) {
    ++counters_.joins_refused;
    send(newcomer, JoinRefused{plain_prefix(refusal, kReasonBytesMax), settings_, join.nonce});
    return;
  }
  // A router without settings adds nobody: as a member it would only be asked for settings that it lacks.
  if (!settings_.empty()) {
    const uint64_t turned_away = membership_.counters().table_full;
    membership_.add(join.record);
    if (membership_.counters().table_full > turned_away) return refuse_for_room(join);
    membership_.prove(join.record.id, join.record.version.generation);
    const Member* held = membership_.find(join.record.id);
    if (held && held->record.version.generation != join.record.version.generation) {
      return refuse_earlier(join, held->record);
    }
  }
  ++counters_.joins;
  send(newcomer, JoinReply{settings_, membership_.sample_records(kSyncRecordsMax), note_, join.nonce, signature_});
}

void Router::refuse_for_room(const Join& join) {
  ++counters_.joins_refused;
  const std::string text = fmt::format(
      "the swarm has {} members, which is the most it can have; end some of them, or begin another swarm", kMembersMax);
  send({join.record.endpoint, join.record.id}, JoinRefused{text, "", join.nonce});
}

// A higher generation is of a later process, or of one whose clock was ahead; the newcomer has to begin above it. A
// much lower one is of a process that is not found dead yet; the newcomer asks again.
void Router::refuse_earlier(const Join& join, const PeerRecord& held) {
  const bool later = held.version.generation > join.record.version.generation;
  const std::string text = fmt::format(
      "another process of this agent, at {}, began {} by its clock, and this one {}: {}", held.endpoint.to_string(),
      clock_text(held.version.generation), clock_text(join.record.version.generation),
      later ? "it has to begin above that. A newer program does so by itself; else set the clock right, or name a new "
              "folder "
              "with --state"
            : "it is let in once the earlier one is found dead");
  send({join.record.endpoint, join.record.id}, JoinRefused{text, "", join.nonce, held});
}

// A reader is told all, and nothing of it is believed or kept but its address, which its cookie has proven.
void Router::answer_reader(const Join& join) {
  const PeerAddress reader{join.record.endpoint, join.record.id};
  readers_[reader.endpoint] = clock_.now();
  if (!settings_.empty() && join.reads != kOnlySwarm && join.reads != swarm_id_) {
    return send(reader, JoinRefused{fmt::format("it is of another swarm, {:016x}", swarm_id_), "", join.nonce});
  }
  ++counters_.reads;
  send(reader, JoinReply{settings_, {membership_.self()}, "", join.nonce});
  if (settings_.empty()) return;
  for (const Sync& page : membership_.pages(join.nonce)) send(reader, page);
}

void Router::forget_readers() {
  const auto asked_last = [](const auto& a, const auto& b) { return a.second < b.second; };
  while (!readers_.empty()) {
    const auto oldest = std::min_element(readers_.begin(), readers_.end(), asked_last);
    if (readers_.size() <= kReadersMax && clock_.now() - oldest->second < kReaderLife) return;
    transport_.forget(oldest->first);
    readers_.erase(oldest);
  }
}

void Router::send(const PeerId& to, const Message& message, SharedBytes payload) {
  const Member* member = membership_.find(to);
  if (!member) {
    ++counters_.sends_failed;
    return;
  }
  send({member->record.endpoint, to}, message, std::move(payload));
}

void Router::send(const PeerAddress& to, const Message& message, SharedBytes payload) {
  const PeerRecord& self = membership_.self();
  const uint64_t swarm = message_is<Join>(message) ? wanted_ : swarm_id_;
  const FrameHeader header{swarm, self.id, self.version.generation, self.endpoint};
  Frame frame{encode_frame_header(header, message, payload.span(), payload.checksum), std::move(payload), to.id};
  if (transport_.send(to.endpoint, channel_of(message), std::move(frame)) != SendStatus::kQueued)
    ++counters_.sends_failed;
}

}  // namespace starling
