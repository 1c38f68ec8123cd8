#include "tools/experiments/plan_replay.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <utility>

#include "gossip/sim/virtual_links.h"

namespace starling {
namespace {

Duration span_of(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

// The parts of one bucket that one owner merges.
struct Part {
  double contribution_bytes = 0, entry_bytes = 0;
  uint32_t arrived = 0;         // contributions of others
};

class Player {
 public:
  explicit Player(const StepOptions& options)
      : options_(options), processors_(options.members), up_(options.members), down_(options.members),
        messages_(options.members) {}

  void add_bucket(double ready_s, const std::map<uint32_t, Part>& parts) {
    std::vector<std::optional<size_t>> index(options_.members);   // of the owner's part
    for (const auto& [owner, part] : parts) {
      index[owner] = parts_.size();
      parts_.push_back(part);
    }
    at(TimePoint{} + span_of(ready_s), [this, index] {
      // Each member begins with the owner after itself, or all would queue at the first one's downlink.
      for (uint32_t step = 1; step < options_.members; ++step) {
        for (uint32_t from = 0; from < options_.members; ++from) {
          const uint32_t owner = (from + step) % options_.members;
          if (!index[owner]) continue;
          const size_t part = *index[owner];
          send(from, owner, parts_[part].contribution_bytes, [this, owner, part] { take(owner, part); });
        }
      }
    });
  }

  Replay play() {
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.time;
      event.action();
    }
    return {std::chrono::duration<double>(now_ - TimePoint{}).count(),
            *std::max_element(messages_.begin(), messages_.end())};
  }

 private:
  using Action = std::function<void()>;
  struct Event {
    TimePoint time;
    uint64_t number;            // events of one time keep their order
    Action action;
    bool operator<(const Event& other) const { return std::pair(time, number) > std::pair(other.time, other.number); }
  };

  void at(TimePoint time, Action action) { events_.push({time, number_++, std::move(action)}); }

  // A processor of the sender, its uplink, the way, the receiver's downlink and processor; a frame is received while it
  // is still being sent.
  void send(uint32_t from, uint32_t to, double bytes, Action received) {
    const Duration occupancy = span_of(options_.link.occupancy_s), length = span_of(bytes * options_.link.s_per_byte);
    const Duration latency = span_of(options_.link.latency_s);
    ++messages_[from];
    ++messages_[to];
    at(processors_[from].occupy(Channel::kBulk, occupancy, now_) + occupancy, [=, this] {
      at(up_[from].occupy(Channel::kBulk, length, now_) + latency, [=, this] {
        at(down_[to].occupy(Channel::kBulk, length, now_) + length, [=, this] {
          at(processors_[to].occupy(Channel::kBulk, occupancy, now_) + occupancy, received);
        });
      });
    });
  }

  void take(uint32_t owner, size_t index) {
    if (++parts_[index].arrived < options_.members - 1) return;
    for (uint32_t step = 1; step < options_.members; ++step) {
      send(owner, (owner + step) % options_.members, parts_[index].entry_bytes, [] {});
    }
  }

  const StepOptions options_;
  std::vector<NodeLane> processors_, up_, down_;
  std::vector<uint64_t> messages_;
  std::vector<Part> parts_;
  std::priority_queue<Event> events_;
  uint64_t number_ = 0;
  TimePoint now_{};
};

}  // namespace

Replay replay_group(const std::vector<PlanSection>& slices, const StepTimes& times, const StepOptions& options) {
  const auto codec = make_update_codec(options.codec);
  Player player(options);
  for (const BucketTimes& bucket : times.buckets) {
    std::map<uint32_t, Part> parts;
    for (uint32_t slice = bucket.first; slice <= bucket.last; ++slice) {
      Part& part = parts[slice % options.members];
      part.contribution_bytes +=
          static_cast<double>(codec->bytes_max(UpdateRole::kContribution, slices[slice].elements));
      part.entry_bytes += static_cast<double>(codec->bytes_max(UpdateRole::kEntry, slices[slice].elements));
    }
    player.add_bucket(bucket.select_end_s, parts);
  }
  return player.play();
}

}  // namespace starling
