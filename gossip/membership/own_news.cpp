#include "gossip/membership/own_news.h"

#include <algorithm>

#include "gossip/membership/record_check.h"

namespace starling {

void OwnNews::on_record(const PeerRecord& record) {
  const Version& own = own_.version();
  if (record.version.generation > kOwnGenerationMax) {
    ++context_.counters.updates_refused;
    return;
  }
  // Each address of this agent has a version of its own. Two processes that began at once have the same one.
  const bool elsewhere = record.version >= own && record.endpoint != own_.record().endpoint;
  if ((record.version > own || elsewhere) && !is_genuine(context_, record, record.farewell)) return;
  if (record.version.generation > own.generation || elsewhere) {
    ++context_.counters.identity_clashes;  // an earlier or another process with this key, or the record is forged
    other_self_ = record;
  }
  if (record.version.generation > own.generation) return;
  if (record.version < own) return dissemination_.answer_with_own_record();
  if (record.version == own) return;
  ++context_.counters.updates_refused;  // forged, or of another process with this key
  if (record.version.incarnation <= kIncarnationMax) overtake(record.version.incarnation);
}

// By steps: members refuse a version too far above the one that they hold, and hear of each step within seconds.
void OwnNews::overtake(uint32_t incarnation) {
  const TimePoint now = context_.clock.now();
  if (!overtakes_since_ || now - *overtakes_since_ >= kOvertakeWindow) {
    overtakes_since_ = now;
    overtakes_from_ = own_.version().incarnation;
  }
  const uint32_t reached = std::min(incarnation, overtakes_from_ + kOvertakeMax);
  if (reached < own_.version().incarnation) return;  // no more in this window; members that hold it say so again
  if (own_.overtake(reached)) dissemination_.answer_with_own_record();
}

void OwnNews::on_suspicion(const Suspicion& suspicion) {
  if (suspicion.version < own_.version()) {
    dissemination_.answer_with_own_record();
  } else if (suspicion.version > own_.version() || suspicion.accuser == own_.id()) {
    ++context_.counters.updates_refused;  // this agent never announced that version
  } else {
    refute();
  }
}

void OwnNews::on_left(const PeerRecord& record) {
  if (record.version > own_.version()) return on_record(record);  // as there, but a member may hold it
  if (record.version == own_.version() && is_genuine(context_, record, true)) refute();
  if (!own_.leaving() && record.version < own_.version()) dissemination_.answer_with_own_record();
}

void OwnNews::refute() {
  if (own_.refute()) dissemination_.answer_with_own_record();
}

}  // namespace starling
