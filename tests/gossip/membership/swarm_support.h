// A swarm of Membership machines over a lossy network in virtual time. Control frames between two nodes may
// be lost or delayed; nodes can be cut apart, stopped, paused and started again.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gossip/rng.h"
#include "tests/gossip/membership/membership_support.h"

namespace starling {

class VirtualSwarm {
 public:
  VirtualSwarm(size_t count, double loss, uint64_t rng_seed, MembershipOptions options = {})
      : options_(options), loss_(loss), rng_(rng_seed) {
    for (size_t i = 0; i < count; ++i) {
      nodes_.push_back(std::make_unique<Node>(*this, static_cast<uint32_t>(i)));
    }
    for (auto& node : nodes_) node->start(1);
  }

  // Every node starts out knowing every other.
  void introduce_all() {
    for (auto& node : nodes_) {
      for (auto& other : nodes_) {
        if (node != other && other->members) node->members->add(other->members->self());
      }
      node->members->take_events();
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

  Membership& at(size_t i) { return *nodes_[i]->members; }
  size_t size() const { return nodes_.size(); }
  bool is_up(size_t i) const { return nodes_[i]->members != nullptr; }
  size_t add_node() {
    nodes_.push_back(std::make_unique<Node>(*this, static_cast<uint32_t>(nodes_.size())));
    nodes_.back()->start(1);
    return nodes_.size() - 1;
  }
  void crash(size_t i) { nodes_[i]->members.reset(); }
  void restart(size_t i, uint64_t generation) { nodes_[i]->start(generation); }
  void pause(size_t i, bool paused) { nodes_[i]->paused = paused; }
  void set_loss(double loss) { loss_ = loss; }
  // Nodes of different sides do not hear each other.
  void cut(std::vector<int> side_of_node) { sides_ = std::move(side_of_node); }
  TimePoint now() const { return clock_.now(); }
  uint64_t frames() const { return frames_; }

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
      const Member* member = at(i).find(peer_of(static_cast<uint32_t>(dead)));
      if (!member || member->state != MemberState::kDead) return false;
    }
    return true;
  }
  size_t count_events(MemberEventKind kind) {
    size_t count = 0;
    for (size_t i = 0; i < size(); ++i) {
      if (!is_up(i)) continue;
      for (const MemberEvent& event : at(i).take_events()) count += event.kind == kind;
    }
    return count;
  }

 private:
  struct Node final : Outbox {
    Node(VirtualSwarm& swarm_in, uint32_t number_in) : swarm(swarm_in), number(number_in) {}
    void start(uint64_t generation) {
      members = std::make_unique<Membership>(swarm.options_, record_of(number, generation), swarm.clock_,
                                             *this, swarm.rng_.next_u64());
    }
    void send(const PeerId& to, const Message& message, SharedBytes) override {
      ASSERT_NE(members->find(to), nullptr) << "only members have an address";
      swarm.post(number, number_of(to), message);
    }
    void send(const Endpoint& to, const Message& message, SharedBytes) override {
      for (uint32_t i = 0; i < swarm.size(); ++i) {
        if (endpoint_of(i) == to) swarm.post(number, i, message);
      }
    }
    VirtualSwarm& swarm;
    uint32_t number;
    std::unique_ptr<Membership> members;
    bool paused = false;
    std::vector<std::pair<uint32_t, Message>> unread;  // while paused
  };
  struct InFlight {
    TimePoint due;
    uint64_t order;
    uint32_t from, to;
    Message message;
    bool operator<(const InFlight& other) const {
      return std::tie(due, order) > std::tie(other.due, other.order);
    }
  };

  static uint32_t number_of(const PeerId& id) {
    return static_cast<uint32_t>(id.bytes[0]) << 8 | id.bytes[1];
  }

  void post(uint32_t from, uint32_t to, const Message& message) {
    ++frames_;
    if (to >= size() || rng_.chance(loss_)) return;
    if (!sides_.empty() && sides_[from] != sides_[to]) return;
    const Duration delay = from_seconds(0.001 + 0.02 * rng_.uniform());
    in_flight_.push({clock_.now() + delay, frames_, from, to, message});
  }

  void step() {
    clock_.advance(std::chrono::milliseconds(10));
    while (!in_flight_.empty() && in_flight_.top().due <= clock_.now()) {
      const InFlight frame = in_flight_.top();
      in_flight_.pop();
      Node& node = *nodes_[frame.to];
      if (!node.members) continue;
      if (node.paused) {
        node.unread.emplace_back(frame.from, frame.message);
      } else {
        node.members->handle(peer_of(frame.from), std::get<MembershipMessage>(frame.message));
      }
    }
    for (auto& node : nodes_) {
      if (!node->members || node->paused) continue;
      if (node->members->next_deadline() <= clock_.now()) {
        node->members->tick();
        EXPECT_GT(node->members->next_deadline(), clock_.now()) << "the owner would spin";
      }
      for (auto& [from, message] : std::exchange(node->unread, {})) {
        node->members->handle(peer_of(from), std::get<MembershipMessage>(message));
      }
    }
  }

  MembershipOptions options_;
  double loss_;
  Rng rng_;
  FakeClock clock_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::priority_queue<InFlight> in_flight_;
  std::vector<int> sides_;
  uint64_t frames_ = 0;
};

}  // namespace starling
