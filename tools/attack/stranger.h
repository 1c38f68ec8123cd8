// A process that speaks the protocol and is no agent: any number of ids behind one address. It learns the swarm by
// joining it, answers pings, and sends whatever an attack asks for. A state machine over a Transport, so that it plays
// against simulated and against real agents.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gossip/clock.h"
#include "gossip/net/member_keys.h"
#include "gossip/net/message.h"
#include "gossip/net/transport.h"
#include "gossip/rng.h"

namespace starling {

class Stranger {
 public:
  // The references and `keys` outlive it. `generation`: of all its ids. `keys`: of the member that its links prove;
  // null: the swarm is open.
  Stranger(Transport& transport, const Clock& clock, uint64_t generation, uint64_t rng_seed,
           const MemberKeys* keys = nullptr);

  PeerId new_id();  // a member has but its own
  std::vector<PeerId> new_ids(size_t count);

  // Reads what has come: learns members, shows cookies, answers pings for all of its ids, then calls on_frame.
  void tick();
  std::function<void(const FrameHeader&, const Message&)> on_frame = [](const FrameHeader&, const Message&) {};

  // Asks to be let in under this id; a cookie is answered. The record says that it trains and how far it is.
  void join(const PeerId& id, const Endpoint& to, uint64_t steps = 0, Phase phase = Phase::kTraining);

  // Of the swarm that answered a Join; empty and 0 until then.
  const std::string& settings() const { return settings_; }
  uint64_t swarm_id() const { return swarm_id_; }
  // The others as JoinReplies and gossip have named them, without its own ids.
  const std::map<PeerId, PeerRecord>& members() const { return members_; }

  // From now on all frames go there, whoever they are meant for: what the attack costs its own machine.
  void divert_to(const Endpoint& sink) { sink_ = sink; }

  PeerRecord record(const PeerId& id, uint64_t steps = 0, Phase phase = Phase::kTraining) const;
  // As it is sent in a swarm with tickets: its own signed, that of another behind the signature of what its owner said.
  PeerRecord signed_as(PeerRecord record, bool farewell = false) const;
  void send(const Endpoint& to, const PeerId& as, const Message& message, const SharedBytes& payload = {});
  // With a header of its own choice.
  void send(const Endpoint& to, const FrameHeader& header, const Message& message, const SharedBytes& payload = {});

  void send(const Endpoint& to, Channel channel, Frame frame);  // whatever its bytes are

  // Proposes to the member under this id, and sends these blocks with it. Nothing follows: if the member votes, it
  // waits for a decision.
  ExchangeId propose(const PeerRecord& to, const PeerId& as, const std::vector<SharedBytes>& blocks, double mass = 1);

  uint64_t generation() const { return generation_; }
  Endpoint address() const { return transport_.local(); }
  uint64_t frames_sent() const { return frames_sent_; }
  Rng& rng() { return rng_; }

 private:
  void receive(const FrameHeader& header, const Message& message);
  void learn(const PeerRecord& record);

  struct Asked {
    Endpoint to;
    Join join;
  };
  Transport& transport_;
  const Clock& clock_;
  const uint64_t generation_;
  Rng rng_;
  const MemberKeys* keys_;
  std::optional<Endpoint> sink_;
  std::string settings_;
  uint64_t swarm_id_ = 0, exchanges_ = 0, frames_sent_ = 0;
  std::map<PeerId, PeerRecord> members_;
  std::map<PeerId, uint64_t> own_;   // ids, and the steps that they claim
  std::map<uint64_t, Asked> asked_;  // Joins that were not answered yet, by nonce
};

}  // namespace starling
