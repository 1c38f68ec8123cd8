#include "gossip/membership/record_check.h"

#include <algorithm>
#include <cmath>

#include "gossip/limits.h"

namespace starling {

bool is_genuine(MembershipContext& context, const PeerRecord& record, bool farewell) {
  if (context.keys == nullptr && record.sealed.empty()) return true;
  if (context.keys && !context.lies && record.farewell == farewell && context.keys->is_genuine(record)) return true;
  ++context.counters.records_forged;
  if (context.keys && !context.lies) context.forged = ForgedRecord{context.from, record};
  context.lies = true;
  return false;
}

bool acceptable(const PeerRecord& record, const Version* held) {
  if (record.id.is_zero() || record.endpoint.port == 0 || !Endpoint::is_valid_host(record.endpoint.host)) return false;
  const MemberMeta& meta = record.meta;
  if (meta.name.size() > kNameBytesMax || !std::isfinite(meta.mass) || meta.mass <= 0) return false;
  const Version& version = record.version;
  if (version.incarnation > kIncarnationMax || version.generation > kGenerationMax) return false;
  if (held && version.generation == held->generation && version.incarnation > held->incarnation &&
      version.incarnation - held->incarnation > kIncarnationJumpMax) {
    return false;
  }
  return true;
}

bool is_far_ahead(const PeerRecord& record, uint64_t newest) {
  const uint64_t generation = record.version.generation;
  return generation > newest && generation - newest > kGenerationAheadMax;
}

}  // namespace starling
