// Routers without trainers over a virtual network: each is a member and answers joins; some are joining themselves.
// Frames take a moment, may be lost, and can be spoiled on the way by a test.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bootstrap/contact.h"
#include "bootstrap/memory_model.h"
#include "bootstrap/model_fetch.h"
#include "bootstrap/router.h"
#include "gossip/limits.h"
#include "gossip/rng.h"
#include "gossip/sim/virtual_network.h"
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

// Texts that differ in blanks alone mean the same.
inline std::string compare(std::string ours, std::string theirs) {
  std::erase(ours, ' ');
  std::erase(theirs, ' ');
  return ours == theirs ? "" : "here: " + ours + " there: " + theirs;
}

class World {
 public:
  // May change or swallow (false) what a node sends.
  using Spoil = std::function<bool(Message& message, SharedBytes& payload)>;

  struct Node final : Router::Handler {
    // `keys`: of a swarm with tickets; null: it is open. `revocations`: what it knows of; null: it is not certified.
    Node(World& world, uint32_t number_in, MemberMeta meta, const MemberKeys* keys, Revocations* revocations)
        : number(number_in),
          transport(world.network.open(endpoint_of(number))),
          router({own_record(number, std::move(meta), keys), {}, {}, 1000 + number, compare, 0, {}, revocations, keys},
                 *transport, world.clock) {
      router.set_settings(world.settings);
    }
    Membership& members() { return router.membership(); }
    Donor& donor() { return router.donor(); }

    void on_bootstrap(const FrameHeader& header, const BootstrapMessage& message, const SharedBytes& payload) override {
      if (contact) {
        contact->handle(header, message);
        if (contact->state() == Contact::State::kAnswered) {
          router.set_settings(contact->settings(), contact->signature());
        }
      }
      if (fetch) fetch->handle(header, message, payload);
    }
    void on_exchange(const FrameHeader&, const ExchangeMessage&, const SharedBytes&) override {}
    void on_member(const MemberEvent& event) override { events.push_back(event); }
    void on_frame_refused(const ReceivedFrame&, const char* cause) override {
      if (!refusals_expected) ADD_FAILURE() << cause;
    }

    uint32_t number;
    std::unique_ptr<Transport> transport;
    Router router;
    std::unique_ptr<Contact> contact;
    std::unique_ptr<ModelFetch> fetch;
    std::vector<MemberEvent> events;
    bool up = true, refusals_expected = false;
    Spoil spoil;
    Duration delay = std::chrono::milliseconds(1);
    TimePoint last_due{};
    uint64_t joins_sent = 0, block_requests = 0;

   private:
    static PeerRecord own_record(uint32_t number, MemberMeta meta, const MemberKeys* keys) {
      PeerRecord record = record_of(number);
      if (keys) record.id = keys->self();
      record.meta = std::move(meta);
      return record;
    }
  };

  World() {
    network.set_filter([this](PassingFrame& frame) { pass(frame); });
  }

  Node& add(MemberMeta meta = trained(100), const MemberKeys* keys = nullptr, Revocations* revocations = nullptr) {
    const auto number = static_cast<uint32_t>(nodes.size());
    nodes.push_back(std::make_unique<Node>(*this, number, std::move(meta), keys, revocations));
    return *nodes.back();
  }
  static MemberMeta trained(uint64_t steps) { return {.phase = Phase::kTraining, .steps = steps}; }
  static MemberMeta joining() { return {.phase = Phase::kJoining}; }

  void introduce_all() {
    for (auto& node : nodes) {
      for (auto& other : nodes) {
        if (node != other) node->members().add(other->members().self());
      }
    }
  }

  Contact& join(Node& node, std::vector<Endpoint> addresses, std::string own_settings = "",
                std::string signature = "") {
    const ContactOptions options{.bootstrap = std::move(addresses),
                                 .settings = std::move(own_settings),
                                 .signature = std::move(signature),
                                 .compare = compare};
    node.router.set_settings(options.settings, options.signature);
    node.contact = std::make_unique<Contact>(options, node.members(), clock, node.router, 77, 77);
    return *node.contact;
  }

  ModelFetch& fetch(Node& node, size_t total_bytes) {
    params.assign(total_bytes, std::byte{});
    node.fetch = std::make_unique<ModelFetch>(
        fetch_options, total_bytes, node.members(), clock, node.router, worker,
        [this](uint64_t offset_bytes, std::span<const std::byte> bytes) {
          EXPECT_LE(offset_bytes + bytes.size(), params.size());
          if (bytes.front() == kNoParam) return false;
          std::copy(bytes.begin(), bytes.end(), params.begin() + static_cast<std::ptrdiff_t>(offset_bytes));
          ++blocks_placed;
          return true;
        },
        78, 78);
    return *node.fetch;
  }

  // A frame from somebody who is no node here.
  void post(const FrameHeader& header, const Message& message, const Node& to, SharedBytes payload = {}) {
    const std::unique_ptr<Transport> stranger = network.open({"10.9.9.9", 7400});
    Frame frame{encode_frame_header(header, message, payload.span()), payload};
    EXPECT_EQ(stranger->send(endpoint_of(to.number), channel_of(message), std::move(frame)), SendStatus::kQueued);
  }

  // As post(), and again with the cookie that the first Join is answered with.
  void post_join(const FrameHeader& header, Join join, const Node& to) {
    post(header, join, to);
    run_for(3 * kLinkDelay);
    join.cookie = last_cookie;
    post(header, join, to);
    run_for(3 * kLinkDelay);
  }

  void step() {
    clock.advance(kLinkDelay);
    network.deliver_due();
    worker.run_completions();
    each_step();
    for (auto& node : nodes) {
      if (!node->up) {
        while (node->transport->poll()) {
        }  // lost
        continue;
      }
      node->router.tick(*node);
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
        if (std::equal(block.span().begin(), block.span().end(), params.begin() + static_cast<std::ptrdiff_t>(at))) {
          result.back() = static_cast<int>(m);
        }
      }
    }
    return result;
  }

  VirtualClock clock;
  VirtualNetwork network{clock, 1, {.delay_min = kLinkDelay, .delay_max = kLinkDelay}};
  std::string settings;  // of nodes added from now on
  ModelFetchOptions fetch_options;
  InlineWorker worker;
  std::vector<std::unique_ptr<Node>> nodes;
  std::vector<std::byte> params;
  size_t blocks_placed = 0;
  uint64_t last_cookie = 0;  // that any node sent
  std::function<void()> each_step = [] {};

 private:
  static constexpr Duration kLinkDelay = std::chrono::milliseconds(1);

  void pass(PassingFrame& frame) {
    if (const auto* asks = message_as<JoinCookie>(frame.message)) last_cookie = asks->cookie;
    const auto at = std::find_if(nodes.begin(), nodes.end(),
                                 [&](const auto& node) { return endpoint_of(node->number) == frame.from; });
    if (at == nodes.end()) return;
    Node& from = **at;
    from.joins_sent += message_is<Join>(frame.message);
    from.block_requests += message_is<ModelBlockRequest>(frame.message);
    if (from.spoil && !from.spoil(frame.message, frame.payload)) {
      frame.copies.clear();
      return;
    }
    if (!message_is<ModelBlock>(frame.message)) return;
    const TimePoint due = clock.now() + kLinkDelay;  // a slow link: one block after the other
    from.last_due = std::max(due, from.last_due) + from.delay;
    frame.copies = {from.last_due - due};
  }
};

}  // namespace starling
