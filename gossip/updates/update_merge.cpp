#include "gossip/updates/update_merge.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "gossip/net/hash.h"

namespace starling {
namespace {

constexpr size_t kUsualMin = 3;  // payloads: of two, either may be the liar's

// The norm of a payload, or nullopt: it does not decode.
std::optional<double> norm_of(const UpdateCodecs& codecs, const MergeJob& job, const HandedIn& item) {
  const UpdateCodec* codec = codecs.of(item.message.codec);
  const Bytes payload = item.payload.span();
  if (codec == nullptr) return std::nullopt;
  return codec->checked_norm(UpdateRole::kContribution, payload, job.element_count);
}

// At which norm payloads count at most. While the log is too short to say what is usual, these payloads do.
double norm_limit(const MergeJob& job, const std::vector<std::optional<double>>& norms) {
  if (job.payload_norm_max) return static_cast<double>(*job.payload_norm_max);
  std::vector<double> sorted;
  for (const std::optional<double>& norm : norms) {
    if (norm && *norm > 0) sorted.push_back(*norm);
  }
  if (sorted.size() < kUsualMin) return 0;
  std::sort(sorted.begin(), sorted.end());
  return static_cast<double>(UpdateLog::kNormRatioMax) * sorted[(sorted.size() - 1) / 2];
}

CountedPayload judge(const HandedIn& item, double norm, double norm_max) {
  const float scale = norm > norm_max && norm_max > 0 ? static_cast<float>(norm_max / norm) : 1;
  return CountedPayload{item.from, item.generation, item.message.seq, scale,
                        static_cast<float>(std::min(norm, static_cast<double>(std::numeric_limits<float>::max())))};
}

}  // namespace

void run_merge(const UpdateCodecs& codecs, const UpdateCodec& encoder, MergeJob& job) {
  job.entry = job.draft;
  std::vector<UpdateTerm> terms;
  std::vector<std::optional<double>> norms;
  for (const HandedIn& item : job.items) norms.push_back(norm_of(codecs, job, item));
  const double norm_max = norm_limit(job, norms);
  bool own = false;
  for (size_t i = 0; i < job.items.size(); ++i) {
    const HandedIn& item = job.items[i];
    if (!norms[i] || !(judge(item, *norms[i], norm_max).scale > 0)) {
      job.refused.push_back(item.from);
      continue;
    }
    const CountedPayload counted = judge(item, *norms[i], norm_max);
    own = own || item.from == job.self;
    const double weight = job.masses[i] / job.draft.divisor * static_cast<double>(counted.scale);
    terms.push_back({codecs.of(item.message.codec), static_cast<float>(weight), item.payload.span()});
    job.entry.counted.push_back(counted);
  }
  if (!own || terms.size() < job.counted_min) return;
  const uint64_t common = xxh3_64(std::as_bytes(std::span(job.after.hash)));
  const UpdateSeeds seeds{.own = common + 1 + job.draft.slice, .common = common, .entries = job.after.length};
  const UnsetBytes bytes(encoder.bytes_max(UpdateRole::kEntry, job.element_count));
  const std::optional<size_t> size = codecs.math->encode_sum(encoder, terms, job.element_count, seeds, bytes.span());
  if (!size) return;
  job.payload = with_checksum(written_of(bytes, *size));
  job.norm = encoder.norm(job.payload.span());
  job.payload_hash = xxh3_128(job.payload.span());
  job.entry.codec = static_cast<uint8_t>(encoder.kind());
  job.entry.previous = job.after.hash;
  job.entry.head.length = job.after.length + 1;
  job.entry.head.weight = job.after.weight + job.entry.counted.size();
  job.entry.head.hash = entry_hash(job.entry, job.payload_hash);
  job.made = true;
}

}  // namespace starling
