#include "bootstrap/block_plan.h"

namespace starling {

std::optional<uint32_t> BlockPlan::next(const PeerId& peer, bool only_donor) {
  for (auto one = failed_.begin(); one != failed_.end(); ++one) {
    if (one->second == peer && !only_donor) continue;
    const uint32_t index = one->first;
    failed_.erase(one);
    return index;
  }
  while (first_unasked_ < stages_.size()) {
    const uint32_t index = first_unasked_++;
    if (stages_[index] == Stage::kMissing) return index;
  }
  return std::nullopt;
}

void BlockPlan::ask(uint32_t index) { stages_[index] = Stage::kAsked; }

bool BlockPlan::ask_twice(uint32_t index) {
  return stages_[index] == Stage::kAsked && asked_twice_.insert(index).second;
}

void BlockPlan::give_back(uint32_t index, const PeerId& peer) {
  if (stages_[index] != Stage::kAsked) return;
  stages_[index] = Stage::kMissing;
  failed_.emplace_back(index, peer);
}

bool BlockPlan::begin_check(uint32_t index) {
  if (stages_[index] != Stage::kAsked) return false;
  stages_[index] = Stage::kChecking;
  ++checking_;
  return true;
}

void BlockPlan::judge(uint32_t index, const PeerId& peer, bool good) {
  --checking_;
  if (good) {
    stages_[index] = Stage::kPlaced;
    ++placed_;
  } else {
    stages_[index] = Stage::kMissing;
    failed_.emplace_back(index, peer);
  }
}

}  // namespace starling
