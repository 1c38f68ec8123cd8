#include "tools/attack/attacks.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "gossip/limits.h"
#include "gossip/net/wire.h"

namespace starling {
namespace {

constexpr uint64_t kFarAhead = 1'000'000'000'000'000;   // steps
constexpr uint64_t kThirtyYearsMs = 1'000'000'000'000;  // of a generation, which is a time
constexpr uint32_t kIncarnations = 1000;

void leave_undecided(Siege& siege) { siege.stranger.propose(siege.next_member(), siege.next_id(), siege.zeros); }
void propose_alone(Siege& siege) { siege.stranger.propose(siege.next_member(), siege.next_id(), {}); }
void lie(Siege& siege) { siege.stranger.propose(siege.next_member(), siege.next_id(), siege.huge); }
void wait(Siege&) {}

// None of them trains: in an open swarm those would take turns.
void join_as_another(Siege& siege) {
  siege.stranger.join(siege.stranger.new_id(), siege.next_member().endpoint, 0, Phase::kJoining);
}

// A record of every member, changed, to one of them.
std::vector<PeerRecord> forge(const Siege& siege, const std::function<void(PeerRecord&)>& change,
                              bool farewells = false) {
  std::vector<PeerRecord> forged;
  for (const auto& [id, record] : siege.stranger.members()) {
    if (forged.size() == kGossipUpdatesPerFrameMax) break;
    PeerRecord changed = record;
    change(changed);
    forged.push_back(siege.stranger.signed_as(std::move(changed), farewells));
  }
  return forged;
}

void gossip(Siege& siege, Updates updates) {
  siege.stranger.send(siege.next_member().endpoint, siege.next_id(), Gossip{std::move(updates)});
}

void forge_clock(Siege& siege) {
  gossip(siege, {.alive = forge(siege, [](PeerRecord& record) {
                   record.version.incarnation += kIncarnations;
                   record.meta.steps = kFarAhead;
                 })});
}

void forge_generation(Siege& siege) {
  gossip(siege, {.alive = forge(siege, [](PeerRecord& record) { record.version.generation += kThirtyYearsMs; })});
}

void forge_farewell(Siege& siege) {
  gossip(siege, {.left = forge(siege, [](PeerRecord& record) { ++record.version.incarnation; }, true)});
}

void accuse(Siege& siege) {
  Updates updates;
  for (const auto& [id, record] : siege.stranger.members()) {
    if (updates.suspect.size() == kGossipUpdatesPerFrameMax) break;
    updates.suspect.push_back({id, record.version, siege.next_id()});
  }
  gossip(siege, std::move(updates));
}

void refuse_unasked(Siege& siege) {
  siege.stranger.send(siege.next_member().endpoint, siege.next_id(),
                      JoinRefused{.reason = "go away", .settings = {}, .nonce = siege.acts});
}

void offer_other_settings(Siege& siege) {
  Join join{.record = siege.stranger.signed_as(siege.stranger.record(siege.stranger.new_id())),
            .settings = "swarm: {name: poisoned}",
            .nonce = siege.acts + 1};
  siege.stranger.send(siege.next_member().endpoint, join.record.id, join);
}

// Whoever answers there dials it; `port` by act, so that each is another link.
void join_from(Siege& siege, const Endpoint& claimed) {
  Join join{.record = siege.stranger.record(siege.stranger.new_id()),
            .settings = siege.stranger.settings(),
            .nonce = siege.acts + 1};
  join.record.endpoint = claimed;
  join.record = siege.stranger.signed_as(std::move(join.record));
  siege.stranger.send(siege.next_member().endpoint,
                      {siege.stranger.swarm_id(), join.record.id, siege.stranger.generation(), claimed}, join);
}

void join_from_anywhere(Siege& siege) {
  join_from(siege, {"127.0.0.1", static_cast<uint16_t>(20000 + siege.acts % 10000)});
}

void join_from_names(Siege& siege) { join_from(siege, {"host" + std::to_string(siege.acts) + ".example.com", 7400}); }

// Its own record, which nobody else can refute.
void claim(Siege& siege, const std::function<void(MemberMeta&)>& change) {
  const PeerId& id = siege.next_id();
  PeerRecord record = siege.stranger.record(id);
  record.version.incarnation = siege.acts + 1;
  change(record.meta);
  Updates updates;
  updates.alive.push_back(siege.stranger.signed_as(std::move(record)));
  siege.stranger.send(siege.next_member().endpoint, id, Gossip{std::move(updates)});
}

void claim_a_rate(Siege& siege) {
  claim(siege, [&siege](MemberMeta& meta) {
    meta.steps_per_s = siege.acts % 2 == 0 ? 1e30f : 1e-30f;
    meta.mass = siege.acts % 2 == 0 ? 1e30 : 1e-30;
  });
}

// Doubled each time, so that some claim is within what an agent takes.
void claim_a_stop(Siege& siege) {
  claim(siege, [&siege](MemberMeta& meta) { meta.stop_after = uint64_t{1} << siege.acts % 59; });
}

// A proper frame with some bytes changed, or none of it.
void send_garbage(Siege& siege) {
  Rng& rng = siege.stranger.rng();
  const FrameHeader header{siege.stranger.swarm_id(), siege.next_id(), siege.stranger.generation(),
                           siege.stranger.address()};
  const Propose propose{.xid = {siege.next_id(), siege.stranger.generation(), siege.acts + 1}, .deadline_ms = 1000};
  std::vector<std::byte> bytes = encode_frame_header(header, propose, {});
  if (siege.acts % 2 == 0) bytes.resize(1 + rng.below(4096));
  const uint32_t changed = siege.acts % 2 == 0 ? static_cast<uint32_t>(bytes.size()) : 1 + rng.below(8);
  for (uint32_t i = 0; i < changed; ++i) {
    bytes[rng.below(static_cast<uint32_t>(bytes.size()))] = static_cast<std::byte>(rng.below(256));
  }
  const Channel channel = siege.acts % 3 == 0 ? Channel::kBulk : Channel::kControl;
  siege.stranger.send(siege.next_member().endpoint, channel, Frame{std::move(bytes), {}});
}

// ---- answers ----

// Only the id that was asked can answer, and the frame does not name it: all do.
void accept_only(Siege& siege, const FrameHeader& header, const Message& message) {
  const auto* propose = message_as<Propose>(message);
  if (propose == nullptr) return;
  for (const PeerId& id : siege.ids) siege.stranger.send(header.reply_to, id, Accept{.xid = propose->xid, .credit = 1});
}

void say_busy(Siege& siege, const FrameHeader& header, const Message& message) {
  const auto* propose = message_as<Propose>(message);
  if (propose == nullptr) return;
  for (const PeerId& id : siege.ids) siege.stranger.send(header.reply_to, id, Busy{propose->xid, 0});
}

// The vote is taken as it is, so its sender mixes with what it was sent.
void decide(Siege& siege, const FrameHeader& header, const Message& message) {
  const auto* have = message_as<Have>(message);
  if (have == nullptr) return;
  siege.stranger.send(header.reply_to, have->xid.proposer, Commit{have->xid, have->blocks, have->scale});
}

}  // namespace

const PeerRecord& Siege::next_member() const {
  const auto& members = stranger.members();
  const uint64_t turn = acts + acts / std::max<uint64_t>(1, ids.size());
  return std::next(members.begin(), static_cast<std::ptrdiff_t>(turn % members.size()))->second;
}

const std::vector<Attack>& attacks() {
  static const std::vector<Attack> all = {
      {"undecided", "8 ids that never joined propose, send blocks, and never decide", 8, false, 0, 100, leave_undecided,
       nullptr},
      {"undecided_joined", "one member proposes, sends blocks, and never decides", 1, true, 0, 50, leave_undecided,
       nullptr},
      {"silent", "one member never answers a proposal", 1, true, 0, 1, wait, nullptr},
      {"busy", "one member says BUSY to every proposal", 1, true, 0, 1, wait, say_busy},
      {"propose", "one member proposes without end, and sends no blocks", 1, true, 0, 200, propose_alone, nullptr},
      {"half_open", "one member proposes, accepts proposals, and sends nothing more", 1, true, 0, 50, propose_alone,
       accept_only},
      {"liar", "one member exchanges properly with params of 1e6", 1, true, 0, 50, lie, decide},
      {"joins", "every Join is of another id that does not train", 1, false, 0, 500, join_as_another, nullptr},
      {"settings", "every Join names other settings", 1, false, 0, 100, offer_other_settings, nullptr},
      {"refusals", "Joins are refused that nobody asked of it", 1, false, 0, 100, refuse_unasked, nullptr},
      {"steps", "one member claims 1e15 steps", 1, true, kFarAhead, 1, wait, nullptr},
      {"clock", "forged records: the members have made 1e15 steps", 1, false, 0, 20, forge_clock, nullptr},
      {"stops", "one member claims ever longer runs", 1, true, 0, 20, claim_a_stop, nullptr},
      {"generation", "forged records: the members began 30 years from now", 1, false, 0, 20, forge_generation, nullptr},
      {"rates", "one member claims that it makes 1e30 steps a second, then 1e-30, with such masses", 1, true, 0, 20,
       claim_a_rate, nullptr},
      {"addresses", "every Join names another address to answer to", 1, false, 0, 100, join_from_anywhere, nullptr},
      {"names", "every Join names another host that no name server knows", 1, false, 0, 100, join_from_names, nullptr},
      {"farewells", "forged records: the members have left", 1, false, 0, 10, forge_farewell, nullptr},
      {"accusations", "one member accuses all others of being dead", 1, true, 0, 10, accuse, nullptr},
      {"garbage", "random frames, and proper ones with a few bytes changed", 1, false, 0, 500, send_garbage, nullptr},
  };
  return all;
}

const Attack* find_attack(const std::string& name) {
  const auto found = std::find_if(attacks().begin(), attacks().end(), [&](const Attack& a) { return a.name == name; });
  return found == attacks().end() ? nullptr : &*found;
}

}  // namespace starling
