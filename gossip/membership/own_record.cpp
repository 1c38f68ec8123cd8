#include "gossip/membership/own_record.h"

#include <utility>

#include "gossip/membership/record_check.h"
#include "kernels/check.h"

namespace starling {

OwnRecord::OwnRecord(MembershipContext& context, UpdateQueue& queue, HealthScore& health, PeerRecord record)
    : context_(context), queue_(queue), health_(health), record_(std::move(record)), announced_(context.clock.now()) {
  STARLING_CHECK(!record_.id.is_zero());
  seal();
  queue_.put_alive(record_, true);
}

void OwnRecord::set_meta(const MemberMeta& meta) {
  if (meta == record_.meta) {
    pending_meta_.reset();
  } else {
    pending_meta_ = meta;
  }
}

bool OwnRecord::announce_meta() {
  if (!pending_meta_ || leaving_ || record_.version.incarnation >= kIncarnationMax) return false;
  // While settling, others wait for the first projection.
  const bool first_projection =
      pending_meta_->phase == Phase::kSettling && record_.meta.projection.empty() && !pending_meta_->projection.empty();
  const bool new_phase =
      pending_meta_->phase != record_.meta.phase || pending_meta_->pause != record_.meta.pause || first_projection;
  if (!new_phase && context_.clock.now() < announced_ + context_.options.meta_interval) return false;
  announce(false);
  return new_phase;
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

TimePoint OwnRecord::next_deadline() const {
  return pending_meta_ && !leaving_ ? announced_ + context_.options.meta_interval : TimePoint::max();
}

void OwnRecord::announce(bool urgent) {
  ++record_.version.incarnation;
  if (pending_meta_) record_.meta = *std::exchange(pending_meta_, std::nullopt);
  announced_ = context_.clock.now();
  seal();
  queue_.put_alive(record_, urgent);
}

}  // namespace starling
