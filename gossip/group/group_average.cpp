#include "gossip/group/group_average.h"

#include <algorithm>

#include "gossip/exchange/paces.h"
#include "gossip/limits.h"
#include "gossip/net/hash.h"

namespace starling {
namespace {

// own + sum of m_i / M * (v_i - own) over the payloads that pass, in order of rank. The mean is taken over differences
// because the common part of the values would cost digits.
bool average(const Codec& codec, uint32_t index, size_t element_count, AverageJob& job) {
  const SharedBytes& own = job.own->blocks[index];
  std::vector<double> masses = {job.own->mass};
  job.counted = 1u << job.self;
  for (const AverageJob::Item& item : job.items) {
    if (!item.passed) continue;
    masses.push_back(item.mass);
    job.counted |= 1u << item.rank;
  }
  if (masses.size() == 1) {
    job.average = own;
    return true;
  }
  // The lower median, so that of two members the lighter one limits the heavier.
  std::vector<double> sorted = masses;
  std::sort(sorted.begin(), sorted.end());
  const double mass_max = kMassRatioMax * sorted[(sorted.size() - 1) / 2];
  double total = 0;
  for (double mass : masses) total += std::min(mass, mass_max);

  std::vector<Bytes> peers;
  std::vector<float> weights;
  for (const AverageJob::Item& item : job.items) {
    if (!item.passed) continue;
    peers.push_back(item.payload.span());
    weights.push_back(static_cast<float>(std::min(item.mass, mass_max) / total));
  }
  const std::shared_ptr<std::byte[]> storage(new std::byte[own.size]);
  const std::span<std::byte> payload(storage.get(), own.size);
  PairStats stats;
  if (!codec.mean(own.span(), peers, weights, element_count, payload, &stats)) return false;
  job.squared_distance = stats.squared_distance;
  job.average = {storage, storage.get(), own.size, xxh3_64(payload)};
  return true;
}

// Passes what is of the right size and finite, and near enough.
void judge(const Codec& codec, uint32_t index, size_t element_count, AverageJob& job) {
  std::vector<double> masses;
  for (const AverageJob::Item& item : job.items) masses.push_back(item.mass);
  const std::vector<double> paces = paces_of(masses);
  std::vector<AverageJob::Item*> good;
  std::vector<Contributed> contributions;
  for (size_t i = 0; i < job.items.size(); ++i) {
    AverageJob::Item& item = job.items[i];
    PairStats stats;
    const Bytes own = job.own->blocks[index].span();
    item.passed = codec.pair(own, item.payload.span(), element_count, &stats) == PairStatus::kOk;
    if (!item.passed) continue;
    good.push_back(&item);
    contributions.push_back({stats.squared_distance, item.late ? 2 * paces[i] : paces[i]});
  }
  const std::vector<bool> far = far_ones(job.rule, contributions);
  for (size_t i = 0; i < good.size(); ++i) {
    good[i]->far = far[i];
    good[i]->passed = !far[i];
  }
}

}  // namespace

// Without a rule: nearly all payloads are finite, so all of the right size are averaged at once. Only if the result is
// not finite are the payloads checked one by one.
void run_average(const Codec& codec, uint32_t index, size_t element_count, AverageJob& job) {
  if (job.rule.factor > 0) {
    judge(codec, index, element_count, job);
    (void)average(codec, index, element_count, job);  // may overflow, as below
    return;
  }
  for (AverageJob::Item& item : job.items) item.passed = item.payload.size == job.own->blocks[index].size;
  if (average(codec, index, element_count, job)) return;
  for (AverageJob::Item& item : job.items) {
    item.passed = codec.check(item.payload.span(), element_count) == PayloadStatus::kOk;
  }
  (void)average(codec, index, element_count, job);  // may still overflow: finite inputs of extreme size
}

}  // namespace starling
