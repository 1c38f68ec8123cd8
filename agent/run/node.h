// What an agent and a registry have in common: a place in the swarm. Decodes and routes frames, keeps the membership,
// answers joins. Everything else that arrives goes to the Handler.
#pragma once

#include <cstdint>
#include <string>

#include "bootstrap/donor.h"
#include "gossip/clock.h"
#include "gossip/membership/membership.h"
#include "gossip/net/outbox.h"
#include "gossip/net/transport.h"

namespace starling {

struct NodeCounters {
  uint64_t frames_refused = 0;    // did not decode: damaged, wrong version, random bytes
  uint64_t frames_foreign = 0;    // of another swarm
  uint64_t sends_failed = 0;      // unknown peer, bad address or full queue
};

class Node final : public Outbox {
 public:
  class Handler {
   public:
    virtual ~Handler() = default;
    // An answer to this agent's own Join or to its requests for the model.
    virtual void on_bootstrap(const FrameHeader& header, const BootstrapMessage& message,
                              const SharedBytes& payload) = 0;
    virtual void on_exchange(const FrameHeader& header, const ExchangeMessage& message,
                             const SharedBytes& payload) = 0;
    virtual void on_member(const MemberEvent& event) = 0;
  };

  Node(PeerRecord self, const MembershipOptions& options, std::vector<Endpoint> seeds, Transport& transport,
       const Clock& clock, uint64_t rng_seed);

  // The agreed text; its hash is the swarm's id on every frame. Empty: none yet.
  void set_settings(const std::string& settings);
  uint64_t swarm_id() const { return swarm_id_; }

  void tick(Handler& handler);            // frames in, membership, events out
  TimePoint next_deadline() const;

  Membership& membership() { return membership_; }
  const Membership& membership() const { return membership_; }
  Donor& donor() { return donor_; }
  const NodeCounters& counters() const { return counters_; }

  void send(const PeerId& to, const Message& message, SharedBytes payload = {}) override;
  void send(const Endpoint& to, const Message& message, SharedBytes payload = {}) override;

 private:
  void receive(Handler& handler, const ReceivedFrame& frame);
  void tell(const MemberEvent& event);

  Transport& transport_;
  const Clock& clock_;
  uint64_t swarm_id_ = 0;
  std::string settings_;
  Membership membership_;
  Donor donor_;
  NodeCounters counters_;
  TimePoint next_refusal_log_;
};

// First 8 bytes of the BLAKE2b-256 of the settings text, never 0.
uint64_t swarm_id_of(const std::string& settings);

}  // namespace starling
