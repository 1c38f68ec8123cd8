#include "gossip/group/group_averages.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "gossip/exchange/bitmap.h"
#include "kernels/check.h"

namespace starling {

GroupAverages::GroupAverages(const Layout& layout, const Codec& codec, Worker& worker, OutcomeTally& outcomes,
                             std::function<void()> on_change)
    : layout_(layout), codec_(codec), worker_(worker), outcomes_(outcomes), on_change_(std::move(on_change)) {}

void GroupAverages::begin(const GroupMembers& members, uint64_t round, std::shared_ptr<const Snapshot> own) {
  members_ = members;
  round_ = round;
  own_ = std::move(own);
  waits_for_.assign(members.count(), true);
  averages_.assign(layout_.blocks.size(), Average());
  unresolved_ = layout_.blocks.size();
  far_.assign(members.count(), false);
  counted_ = 0;
}

void GroupAverages::retire() {
  STARLING_CHECK(jobs_ == 0);
  for (Average& average : averages_) {
    if (average.outcome == BlockOutcome::kMissing) outcomes_.settle_average(&average.outcome, BlockOutcome::kMissing);
  }
  averages_.clear();
  release();
}

void GroupAverages::receive(size_t rank, uint32_t index, const SharedBytes& payload, bool fits, bool injected_loss,
                            bool in_time) {
  Average& average = averages_[index];
  if (!injected_loss && fits && in_time) {
    average.outcome = BlockOutcome::kHere;
    average.payload = payload;
    if (!waits_for_[rank]) ++unresolved_;  // it was no longer waited for, but must be judged now
    return judge(index);
  }
  outcomes_.settle_average(&average.outcome, injected_loss ? BlockOutcome::kInjected
                                             : !fits       ? BlockOutcome::kRefused
                                                           : BlockOutcome::kLate);
  if (waits_for_[rank]) --unresolved_;
  on_change_();
}

// The own average is not due from another member, so it is not tallied.
void GroupAverages::set_own(uint32_t index, const SharedBytes& average, double squared_distance) {
  averages_[index] = {average.empty() ? BlockOutcome::kRefused : BlockOutcome::kCounted, squared_distance, average};
  --unresolved_;
}

void GroupAverages::stop_waiting(size_t rank) {
  waits_for_[rank] = false;
  for (uint32_t index : members_.blocks_of(rank, layout_.blocks.size(), round_)) {
    const BlockOutcome outcome = averages_[index].outcome;
    if (outcome == BlockOutcome::kMissing || outcome == BlockOutcome::kDead) --unresolved_;
  }
}

void GroupAverages::mark_dead(size_t rank) {
  for (uint32_t index : members_.blocks_of(rank, layout_.blocks.size(), round_)) {
    Average& average = averages_[index];
    if (average.outcome == BlockOutcome::kMissing) outcomes_.settle_average(&average.outcome, BlockOutcome::kDead);
  }
}

// The job owns all that it reads except the codec: this object may be destroyed before the job runs.
void GroupAverages::judge(uint32_t index) {
  struct Job {
    std::shared_ptr<const Snapshot> own;
    SharedBytes payload;
    PairStatus status = PairStatus::kRefused;
    PairStats stats;
  };
  auto job = std::make_shared<Job>(Job{own_, averages_[index].payload});
  ++jobs_;
  auto run = [job, &codec = codec_, index, element_count = layout_.blocks[index].element_count] {
    job->status = codec.pair(job->own->blocks[index].span(), job->payload.span(), element_count, &job->stats);
  };
  auto done = [this, job, still_here = std::weak_ptr<int>(alive_), index] {
    if (!still_here.expired()) judged(index, job->status, job->stats);
  };
  worker_.submit(std::move(run), std::move(done));
}

void GroupAverages::judged(uint32_t index, PairStatus status, const PairStats& stats) {
  STARLING_CHECK(jobs_ > 0);
  --jobs_;
  Average& average = averages_[index];
  if (status != PairStatus::kOk) {
    outcomes_.settle_average(&average.outcome, BlockOutcome::kRefused);
    average.payload = {};
  }
  average.squared_distance = stats.squared_distance;
  --unresolved_;
  on_change_();
}

void GroupAverages::decide(GroupGuard& guard) {
  STARLING_CHECK(jobs_ == 0);
  std::vector<std::optional<double>> squares(averages_.size());
  for (size_t i = 0; i < averages_.size(); ++i) {
    const BlockOutcome outcome = averages_[i].outcome;
    const bool here = outcome == BlockOutcome::kHere || outcome == BlockOutcome::kCounted;  // of others, or the own
    if (here) squares[i] = averages_[i].squared_distance;
  }
  for (uint32_t index : guard.refused(members_, round_, squares, own_->drift)) {
    outcomes_.settle_average(&averages_[index].outcome, BlockOutcome::kRefused);
    averages_[index].payload = {};
    far_[members_.owner(index, round_)] = true;
  }
  for (Average& average : averages_) {
    if (average.outcome != BlockOutcome::kHere) continue;
    outcomes_.settle_average(&average.outcome, BlockOutcome::kCounted);
    ++counted_;
  }
}

Delta GroupAverages::take_delta() {
  Delta delta;
  delta.own.resize(averages_.size());
  delta.peer.resize(averages_.size());
  delta.blocks = make_bitmap(averages_.size());
  delta.coefficient = 1;
  for (size_t i = 0; i < averages_.size(); ++i) {
    if (averages_[i].outcome != BlockOutcome::kCounted) continue;
    set_bit(delta.blocks, i);
    delta.own[i] = own_->blocks[i];
    delta.peer[i] = std::move(averages_[i].payload);
  }
  return delta;
}

double GroupAverages::distance(size_t param_blocks) const {
  double sum = 0;
  size_t elements = 0;
  for (size_t i = 0; i < std::min(param_blocks, averages_.size()); ++i) {
    if (averages_[i].outcome != BlockOutcome::kCounted) continue;
    sum += averages_[i].squared_distance;
    elements += layout_.blocks[i].element_count;
  }
  return elements > 0 ? std::sqrt(sum / static_cast<double>(elements)) : -1;
}

}  // namespace starling
