// An agent's place in its swarm; a registry has nothing else. Decodes frames and hands each message to the part that
// handles its family, keeps the membership, answers joins, readers and requests for the model, and holds the settings
// that the swarm agreed on. Exchange messages, and the answers that a newcomer waits for, go to the Handler.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bootstrap/donor.h"
#include "bootstrap/join_gate.h"
#include "bootstrap/peer_troubles.h"
#include "bootstrap/twin_watch.h"
#include "gossip/clock.h"
#include "gossip/membership/member_clocks.h"
#include "gossip/membership/membership.h"
#include "gossip/net/outbox.h"
#include "gossip/net/transport.h"
#include "gossip/net/wire.h"

namespace starling {

struct RouterOptions {
  PeerRecord self;
  MembershipOptions membership;
  std::vector<Endpoint> seeds;  // addresses to contact again and again, members or not
  uint64_t rng_seed = 1;
  // `compare(ours, theirs)` lists the differing lines of two settings texts, for the refusal; empty: they mean the
  // same, and the newcomer is let in with our text.
  std::function<std::string(const std::string&, const std::string&)> compare;
  uint64_t secret = 0;                 // of the process, for process_secret(); nobody else may guess it
  TwinWatch::Sign sign{};              // as TwinWatch's
  Revocations* revocations = nullptr;  // as Membership's
  const MemberKeys* keys = nullptr;    // likewise
  MemberClocks* clocks = nullptr;      // by which memberships end; may be shared. Null: none ends
  TwinWatch* twins = nullptr;          // that several routers share; `sign` is not used then. Null: it has its own
};

struct RouterCounters {
  // Frames refused, by cause.
  std::array<uint64_t, kDecodeStatusCount> undecoded{};  // by DecodeStatus: damaged, of another version, random bytes
  uint64_t wrong_sender = 0;  // the header names another sender than the one that the transport authenticated
  uint64_t other_swarm = 0;   // from agents with other settings, or with none yet
  uint64_t no_member = 0;     // of members that were removed, or that have expired

  uint64_t joins = 0;              // answered with the settings and the members
  uint64_t joins_unproven = 0;     // answered with a cookie
  uint64_t reads = 0;              // of readers, answered with all records
  uint64_t requests_unproven = 0;  // for the model; likewise
  uint64_t joins_dropped = 0;      // one source address sent too many, or requests for the model
  uint64_t joins_older = 0;        // newcomers refused, and requests for the model, of programs older than this one
  uint64_t joins_refused = 0;      // their settings or their version differ from ours
  uint64_t proposals_refused = 0;  // of those that are no member, or take no part
  uint64_t sends_failed = 0;       // unknown peer, bad address or full queue

  uint64_t frames_refused() const;
  void add(const RouterCounters& other);
  // The causes that occurred, in words, with their counts.
  std::vector<std::pair<const char*, uint64_t>> refusals() const;
};

// Answers a Join of another version of the protocol; its sender would ask for ever otherwise. False: the frame is no
// such Join, or its source has had enough answers.
bool refuse_other_version(const ReceivedFrame& frame, const PeerRecord& self, JoinGate& gate, Transport& transport);

// Whether it is a reader's: one with the identity of this very agent too, as `starling status` beside a member of a
// certified swarm has it.
bool is_read(const Message& message);

// Of a frame of a revoked sender, which its link proves: cuts the link, and tells the sender.
void turn_away_revoked(const ReceivedFrame& frame, const FrameHeader& header, const PeerRecord& self,
                       const Revocations& revocations, JoinGate& gate, Transport& transport);
// False: the membership of the frame's sender has not ended. Else nothing of it is to be taken, and it is told so where
// it joins. Its link is cut, unless this machine's clock alone says that it has ended, or too few clocks are known.
bool turn_away_expired(const ReceivedFrame& frame, const FrameHeader& header, const Message& message,
                       MemberClocks* clocks, const PeerRecord& self, JoinGate& gate, Transport& transport);

// Whether the gate's verdict lets a Join in. If not it is counted, and `tell` has what the newcomer must hear, if
// anything: its cookie, or that its program is too old.
bool let_in(JoinGate& gate, JoinGate::Verdict verdict, const Join& join, RouterCounters& counters,
            const std::function<void(const Message&)>& tell);

class Router final : public Outbox {
 public:
  class Handler {
   public:
    virtual ~Handler() = default;
    // Answers to this agent's own Join or to its requests for the model; requests of others may be ignored.
    virtual void on_bootstrap(const FrameHeader& header, const BootstrapMessage& message,
                              const SharedBytes& payload) = 0;
    virtual void on_exchange(const FrameHeader& header, const ExchangeMessage& message, const SharedBytes& payload) = 0;
    virtual void on_member(const MemberEvent& event) = 0;
    // Not told of other swarms'. RouterCounters count all, so there is nothing to do here.
    virtual void on_frame_refused(const ReceivedFrame&, const char*) {}
  };

