#include "gossip/membership/record_check.h"

#include <algorithm>
#include <cmath>

#include "gossip/limits.h"

namespace starling {

bool acceptable(const PeerRecord& record, const Version* held, uint64_t newest_generation) {
  if (record.id.is_zero() || record.endpoint.port == 0 || !Endpoint::is_valid_host(record.endpoint.host)) return false;
  const MemberMeta& meta = record.meta;
  if (meta.name.size() > kNameBytesMax || !std::isfinite(meta.mass) || meta.mass <= 0) return false;
  const Version& version = record.version;
  if (version.incarnation > kIncarnationMax) return false;
  if (held && version.generation == held->generation && version.incarnation > held->incarnation &&
      version.incarnation - held->incarnation > kIncarnationJumpMax) {
    return false;
  }
  if (held && version.generation == held->generation) return true;
  return version.generation <= newest_generation || version.generation - newest_generation <= kGenerationAheadMax;
}

}  // namespace starling
