#include "gossip/updates/early_slices.h"

#include "kernels/check.h"

namespace starling {

void EarlySlices::begin(size_t slice_count, uint64_t round, const UpdateCodec& encoder, uint32_t audited) {
  round_ = round;
  encoder_ = &encoder;
  audited_ = audited;
  due_.assign(slice_count, false);
}

void EarlySlices::submit(std::span<const uint32_t> slices, std::span<const uint32_t> bucket_of,
                         std::span<const float> x, std::function<void()> sent) {
  for (size_t begin = 0, end = 0; begin < slices.size(); begin = end) {
    while (end < slices.size() && bucket_of[slices[end]] == bucket_of[slices[begin]]) ++end;
    const bool last = end == slices.size();
    choose(slices.subspan(begin, end - begin), x, last ? std::move(sent) : std::function<void()>());
  }
}

void EarlySlices::choose(std::span<const uint32_t> bucket, std::span<const float> x, std::function<void()> sent) {
  auto job = std::make_shared<EarlyJob>();
  job->x = x;
  job->slices.assign(bucket.begin(), bucket.end());
  job->encoder = encoder_;
  job->audited = audited_;
  for (const uint32_t slice : bucket) {
    STARLING_CHECK(!due_[slice]);
    due_[slice] = true;
  }
  job->select.clock = &clock_;
  auto run = [job, &replicas = replicas_, &clock = clock_] {
    const TimePoint began = clock.now();
    replicas.run_early(*job);
    job->took = clock.now() - began;
  };
  auto done = [this, job, round = round_, sent = std::move(sent), still_here = std::weak_ptr<int>(alive_)] {
    if (still_here.expired()) return;
    on_chosen_(*job, round);
    if (sent) sent();
  };
  worker_.submit(std::move(run), std::move(done));
}

}  // namespace starling
