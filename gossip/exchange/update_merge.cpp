#include "gossip/exchange/update_merge.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "gossip/net/hash.h"

namespace starling {
namespace {

// How each payload counts, or nullopt: it does not decode.
std::optional<CountedPayload> judge(const UpdateCodecs& codecs, const MergeJob& job, const HandedIn& item) {
  const UpdateCodec* codec = codecs.of(item.message.codec);
  const Bytes payload = item.payload.span();
  if (codec == nullptr ||
      codec->check(UpdateRole::kContribution, payload, job.element_count) != UpdateStatus::kOk) {
    return std::nullopt;
  }
  const double norm = codec->norm(payload);
  const double norm_max = job.payload_norm_max ? static_cast<double>(*job.payload_norm_max) : norm;
  const float scale = norm > norm_max && norm_max > 0 ? static_cast<float>(norm_max / norm) : 1;
  return CountedPayload{item.from, item.generation, item.message.seq, scale,
                        static_cast<float>(std::min(norm, static_cast<double>(std::numeric_limits<float>::max())))};
}

}  // namespace

void run_merge(const UpdateCodecs& codecs, const UpdateCodec& encoder, MergeJob& job) {
  job.entry = job.draft;
  std::vector<UpdateTerm> terms;
  bool own = false;
  for (size_t i = 0; i < job.items.size(); ++i) {
    const HandedIn& item = job.items[i];
    const std::optional<CountedPayload> counted = judge(codecs, job, item);
    if (!counted || !(counted->scale > 0)) {
      ++job.refused;
      continue;
    }
    own = own || item.from == job.self;
    const double weight = job.masses[i] / job.draft.divisor * static_cast<double>(counted->scale);
    terms.push_back({codecs.of(item.message.codec), static_cast<float>(weight), item.payload.span()});
    job.entry.counted.push_back(*counted);
  }
  if (!own || terms.size() < job.counted_min) return;
  std::vector<float> sum(job.element_count);
  encoder.merge(terms, sum);
  const uint64_t common = xxh3_64(std::as_bytes(std::span(job.after.hash)));
  const UpdateSeeds seeds{.own = common + 1 + job.draft.slice, .common = common};
  std::vector<std::byte> bytes(encoder.bytes_max(UpdateRole::kEntry, job.element_count));
  const std::optional<size_t> size = encoder.encode(UpdateRole::kEntry, sum, seeds, bytes);
  if (!size) return;
  bytes.resize(*size);
  job.norm = encoder.norm(bytes);
  job.payload_hash = xxh3_128(bytes);
  job.payload = SharedBytes::take(std::move(bytes));
  job.entry.codec = static_cast<uint8_t>(encoder.kind());
  job.entry.previous = job.after.hash;
  job.entry.head.length = job.after.length + 1;
  job.entry.head.weight = job.after.weight + job.entry.counted.size();
  job.entry.head.hash = entry_hash(job.entry, job.payload_hash);
  job.made = true;
}

}  // namespace starling
