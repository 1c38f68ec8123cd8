// The arithmetic: an owner averages its blocks, a member judges the averages of the others. All in worker jobs, which
// own all they read: this object may die before they run. The codec may not.
#include <algorithm>

#include "gossip/exchange/group_impl.h"
#include "gossip/net/hash.h"
#include "kernels/check.h"

namespace starling {

void Group::Impl::average_if_complete(Owned& owned) {
  if (owned.waits_for == 0 && !owned.started) start_average(owned);
}

void Group::Impl::start_average(Owned& owned) {
  const Roster& roster = round->roster;
  const auto ordinal = static_cast<size_t>(&owned - round->owned.data());
  const auto index = static_cast<uint32_t>(ordinal * roster.count()) + roster.first_block(roster.self, round->number);
  owned.started = true;
  auto job = std::make_shared<AverageJob>();
  job->own = round->own;
  job->self = roster.self;
  for (size_t rank = 0; rank < owned.from.size(); ++rank) {
    Contribution& from = owned.from[rank];
    if (from.fate == Fate::kHere) {
      job->items.push_back({rank, from.mass, std::move(from.payload)});
      from.payload = {};
    } else if (from.fate == Fate::kMissing || from.fate == Fate::kInjected) {
      const auto it = late.find({roster.members[rank], index});
      if (it == late.end() || it->second.round >= round->number) continue;
      job->items.push_back({rank, it->second.mass, std::move(it->second.payload), true});
      late.erase(it);
    }
  }
  ++round->jobs;
  const size_t element_count = layout.blocks[index].element_count;
  auto run = [job, &codec = codec, index, element_count] { run_average(codec, index, element_count, *job); };
  auto done = [this, job, still_here = std::weak_ptr<int>(alive), index] {
    if (!still_here.expired()) on_averaged(index, *job);
  };
  worker.submit(std::move(run), std::move(done));
}

// Most are finite, so all of the right size are averaged at once; only if that is not finite the payloads are looked at
// one by one.
void Group::Impl::run_average(const Codec& codec, uint32_t index, size_t element_count, AverageJob& job) {
  for (AverageJob::Item& item : job.items) item.passed = item.payload.size == job.own->blocks[index].size;
  if (average(codec, index, element_count, job)) return;
  for (AverageJob::Item& item : job.items) {
    item.passed = codec.check(item.payload.span(), element_count) == PayloadStatus::kOk;
  }
  (void)average(codec, index, element_count, job);   // else extremes that no float holds
}

// own + sum of m_i / M * (v_i - own) over those that pass, in order of rank: a mean of differences loses no digits to
// the common part.
bool Group::Impl::average(const Codec& codec, uint32_t index, size_t element_count, AverageJob& job) {
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
  // The lower median: of two, the lighter one limits the heavier.
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

void Group::Impl::on_averaged(uint32_t index, AverageJob& job) {
  STARLING_CHECK(round && round->open && round->jobs > 0);
  --round->jobs;
  Owned& owned = owned_block(index);
  for (const AverageJob::Item& item : job.items) {
    if (!item.late) {
      settle(owned.from[item.rank], item.passed ? Fate::kCounted : Fate::kRefused);
      round->counted[0] += item.passed;
    } else if (item.passed) {
      settle(owned.from[item.rank], Fate::kOld);
      ++round->late_counted;
    }
  }
  owned.counted = job.counted;
  Average& average = round->averages[index];   // its own: not among the blocks that are due
  average.fate = job.average.empty() ? Fate::kRefused : Fate::kCounted;
  average.squared_distance = job.squared_distance;
  average.payload = job.average;
  --round->unresolved;
  const size_t n = round->roster.count();
  for (size_t i = 1; i < n && !job.average.empty(); ++i) {
    const size_t rank = (round->roster.self + i) % n;
    if (round->links[rank].dead) continue;
    round->links[rank].out[1].give(index, job.average);
    pump(rank, 1);
  }
  try_end();
}

void Group::Impl::judge(uint32_t index) {
  struct Job {
    std::shared_ptr<const Snapshot> own;
    SharedBytes payload;
    PairStatus status = PairStatus::kRefused;
    PairStats stats;
  };
  auto job = std::make_shared<Job>(Job{round->own, round->averages[index].payload});
  ++round->jobs;
  auto run = [job, &codec = codec, index, element_count = layout.blocks[index].element_count] {
    job->status = codec.pair(job->own->blocks[index].span(), job->payload.span(), element_count, &job->stats);
  };
  auto done = [this, job, still_here = std::weak_ptr<int>(alive), index] {
    if (!still_here.expired()) on_judged(index, job->status, job->stats);
  };
  worker.submit(std::move(run), std::move(done));
}

void Group::Impl::on_judged(uint32_t index, PairStatus status, const PairStats& stats) {
  STARLING_CHECK(round && round->open && round->jobs > 0);
  --round->jobs;
  Average& average = round->averages[index];
  const bool passed = status == PairStatus::kOk;
  settle(average, passed ? Fate::kCounted : Fate::kRefused);
  if (!passed) average.payload = {};
  average.squared_distance = stats.squared_distance;
  round->counted[1] += passed;
  --round->unresolved;
  try_end();
}

}  // namespace starling