  // The transport and the clock outlive the router.
  Router(const RouterOptions& options, Transport& transport, const Clock& clock);

  // The text that the swarm agreed on; its hash is the swarm's id on every frame. Empty: none yet; the router then
  // lets nobody in. `signature`: of the swarm's key, for newcomers; empty: the swarm is open, or this agent has none.
  void set_settings(std::string settings, std::string signature = {});
  // For people: stands in the answers to newcomers.
  void set_note(std::string note) { note_ = std::move(note); }
  // The swarm that this agent's Joins name; 0: none.
  void want_swarm(uint64_t swarm_id) { wanted_ = swarm_id; }
  const std::string& settings() const { return settings_; }
  const std::string& signature() const { return signature_; }
  uint64_t swarm_id() const { return swarm_id_; }  // 0: no settings yet
  uint64_t secret() const { return secret_; }      // of the process

  void tick(Handler& handler);  // frames in, membership, events out
  TimePoint next_deadline() const;
  // This agent is reached there from now on, or its machine slept: links to all members are made anew.
  void move_to(const Endpoint& endpoint);
  // To all members; of an identity that another process goes on with, to that process alone.
  void announce_leave();

  Membership& membership() { return membership_; }
  const Membership& membership() const { return membership_; }
  TwinWatch& twins() { return twins_; }
  const TwinWatch& twins() const { return twins_; }
  Donor& donor() { return donor_; }
  const Donor& donor() const { return donor_; }
  const RouterCounters& counters() const { return counters_; }
  // Its membership had, so its last frame was turned away.
  bool has_ended(const PeerId& member) const { return ended_.contains(member); }
  // For people, with the remedy: what keeps other agents from this one, since the last call.
  std::vector<std::string> take_troubles() { return troubles_.take(); }

  void send(const PeerId& to, const Message& message, SharedBytes payload = {}) override;
  void send(const PeerAddress& to, const Message& message, SharedBytes payload = {}) override;

 private:
  void receive(Handler& handler, const ReceivedFrame& frame);
  // False: counted, and the handler was told where it should know.
  bool admit(Handler& handler, const ReceivedFrame& frame, FrameHeader* header, Message* message);
  bool is_late(const ReceivedFrame& frame, const FrameHeader& header, const Message& message);
  bool answer_at_bulk_port(const ReceivedFrame& frame);
  bool may_have_model(const FrameHeader& header, const BootstrapMessage& message, const std::string& source);
  void answer_join(const FrameHeader& header, const Join& join, const std::string& source);
  void answer_reader(const Join& join);
  void forget_link(const Endpoint& endpoint);
  void forget_readers();
  void look_at_strangers();
  void look_at_sender(const FrameHeader& header, const std::string& source);
  void refuse_for_room(const Join& join);
  void refuse_earlier(const Join& join, const PeerRecord& held);
  bool may_exchange(const FrameHeader& header, const ExchangeMessage& message, const std::string& source);

  RouterOptions options_;
  const uint64_t secret_;
  Transport& transport_;
  const Clock& clock_;
  std::string settings_, signature_;
  std::string note_;
  uint64_t swarm_id_ = 0, wanted_ = 0;
  Membership membership_;
  Donor donor_;
  std::unique_ptr<TwinWatch> own_twins_;  // null: they are shared
  TwinWatch& twins_;
  JoinGate gate_;
  PeerTroubles troubles_;
  std::set<PeerId> ended_;
  std::map<Endpoint, TimePoint> readers_;  // when they asked last: their links end with them
  RouterCounters counters_;
};

// First 8 bytes of the BLAKE2b-256 of the settings text, never 0.
uint64_t swarm_id_of(const std::string& settings);

}  // namespace starling
