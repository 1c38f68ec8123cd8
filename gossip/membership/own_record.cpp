#include "gossip/membership/own_record.h"

#include <algorithm>
#include <utility>

#include "gossip/membership/record_check.h"
#include "kernels/check.h"

namespace starling {
namespace {

constexpr size_t kOftenMax = 6;  // up to so many members, each announces a status each meta_interval; of more, rarer
constexpr size_t kCountedMax = 120;  // more members make it no rarer

// What others act on at once. They end when most have told of the last step, and settling they wait for the first
// projection.
bool is_urgent(const MemberMeta& next, const MemberMeta& last, uint64_t last_step) {
  if (next.steps >= last_step && last.steps < last_step) return true;
  const bool first_projection = next.phase == Phase::kSettling && last.projection.empty() && !next.projection.empty();
  return next.phase != last.phase || next.pause != last.pause || next.stop_after != last.stop_after || first_projection;
}

}  // namespace

OwnRecord::OwnRecord(MembershipContext& context, MemberTable& table, UpdateQueue& queue, HealthScore& health,
                     PeerRecord record)
    : context_(context),
      table_(table),
      queue_(queue),
      health_(health),
      record_(std::move(record)),
      announced_(context.clock.now()) {
  STARLING_CHECK(!record_.id.is_zero());
  seal();
  queue_.put_alive(record_, true);
}

void OwnRecord::set_meta(const MemberMeta& meta, uint64_t last_step) {
  last_step_ = last_step;
  if (meta == record_.meta) {
    pending_meta_.reset();
  } else {
    pending_meta_ = meta;
  }
}

bool OwnRecord::announce_meta() {
  if (!pending_meta_ || leaving_ || record_.version.incarnation >= kIncarnationMax) return false;
  const bool urgent = is_urgent(*pending_meta_, record_.meta, last_step_);
  if (!urgent && context_.clock.now() < next_status()) return false;
  announce(false);
  return urgent;
}

bool OwnRecord::refute() {
  if (leaving_ || record_.version.incarnation >= kIncarnationMax) return false;
  ++context_.counters.refutations;
  health_.change(+1);
  announce(true);
  return true;
}

bool OwnRecord::overtake(uint32_t incarnation) {
  if (leaving_) return false;
  record_.version.incarnation = incarnation;
  return refute();
}

bool OwnRecord::move_to(const Endpoint& endpoint) {
  if (leaving_ || record_.version.incarnation >= kIncarnationMax) return false;
  record_.endpoint = endpoint;
  announce(true);
  return true;
}

bool OwnRecord::leave() {
  if (std::exchange(leaving_, true)) return false;
  queue_.put_left(farewell());
  return true;
}

PeerRecord OwnRecord::farewell() const {
  PeerRecord record = record_;
  if (!context_.keys) return record;
  record.farewell = true;
  context_.keys->seal(record);
  return record;
}

void OwnRecord::seal() {
  if (context_.keys) context_.keys->seal(record_);
}

TimePoint OwnRecord::next_deadline() const { return pending_meta_ && !leaving_ ? next_status() : TimePoint::max(); }

// Every member passes on every status. So of many members each announces rarely, but not while others wait for what its
// model has become. Only those count that answered: others may be invented.
TimePoint OwnRecord::next_status() const {
  const bool settling = pending_meta_ && pending_meta_->phase == Phase::kSettling;
  const size_t often = settling ? kOftenMax : std::clamp(table_.proven().size() + 1, kOftenMax, kCountedMax);
  return announced_ + context_.options.meta_interval * often / kOftenMax;
}

void OwnRecord::announce(bool urgent) {
  ++record_.version.incarnation;
  if (pending_meta_) record_.meta = *std::exchange(pending_meta_, std::nullopt);
  announced_ = context_.clock.now();
  seal();
  queue_.put_alive(record_, urgent);
}

}  // namespace starling
