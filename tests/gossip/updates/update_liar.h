// A member whose messages are forged on their way out: what it hands in, the entries that it makes or passes on, and
// what it says that it holds. Numbers stay small integers, so that the others' sums stay exact. Its states are its own:
// who passes on another replica under a true head is found by the audit alone.
#pragma once

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <vector>

#include "gossip/net/hash.h"
#include "tests/gossip/updates/update_harness.h"

namespace starling::exchange_test {

class UpdateLiar {
 public:
  // `share`: of its messages that are forged.
  UpdateLiar(const PeerId& id, double share, uint64_t rng_seed, LogObserver& observer)
      : id_(id), share_(share), observer_(observer), rng_(rng_seed) {}

  const PeerId& id() const { return id_; }
  uint64_t lies() const { return lies_; }
  void stop() { share_ = 0; }

  void pass(Flight& flight) {
    if (flight.from != id_ || !rng_.chance(share_)) return;
    if (auto* contribution = message_as<Contribution>(flight.message)) {
      ++lies_;
      forge(*contribution, flight.payload);
    } else if (auto* entry = message_as<LogEntry>(flight.message)) {
      ++lies_;
      forge(*entry, flight.payload);
    } else if (auto* pull = message_as<LogPull>(flight.message)) {
      ++lies_;
      pull->head = raised(pull->head, 1 + rng_.below(4));
    }
  }

 private:
  // A head that nobody holds.
  LogHead raised(LogHead head, uint64_t entries) {
    head.length += entries;
    head.weight += entries * (1 + rng_.below(8));
    for (uint8_t& byte : head.hash) byte = static_cast<uint8_t>(rng_.below(256));
    return head;
  }
  template <typename Change>
  static SharedBytes changed(const SharedBytes& payload, const Change& change) {
    std::vector<std::byte> bytes(payload.data, payload.data + payload.size);
    for (size_t at = 0; at + sizeof(float) <= bytes.size(); at += sizeof(float)) {
      float value = 0;
      std::memcpy(&value, bytes.data() + at, sizeof value);
      value = change(value);
      std::memcpy(bytes.data() + at, &value, sizeof value);
    }
    return SharedBytes::take(std::move(bytes));
  }

  void forge(Contribution& contribution, SharedBytes& payload) {
    switch (rng_.below(6)) {
      case 0: payload = changed(payload, [](float value) { return -20 * value; }); break;
      case 1: payload = changed(payload, [](float) { return std::numeric_limits<float>::quiet_NaN(); }); break;
      case 2: contribution.mass *= 1e6; break;
      case 3: contribution.head = raised(contribution.head, 1 + rng_.below(4)); break;
      case 4: contribution.head = raised(contribution.head, 1000); break;
      default: contribution.length = contribution.head.length; break;  // an old payload may count beside a new one
    }
  }

  // Half of the time all get the same forged entry, else each another one.
  void forge(LogEntry& entry, SharedBytes& payload) {
    const auto known = forged_.find(entry.head.hash);
    if (known != forged_.end() && rng_.chance(0.5)) {
      const auto& [other, bytes] = known->second;
      entry = other;
      payload = bytes;
      return;
    }
    const Digest16 before = entry.head.hash;
    switch (rng_.below(8)) {
      case 0: payload = changed(payload, [](float value) { return value + 1; }); return;  // not what its hash says
      case 1: leave_out(entry, entry.counted.size() / 2); break;                          // of a minority
      case 2: leave_out(entry, 1); break;
      case 3: entry.round += 1000000; break;
      case 4: entry.head.weight += 5; break;
      case 5: any(entry.counted).seq -= 1; break;                    // counted long ago
      case 6: any(entry.counted).seq += 1 + rng_.below(100); break;  // not handed in yet
      default: {
        const auto noise = [this](float value) { return value + static_cast<float>(rng_.below(101)) - 50; };
        payload = changed(payload, noise);
      }
    }
    entry.head.hash = entry_hash(entry, xxh3_128(payload.span()));
    forged_.insert_or_assign(before, std::pair(entry, payload));
    observer_.see(entry);
  }
  CountedPayload& any(std::vector<CountedPayload>& counted) {
    return counted[rng_.below(static_cast<uint32_t>(counted.size()))];
  }
  static void leave_out(LogEntry& entry, size_t count) {
    entry.counted.resize(entry.counted.size() - count);
    entry.head.weight -= count;
  }

  const PeerId id_;
  double share_;
  LogObserver& observer_;
  Rng rng_;
  uint64_t lies_ = 0;
  std::map<Digest16, std::pair<LogEntry, SharedBytes>> forged_;  // by the hash of what it was made from
};

}  // namespace starling::exchange_test
