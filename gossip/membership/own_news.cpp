#include "gossip/membership/own_news.h"

#include "gossip/membership/record_check.h"

namespace starling {

void OwnNews::on_record(const PeerRecord& record) {
  const Version& own = own_.version();
  const bool elsewhere = record.version > own && record.endpoint != own_.record().endpoint;
  if (record.version.generation > own.generation || elsewhere) {
    ++context_.counters.identity_clashes;  // an earlier or another process with this key, or the record is forged
    other_self_ = record;
  }
  if (record.version.generation > own.generation) return;
  if (record.version < own) return dissemination_.answer_with_own_record();
  if (record.version == own) return;
  // A newer incarnation of this generation is forged. Overtake it, if that leaves room for further refutations.
  ++context_.counters.updates_refused;
  const uint32_t incarnation = record.version.incarnation;
  if (incarnation > kIncarnationMax || incarnation - own.incarnation > kIncarnationJumpMax) return;
  if (own_.overtake(incarnation)) dissemination_.answer_with_own_record();
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
  if (record.version == own_.version()) refute();
  if (!own_.leaving() && record.version < own_.version()) dissemination_.answer_with_own_record();
}

void OwnNews::refute() {
  if (own_.refute()) dissemination_.answer_with_own_record();
}

}  // namespace starling
