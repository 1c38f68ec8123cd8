// A swarm of routers, of which only the membership has work to do, over a lossy virtual network. Frames may be lost or
// delayed; nodes can be cut apart, stopped, paused and started again.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bootstrap/router.h"
#include "gossip/rng.h"
#include "gossip/sim/virtual_network.h"
#include "tests/gossip/membership/membership_support.h"
#include "tests/gossip/net/numbered_identity.h"

namespace starling {

class VirtualSwarm {
 public:
  VirtualSwarm(size_t count, double loss, uint64_t rng_seed, MembershipOptions options = {})
      : options_(options), rng_(rng_seed), network_(clock_, rng_.next_u64(), links(loss)) {
    for (size_t i = 0; i < count; ++i) add_node();
  }

  // Every node starts out knowing every other.
  void introduce_all() {
    for (size_t i = 0; i < size(); ++i) {
      for (size_t j = 0; j < size(); ++j) {
        if (i != j && is_up(j)) at(i).add(at(j).self());
      }
      take_events(i);
    }
  }

  void run_for(Duration time) {
    const TimePoint end = clock_.now() + time;
    while (clock_.now() < end) step();
  }
  // False: `limit` passed first.
  bool run_until(const std::function<bool()>& reached, Duration limit) {
    const TimePoint end = clock_.now() + limit;
    while (!reached()) {
      if (clock_.now() >= end) return false;
      step();
    }
    return true;
  }

  // Begins anew as a certified swarm with this key.
  void certify(const PeerId& key) {
    key_ = key;
    for (size_t i = 0; i < size(); ++i) restart(i, 1);
  }
  bool knows_revoked(size_t i, const PeerId& id) const { return nodes_[i]->revocations->contains(id); }
  // Begins anew as a swarm with tickets, whose members sign their records.
  void seal(const Identity& swarm) {
    ids_.clear();
    for (size_t i = 0; i < size(); ++i) {
      const Identity self = identity_of(static_cast<uint8_t>(10 + i));
      ids_.push_back(self.id());
      nodes_[i]->keys = std::make_unique<MemberKeys>(self, swarm);
      restart(i, 1);
    }
  }
  PeerId id_of(size_t i) const { return ids_.empty() ? peer_of(static_cast<uint32_t>(i)) : ids_[i]; }
  // Sees every frame, and may change it; as VirtualNetwork's.
  void set_filter(VirtualNetwork::Filter filter) { network_.set_filter(std::move(filter)); }
  std::vector<std::string> take_troubles(size_t i) { return nodes_[i]->router->take_troubles(); }
  void expect_refusals(size_t i) { nodes_[i]->refusals_expected = true; }

  Membership& at(size_t i) { return nodes_[i]->router->membership(); }
  std::vector<MemberEvent> take_events(size_t i) {
    std::vector<MemberEvent> events = std::exchange(nodes_[i]->events, {});
    for (const MemberEvent& event : at(i).take_events()) events.push_back(event);  // since its last tick
    return events;
  }
  size_t size() const { return nodes_.size(); }
  bool is_up(size_t i) const { return nodes_[i]->router != nullptr; }
  size_t add_node() {
    nodes_.push_back(std::make_unique<Node>());
    restart(nodes_.size() - 1, 1);
    return nodes_.size() - 1;
  }
  void crash(size_t i) {
    nodes_[i]->router.reset();
    nodes_[i]->transport.reset();
  }
  void restart(size_t i, uint64_t generation) {
    crash(i);
    const auto number = static_cast<uint32_t>(i);
    Node& node = *nodes_[i];
    node.transport = network_.open(endpoint_of(number));
    if (key_ && !node.revocations) node.revocations = std::make_unique<Revocations>(*key_);
    PeerRecord self = record_of(number, generation);
    self.id = id_of(i);
    const RouterOptions options{self,
                                options_,
                                {},
                                rng_.next_u64(),
                                [](const std::string&, const std::string&) { return std::string(); },
                                0,
                                {},
                                node.revocations.get(),
                                node.keys.get()};
    node.router = std::make_unique<Router>(options, *node.transport, clock_);
    node.router->set_settings("the same for all");
    node.events.clear();
  }
  void pause(size_t i, bool paused) { nodes_[i]->paused = paused; }
  void set_loss(double loss) { network_.set_default_links(links(loss)); }
  // Nodes of different sides do not hear each other.
  void cut(const std::vector<int>& side_of_node) {
    network_.heal_all();
    for (uint32_t i = 0; i < side_of_node.size(); ++i) {
      for (uint32_t j = 0; j < i; ++j) {
        if (side_of_node[i] != side_of_node[j]) network_.cut(endpoint_of(i), endpoint_of(j));
      }
    }
  }
  TimePoint now() const { return clock_.now(); }
  uint64_t frames() const { return network_.delivered(); }
  uint64_t digest() const { return network_.digest(); }

