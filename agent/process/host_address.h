// Which address of this machine others should dial: the one place that derives it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/config/config.h"
#include "gossip/peer.h"

namespace starling {

// Where others reach this process: what the config says, else where it listens, and in place of "every interface" the
// address of own_address(). `bound`: where it listens, the port known.
Endpoint advertised(const AgentConfig& config, const Endpoint& bound);

// Whether advertised() depends on the addresses that this machine has now.
bool follows_interfaces(const AgentConfig& config);

// An address of this machine in numbers: the one that leads to one of `peers`, unless it is loopback. Where several do,
// it is one by which a peer accepts a connection, which is tried for up to 2 s. Else it is that of the default route.
// Else it is another one of an interface: bridges and tunnels after others, IPv6 after IPv4, link-local ones last. Else
// 127.0.0.1.
std::string own_address(const std::vector<Endpoint>& peers);

// The local address that a packet towards `peer` would leave from; nullopt: its name has no number, or no way leads
// there. Sends nothing.
std::optional<std::string> source_towards(const Endpoint& peer);

// All addresses of interfaces that are up, loopback too, in numbers and in order.
std::vector<std::string> interface_addresses();

// "0.0.0.0", "::", "*"
bool is_any_address(const std::string& host);

// What is wrong with an address that only this machine reaches, while `peers` are on others: for people, with the
// remedy. Empty: nothing.
std::string loopback_problem(const Endpoint& own, const std::vector<Endpoint>& peers);

}  // namespace starling
