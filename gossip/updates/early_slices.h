// Slices that are handed in while the steps of their round still go on. Each bucket (update_plan.h) is a job of the
// worker's: it travels while the next one is chosen, and merges come between.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "gossip/clock.h"
#include "gossip/updates/update_replicas.h"
#include "gossip/worker.h"

namespace starling {

class EarlySlices {
 public:
  // The worker has ended with a bucket of that round. `job`: fewer are handed in than are due where a slice is not
  // finite.
  using OnChosen = std::function<void(const EarlyJob& job, uint64_t round)>;

  // All references must outlive the object.
  EarlySlices(UpdateReplicas& replicas, Worker& worker, const Clock& clock, OnChosen on_chosen)
      : replicas_(replicas), worker_(worker), clock_(clock), on_chosen_(std::move(on_chosen)) {}

  // A round is opened, which audits that slice.
  void begin(size_t slice_count, uint64_t round, const UpdateCodec& encoder, uint32_t audited);
  // `bucket_of`: by slice. `x`: of the whole model, known for these slices; until `sent` is called it must stay where
  // it is.
  void submit(std::span<const uint32_t> slices, std::span<const uint32_t> bucket_of, std::span<const float> x,
              std::function<void()> sent);
  void end() { due_.clear(); }

  const std::vector<bool>& due() const { return due_; }  // by slice: handed in, or about to be; empty: none

 private:
  void choose(std::span<const uint32_t> bucket, std::span<const float> x, std::function<void()> sent);

  UpdateReplicas& replicas_;
  Worker& worker_;
  const Clock& clock_;
  OnChosen on_chosen_;
  uint64_t round_ = 0;
  const UpdateCodec* encoder_ = nullptr;
  uint32_t audited_ = 0;
  std::vector<bool> due_;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);  // completions of a destroyed object do nothing
};

}  // namespace starling