  // Everybody up sees exactly everybody up, alive.
  bool all_agree() {
    size_t up = 0;
    for (size_t i = 0; i < size(); ++i) up += is_up(i);
    for (size_t i = 0; i < size(); ++i) {
      if (!is_up(i)) continue;
      const std::vector<Member> alive = at(i).alive();
      if (alive.size() + 1 != up) return false;
      for (const Member& member : alive) {
        if (!is_up(number_of(member.record.id))) return false;
      }
    }
    return true;
  }
  bool seen_dead_by_all(size_t dead) {
    for (size_t i = 0; i < size(); ++i) {
      if (i == dead || !is_up(i)) continue;
      const Member* member = at(i).find(id_of(dead));
      if (!member || member->state != MemberState::kDead) return false;
    }
    return true;
  }
  size_t count_events(MemberEventKind kind) {
    size_t count = 0;
    for (size_t i = 0; i < size(); ++i) {
      if (!is_up(i)) continue;
      for (const MemberEvent& event : take_events(i)) count += event.kind == kind;
    }
    return count;
  }

 private:
  struct Node final : Router::Handler {
    void on_bootstrap(const FrameHeader&, const BootstrapMessage&, const SharedBytes&) override {}
    void on_exchange(const FrameHeader&, const ExchangeMessage&, const SharedBytes&) override {}
    void on_member(const MemberEvent& event) override { events.push_back(event); }
    void on_frame_refused(const ReceivedFrame&, const char* cause) override {
      if (!refusals_expected) ADD_FAILURE() << cause;
    }

    std::unique_ptr<Transport> transport;
    std::unique_ptr<Revocations> revocations;  // null: the swarm is not certified
    std::unique_ptr<MemberKeys> keys;          // null: the swarm is open
    std::unique_ptr<Router> router;            // null: crashed
    std::vector<MemberEvent> events;
    bool paused = false;  // frames wait until it reads them
    bool refusals_expected = false;
  };

  static LinkOptions links(double loss) {
    return {.loss = loss, .delay_min = std::chrono::milliseconds(1), .delay_max = std::chrono::milliseconds(21)};
  }
  size_t number_of(const PeerId& id) const {
    for (size_t i = 0; i < ids_.size(); ++i) {
      if (ids_[i] == id) return i;
    }
    return static_cast<size_t>(id.bytes[0]) << 8 | id.bytes[1];
  }

  void step() {
    clock_.advance(std::chrono::milliseconds(10));
    network_.deliver_due();
    for (auto& node : nodes_) {
      if (!node->router || node->paused) continue;
      node->router->tick(*node);
      EXPECT_GT(node->router->next_deadline(), clock_.now()) << "the owner would spin";
      EXPECT_EQ(node->router->counters().sends_failed, 0u) << "only members have an address";
    }
  }

  MembershipOptions options_;
  std::optional<PeerId> key_;
  std::vector<PeerId> ids_;  // by number; empty: as peer_of() has them
  Rng rng_;
  VirtualClock clock_;
  VirtualNetwork network_;
  std::vector<std::unique_ptr<Node>> nodes_;
};

}  // namespace starling
