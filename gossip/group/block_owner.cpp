#include "gossip/group/block_owner.h"

#include <algorithm>

#include "kernels/check.h"

namespace starling {

BlockOwner::BlockOwner(const Layout& layout, const Codec& codec, Worker& worker, OutcomeTally& outcomes,
                       const GroupGuard& guard, OnAveraged on_averaged)
    : layout_(layout),
      codec_(codec),
      worker_(worker),
      outcomes_(outcomes),
      guard_(guard),
      on_averaged_(std::move(on_averaged)) {}

void BlockOwner::begin(const GroupMembers& members, uint64_t round, std::shared_ptr<const Snapshot> own) {
  const bool same_group = members_.group == members.group;  // in another group the blocks have other owners
  std::erase_if(late_, [&](const auto& entry) { return !same_group || entry.second.round + 1 != round; });
  members_ = members;
  round_ = round;
  own_ = std::move(own);
  const size_t n = members.count();
  waits_for_.assign(n, true);
  owned_.assign(members.blocks_of(members.self, layout_.blocks.size(), round).size(), Owned());
  for (Owned& owned : owned_) {
    owned.from.resize(n);
    owned.waits_for = n - 1;
  }
  far_.assign(n, false);
  counted_ = late_counted_ = 0;
}

void BlockOwner::retire() {
  STARLING_CHECK(jobs_ == 0);
  for (Owned& owned : owned_) {
    for (size_t rank = 0; rank < owned.from.size(); ++rank) {
      Contribution& from = owned.from[rank];
      const bool missing = rank != members_.self && from.outcome == BlockOutcome::kMissing;
      if (missing) outcomes_.settle(&from.outcome, BlockOutcome::kMissing);
    }
  }
  owned_.clear();
  release();
}

// ---- what arrives ----

void BlockOwner::receive(size_t rank, const RoundBlock& block, const SharedBytes& payload, bool fits,
                         bool injected_loss) {
  Owned& into = owned(block.index);
  Contribution& contribution = into.from[rank];
  if (waits_for_[rank]) --into.waits_for;
  if (injected_loss) {
    outcomes_.settle(&contribution.outcome, BlockOutcome::kInjected);
  } else if (!fits) {
    outcomes_.settle(&contribution.outcome, BlockOutcome::kRefused);
  } else if (into.started) {
    outcomes_.settle(&contribution.outcome, BlockOutcome::kLate);
    late_[{members_.ids[rank], block.index}] = {block.round, block.mass, payload};
  } else {
    contribution = {BlockOutcome::kHere, block.mass, payload};
  }
  average_if_complete(into);
}

bool BlockOwner::receive_late(size_t rank, const RoundBlock& block, const SharedBytes& payload) {
  if (members_.owner(block.index, round_) != members_.self) return false;
  const Owned& into = owned(block.index);
  const BlockOutcome outcome = into.from[rank].outcome;
  if (into.started || (outcome != BlockOutcome::kMissing && outcome != BlockOutcome::kInjected)) return false;
  late_.try_emplace({members_.ids[rank], block.index}, Late{block.round, block.mass, payload});
  return true;
}

void BlockOwner::stop_waiting(size_t rank) {
  waits_for_[rank] = false;
  for (Owned& owned : owned_) {
    const BlockOutcome outcome = owned.from[rank].outcome;
    if (outcome == BlockOutcome::kMissing || outcome == BlockOutcome::kDead) --owned.waits_for;
    average_if_complete(owned);
  }
}

void BlockOwner::mark_dead(size_t rank) {
  for (Owned& owned : owned_) {
    Contribution& from = owned.from[rank];
    if (from.outcome == BlockOutcome::kMissing) outcomes_.settle(&from.outcome, BlockOutcome::kDead);
  }
}

void BlockOwner::stop_waiting_for_all() {
  for (Owned& owned : owned_) {
    if (!owned.started) start_average(owned);
  }
}

void BlockOwner::forget(const PeerId& peer) {
  std::erase_if(late_, [&](const auto& entry) { return entry.first.first == peer; });
}

// ---- averages ----

void BlockOwner::average_if_complete(Owned& owned) {
  if (owned.waits_for == 0 && !owned.started) start_average(owned);
}

// The job owns all that it reads except the codec: this object may be destroyed before the job runs.
void BlockOwner::start_average(Owned& owned) {
  const auto ordinal = static_cast<size_t>(&owned - owned_.data());
  const auto index = static_cast<uint32_t>(ordinal * members_.count()) + members_.first_block(members_.self, round_);
  owned.started = true;
  auto job = std::make_shared<AverageJob>();
  job->own = own_;
  job->self = members_.self;
  job->rule = guard_.rule(index, members_.count(), own_->drift);
  for (size_t rank = 0; rank < owned.from.size(); ++rank) {
    Contribution& from = owned.from[rank];
    if (from.outcome == BlockOutcome::kHere) {
      job->items.push_back({rank, from.mass, std::move(from.payload)});
      from.payload = {};
    } else if (from.outcome == BlockOutcome::kMissing || from.outcome == BlockOutcome::kInjected) {
      const auto it = late_.find({members_.ids[rank], index});
      if (it == late_.end() || it->second.round >= round_) continue;
      job->items.push_back({rank, it->second.mass, std::move(it->second.payload), true});
      late_.erase(it);
    }
  }
  ++jobs_;
  const size_t element_count = layout_.blocks[index].element_count;
  auto run = [job, &codec = codec_, index, element_count] { run_average(codec, index, element_count, *job); };
  auto done = [this, job, still_here = std::weak_ptr<int>(alive_), index] {
    if (!still_here.expired()) averaged(index, *job);
  };
  worker_.submit(std::move(run), std::move(done));
}

void BlockOwner::averaged(uint32_t index, AverageJob& job) {
  STARLING_CHECK(jobs_ > 0);
  --jobs_;
  Owned& into = owned(index);
  for (const AverageJob::Item& item : job.items) {
    if (!item.late) {
      outcomes_.settle(&into.from[item.rank].outcome, item.passed ? BlockOutcome::kCounted : BlockOutcome::kRefused);
      counted_ += item.passed;
      if (item.far) far_[item.rank] = true;
    } else if (item.passed) {
      outcomes_.settle(&into.from[item.rank].outcome, BlockOutcome::kOld);
      ++late_counted_;
    }
  }
  into.counted = job.counted;
  on_averaged_(index, job);
}

}  // namespace starling
