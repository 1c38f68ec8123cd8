// Agents without trainers in virtual time: each has a membership and answers joins; some are joining
// themselves. Frames take a moment, may be lost, and can be spoiled on the way by a test.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bootstrap/donor.h"
#include "bootstrap/joiner.h"
#include "bootstrap/memory_model.h"
#include "gossip/limits.h"
#include "gossip/rng.h"
#include "tests/gossip/membership/membership_support.h"

namespace starling {

// Random params; each block begins with `first_byte`.
inline std::shared_ptr<const ModelFile> random_model(uint64_t snapshot, uint64_t steps, size_t total_bytes,
                                                     std::byte first_byte = std::byte{1}) {
  std::vector<std::byte> bytes(total_bytes);
  Rng rng(snapshot);
  for (size_t i = 0; i + 8 <= total_bytes; i += 8) {
    const uint64_t word = rng.next_u64();
    std::memcpy(bytes.data() + i, &word, 8);
  }
  for (size_t at = 0; at < total_bytes; at += kTransferBlockBytes) bytes[at] = first_byte;
  return std::make_shared<MemoryModel>(SharedBytes::take(std::move(bytes)), snapshot, steps / 10, steps);
}

// A block that begins with it is intact, but nothing that a model could hold.
inline constexpr std::byte kNoParam{0xa5};

class Town {
 public:
  // May change or swallow (false) what a node sends.
  using Spoil = std::function<bool(Message& message, SharedBytes& payload)>;

  struct Node final : Outbox {
    Node(Town& town_in, uint32_t number_in, MemberMeta meta) : town(town_in), number(number_in) {
      PeerRecord record = record_of(number);
      record.meta = std::move(meta);
      members = std::make_unique<Membership>(MembershipOptions{}, record, town.clock, *this, 1000 + number);
      donor =
          std::make_unique<Donor>(*members, *this, [](const std::string& ours, const std::string& theirs) {
            return "here: " + ours + " there: " + theirs;
          });
    }
    void send(const PeerId& to, const Message& message, SharedBytes payload) override {
      if (const Member* member = members->find(to)) {
        send(member->record.endpoint, message, std::move(payload));
      }
    }
    void send(const Endpoint& to, const Message& message, SharedBytes payload) override {
      town.post(*this, to, message, std::move(payload));
    }
    Town& town;
    uint32_t number;
    std::unique_ptr<Membership> members;
    std::unique_ptr<Donor> donor;
    std::unique_ptr<Contact> contact;
    std::unique_ptr<ModelFetch> fetch;
    bool up = true;
    Spoil spoil;
    Duration delay = std::chrono::milliseconds(1);
    TimePoint last_due{};
    uint64_t joins_sent = 0, block_requests = 0;
  };

  Node& add(MemberMeta meta = trained(100)) {
    nodes.push_back(std::make_unique<Node>(*this, static_cast<uint32_t>(nodes.size()), std::move(meta)));
    return *nodes.back();
  }
  static MemberMeta trained(uint64_t steps) { return {.phase = Phase::kTraining, .steps = steps}; }
  static MemberMeta joining() { return {.phase = Phase::kJoining}; }

  void introduce_all() {
    for (auto& node : nodes) {
      for (auto& other : nodes) {
        if (node != other) node->members->add(other->members->self());
      }
    }
  }

  Contact& join(Node& node, std::vector<Endpoint> addresses, std::string settings = "") {
    options.bootstrap = std::move(addresses);
    options.settings = std::move(settings);
    node.contact = std::make_unique<Contact>(options, *node.members, clock, node, 77);
    return *node.contact;
  }

  ModelFetch& fetch(Node& node, size_t total_bytes) {
    params.assign(total_bytes, std::byte{});
    node.fetch = std::make_unique<ModelFetch>(
        options, total_bytes, *node.members, clock, node, worker,
        [this](uint64_t offset_bytes, std::span<const std::byte> bytes) {
          EXPECT_LE(offset_bytes + bytes.size(), params.size());
          if (bytes.front() == kNoParam) return false;
          std::copy(bytes.begin(), bytes.end(), params.begin() + static_cast<std::ptrdiff_t>(offset_bytes));
          ++blocks_placed;
          return true;
        },
        78);
    return *node.fetch;
  }

  void step() {
    clock.advance(std::chrono::milliseconds(1));
    deliver();
    worker.run_completions();
    for (auto& node : nodes) {
      if (!node->up) continue;
      if (node->members->next_deadline() <= clock.now()) node->members->tick();
      if (node->contact) node->contact->tick();
      if (node->fetch) node->fetch->tick();
    }
  }
  void run_for(Duration time) {
    const TimePoint end = clock.now() + time;
    while (clock.now() < end) step();
  }
  bool run_until(const std::function<bool()>& reached, Duration limit) {
    const TimePoint end = clock.now() + limit;
    while (!reached()) {
      if (clock.now() >= end) return false;
      step();
    }
    return true;
  }

  // Which of these models each block of `params` is of; -1: of none.
  std::vector<int> origins(const std::vector<const ModelFile*>& models) const {
    std::vector<int> result;
    for (size_t at = 0; at < params.size(); at += kTransferBlockBytes) {
      const auto index = static_cast<uint32_t>(result.size());
      result.push_back(-1);
      for (size_t m = 0; m < models.size(); ++m) {
        const SharedBytes block = models[m]->block(index);
        if (std::equal(block.span().begin(), block.span().end(),
                       params.begin() + static_cast<std::ptrdiff_t>(at))) {
          result.back() = static_cast<int>(m);
        }
      }
    }
    return result;
  }

  FakeClock clock;
  JoinerOptions options;
  InlineWorker worker;
  std::vector<std::unique_ptr<Node>> nodes;
  std::vector<std::byte> params;
  size_t blocks_placed = 0;

 private:
  struct InFlight {
    TimePoint due;
    Endpoint to;
    FrameHeader header;
    Message message;
    SharedBytes payload;
  };

  void post(Node& from, const Endpoint& to, Message message, SharedBytes payload) {
    from.joins_sent += message_is<Join>(message);
    from.block_requests += message_is<ModelBlockRequest>(message);
    if (from.spoil && !from.spoil(message, payload)) return;
    FrameHeader header{.sender = from.members->self().id, .generation = 1,
                       .reply_to = from.members->self().endpoint};
    // A slow link: one block after the other.
    TimePoint due = clock.now() + std::chrono::milliseconds(1);
    if (message_is<ModelBlock>(message)) {
      due = from.last_due = std::max(due, from.last_due) + from.delay;
    }
    in_flight_.push_back({due, to, header, std::move(message), std::move(payload)});
  }

  void deliver() {
    std::deque<InFlight> waiting;
    std::swap(waiting, in_flight_);
    for (InFlight& frame : waiting) {
      if (frame.due > clock.now()) {
        in_flight_.push_back(std::move(frame));
        continue;
      }
      for (auto& node : nodes) {
        if (!node->up || node->members->self().endpoint != frame.to) continue;
        node->members->heard_from(frame.header.sender, frame.header.generation);
        if (const auto* m = std::get_if<MembershipMessage>(&frame.message)) {
          node->members->handle(frame.header.sender, *m);
        } else if (const auto* joining = std::get_if<BootstrapMessage>(&frame.message)) {
          node->donor->handle(frame.header, *joining);
          if (node->contact) node->contact->handle(frame.header, *joining);
          if (node->fetch) node->fetch->handle(frame.header, *joining, frame.payload);
        }
      }
    }
  }

  std::deque<InFlight> in_flight_;
};

}  // namespace starling
