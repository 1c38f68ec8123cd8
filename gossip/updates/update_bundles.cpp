#include "gossip/updates/update_bundles.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "gossip/limits.h"
#include "gossip/updates/update_parts.h"

namespace starling {
namespace {

constexpr size_t kHeaderBytesMax = kControlFrameBytesMax / 2;  // of a bundle; the sums of header_bytes() are estimates

}  // namespace

UpdateBundles::Waiting& UpdateBundles::waiting_for(const PeerId& to, uint32_t bucket, size_t payload_bytes,
                                                   size_t header_bytes) {
  const auto fits = [&](const Waiting& waiting) {
    return waiting.to == to && waiting.bucket == bucket && waiting.count() < kUpdateSlicesMax &&
           waiting.payload_bytes + payload_bytes <= kUpdatePartBytes &&
           waiting.header_bytes + header_bytes <= kHeaderBytesMax;
  };
  auto at = std::find_if(waiting_.begin(), waiting_.end(), fits);
  if (at == waiting_.end()) {
    waiting_.push_back({to, bucket, {}, {}, {}});
    at = waiting_.end() - 1;
  }
  at->payload_bytes += payload_bytes;
  at->header_bytes += header_bytes;
  return *at;
}

void UpdateBundles::release() {
  holds_ = false;
  for (Waiting& waiting : std::exchange(waiting_, {})) send(waiting);
}

void UpdateBundles::send(Waiting& waiting) {
  UpdateBundle& bundle = waiting.bundle;
  if (waiting.count() == 1) {
    if (bundle.entries.empty()) return outbox_.send(waiting.to, bundle.contributions[0], waiting.contributions[0]);
    return outbox_.send(waiting.to, bundle.entries[0], waiting.entries[0]);
  }
  const UnsetBytes bytes(waiting.payload_bytes);
  std::byte* at = bytes.span().data();
  for (const std::vector<SharedBytes>* payloads : {&waiting.contributions, &waiting.entries}) {
    for (const SharedBytes& payload : *payloads) {
      std::memcpy(at, payload.data, payload.size);
      at += payload.size;
      bundle.sizes.push_back(static_cast<uint32_t>(payload.size));
    }
  }
  saved_ += waiting.count() - 1;
  outbox_.send(waiting.to, bundle, with_checksum(bytes.first(waiting.payload_bytes)));
}

std::vector<SharedBytes> payloads_of(const UpdateBundle& bundle, const SharedBytes& payload) {
  std::vector<SharedBytes> payloads;
  size_t begin = 0;
  for (const uint32_t size : bundle.sizes) {
    payloads.push_back(SharedBytes::copy_of(payload.span().subspan(begin, size)));
    begin += size;
  }
  return payloads;
}

}  // namespace starling
