#include "compression/plan/plan_replay.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <utility>
#include <vector>

#include "kernels/check.h"

namespace starling {
namespace {

// The slices of one bucket that one owner merges.
struct Part {
  uint32_t owner = 0;
  double contribution_bytes = 0, entry_bytes = 0;
  double apply_s = 0;
  uint32_t arrived = 0;  // contributions of others
};

// What happens next to a message: a processor of the sender, its uplink, the way, the receiver's downlink and
// processor. A frame is received while it is still being sent.
enum class Stage : uint8_t { kBegin, kUplink, kDownlink, kProcessor, kThere };

struct Event {
  double time_s = 0;
  uint64_t number = 0;        // events of one time keep their order
  uint32_t from = 0, to = 0;  // members
  uint32_t bucket = 0, part = 0;
  Stage stage = Stage::kBegin;
  bool entry = false;  // else a contribution
  bool operator>(const Event& other) const {
    return time_s != other.time_s ? time_s > other.time_s : number > other.number;
  }
};

// A member's.
struct Lanes {
  double processor_s = 0, up_s = 0, down_s = 0, worker_s = 0;  // free from then on
  uint64_t messages = 0;
};

// When something that takes so long ends, if it begins as soon as the lane is free.
double occupy(double& free_s, double now_s, double length_s) {
  free_s = std::max(free_s, now_s) + length_s;
  return free_s;
}

class Player {
 public:
  Player(const StepOptions& options, StepTimes by_form, std::vector<std::vector<Part>> buckets)
      : link_(options.link), times_(std::move(by_form)), buckets_(std::move(buckets)), members_(options.members) {
    for (uint32_t bucket = 0; bucket < buckets_.size(); ++bucket) {
      push({.time_s = times_.buckets[bucket].select_end_s, .bucket = bucket});
      times_.buckets[bucket].send_begin_s = std::numeric_limits<double>::infinity();
      times_.buckets[bucket].send_end_s = 0;
    }
  }

  Replay play() {
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      happen(event);
    }
    Replay replay{.times = std::move(times_)};
    replay.times.end_s = replay.times.compute_end_s;
    for (const Lanes& member : members_) {
      replay.times.end_s = std::max(replay.times.end_s, member.worker_s);
      replay.messages_busiest = std::max(replay.messages_busiest, member.messages);
    }
    return replay;
  }

 private:
  void push(Event event) {
    event.number = number_++;
    events_.push(event);
  }

  void happen(Event event) {
    const double now_s = event.time_s;
    const Part* part = event.stage == Stage::kBegin ? nullptr : &buckets_[event.bucket][event.part];
    const double length_s =
        part == nullptr ? 0 : link_.s_per_byte * (event.entry ? part->entry_bytes : part->contribution_bytes);
    switch (event.stage) {
      case Stage::kBegin: return begin(event.bucket, now_s);
      case Stage::kUplink:
        event.time_s = occupy(members_[event.from].up_s, now_s, length_s) - length_s + link_.latency_s;
        break;
      case Stage::kDownlink: event.time_s = occupy(members_[event.to].down_s, now_s, length_s); break;
      case Stage::kProcessor: event.time_s = occupy(members_[event.to].processor_s, now_s, link_.occupancy_s); break;
      case Stage::kThere: return there(event);
    }
    event.stage = static_cast<Stage>(static_cast<uint8_t>(event.stage) + 1);
    push(event);
  }

  // Each member begins with the owner after itself, or all would queue at the first one's downlink.
  void begin(uint32_t bucket, double now_s) {
    const auto count = static_cast<uint32_t>(members_.size());
    const std::vector<Part>& parts = buckets_[bucket];
    for (uint32_t step = 1; step < count; ++step) {
      for (uint32_t from = 0; from < count; ++from) {
        const uint32_t owner = (from + step) % count;
        const auto part = std::lower_bound(parts.begin(), parts.end(), owner,
                                           [](const Part& one, uint32_t to) { return one.owner < to; });
        if (part == parts.end() || part->owner != owner) continue;
        send({.from = from, .to = owner, .bucket = bucket, .part = static_cast<uint32_t>(part - parts.begin())}, now_s);
      }
    }
  }

  void send(Event message, double now_s) {
    ++members_[message.from].messages;
    ++members_[message.to].messages;
    message.time_s = occupy(members_[message.from].processor_s, now_s, link_.occupancy_s);
    double& begin_s = times_.buckets[message.bucket].send_begin_s;
    begin_s = std::min(begin_s, message.time_s - link_.occupancy_s);
    message.stage = Stage::kUplink;
    push(message);
  }

  void there(const Event& event) {
    Part& part = buckets_[event.bucket][event.part];
    double& end_s = times_.buckets[event.bucket].send_end_s;
    end_s = std::max(end_s, event.time_s);
    if (event.entry) return apply(event.to, part, event.time_s);
    const auto count = static_cast<uint32_t>(members_.size());
    if (++part.arrived < count - 1) return;
    apply(part.owner, part, event.time_s);
    // Owners follow each other in the order of backward, which goes from the last slice down, so against their ranks.
    for (uint32_t step = 1; step < count; ++step) {
      send({.from = part.owner,
            .to = (part.owner + count - step) % count,
            .bucket = event.bucket,
            .part = event.part,
            .entry = true},
           event.time_s);
    }
  }

  // Backward reads the params, so nothing is applied before it has ended.
  void apply(uint32_t member, const Part& part, double now_s) {
    occupy(members_[member].worker_s, std::max(now_s, times_.compute_end_s), part.apply_s);
  }

  const LinkCost link_;
  StepTimes times_;
  std::vector<std::vector<Part>> buckets_;  // by owner
  std::vector<Lanes> members_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  uint64_t number_ = 0;
};

}  // namespace

Replay replay_group(std::span<const PlanSection> slices, const StepTimes& by_form, const StepOptions& options) {
  STARLING_CHECK(options.members >= 2);
  const auto codec = make_update_codec(options.codec);
  const auto bytes_of = [&](UpdateRole role, uint32_t slice) {
    return static_cast<double>(codec->bytes_max(role, slices[slice].elements));
  };
  std::vector<std::vector<Part>> buckets;
  for (const BucketTimes& bucket : by_form.buckets) {
    std::vector<Part> by_owner(options.members);
    for (uint32_t slice = bucket.first; slice <= bucket.last; ++slice) {
      Part& part = by_owner[slice % options.members];
      part.owner = slice % options.members;
      part.contribution_bytes += bytes_of(UpdateRole::kContribution, slice) + options.headers.contribution;
      part.entry_bytes += bytes_of(UpdateRole::kEntry, slice) + options.headers.entry;
      part.apply_s += options.apply_s_per_element * static_cast<double>(slices[slice].elements);
    }
    std::erase_if(by_owner, [](const Part& part) { return part.contribution_bytes == 0; });
    buckets.push_back(std::move(by_owner));
  }
  return Player(options, by_form, std::move(buckets)).play();
}

}  // namespace starling
