// Whether the swarm of this process has tickets, decided once at its start from its config, the tickets that it was
// given, and its state folder.
#pragma once

#include <memory>
#include <string>

#include "agent/config/config.h"
#include "agent/process/state_folder.h"
#include "gossip/net/member_keys.h"
#include "gossip/net/revocations.h"
#include "gossip/net/zmq_transport.h"

namespace starling {

struct Trusted {
  Config config;                               // its trust is open, or ticket or certified with the swarm's key
  std::shared_ptr<const MemberKeys> keys;      // null: open
  std::shared_ptr<Revocations> revocations{};  // null: not certified
};

// `stored`: the agreed settings of the folder; empty: none. The first agent of a swarm makes its key where its config
// says trust: ticket, or auto while other machines reach it and it was told no bootstrap. Where there is a key, memory
// is hidden. Throws std::runtime_error, with the remedy, where the three do not go together, or tickets are of several
// swarms.
Trusted enter_trust(const Config& config, const StatePlace& place, const std::string& stored);

// Whether other machines may open links to this agent: it listens beyond loopback, or advertises an address there.
bool others_reach(const AgentConfig& agent);

// For each start in a swarm without tickets that others reach.
void warn_of_open_swarm(const Endpoint& advertise, const std::string& folder);

// No core of this process is dumped from now on, and other processes of its user cannot read its memory.
void hide_memory();

// Of a ticket of the certified swarm with this key. It may have expired. Throws std::runtime_error, with the remedy: it
// is of another swarm or another agent.
std::shared_ptr<const MemberKeys> keys_of_ticket(const Ticket& ticket, const StatePlace& place, const PeerId& swarm);

// The identity that a ticket brings for this process; null: it makes its own. Lies in `agent`.
const KeySeed* given_identity(const AgentConfig& agent);

// For people: how others join a certified swarm. Empty: it is none.
std::string how_others_are_admitted(const StatePlace& place);

// Whether the folder's own ticket holds this key of a swarm, so that the swarm is not certified.
bool shares_ticket(const std::string& folder, const PeerId& key);

// For people: swarm.key lies there, and nothing says whether its swarm is certified.
std::string lone_key_text(const std::string& folder);

// Of a ticket that has, and the remedy. `by`: which clock says so.
std::string expired_text(const MemberKeys& keys, uint64_t unix_s, const char* by);

std::string revoked_text(const PeerId& id);

std::string date_text(uint64_t unix_s);      // "2027-01-31 12:00 UTC"
std::string until_text(uint64_t not_after);  // "until 2027-01-31 12:00 UTC"; of 0: "for ever"

// Tells the transport which peers are at the addresses that this process was given. `known`: of an earlier life.
// `swarm`: as in ZmqTransport::expect_at().
void expect_all(ZmqTransport& transport, const AgentConfig& agent, const std::vector<PeerAddress>& known,
                const PeerId& swarm = {});

}  // namespace starling
