#include "agent/train/part_copies.h"

#include <array>
#include <exception>
#include <utility>

#include "kernels/check.h"

namespace starling {

PartCopies::PartCopies(std::unique_ptr<CopyLane> lane, size_t parts, MemorySpace space, const Clock& clock,
                       std::function<void()> wake)
    : lane_(std::move(lane)), clock_(clock), wake_(std::move(wake)), bad_(space, parts, FloatMemory::Place::kStaging) {
  STARLING_CHECK(lane_ != nullptr);
}

void PartCopies::begin_step(const LocalSteps& steps) {
  STARLING_CHECK(under_way_.empty());
  steps_ = &steps;
}

void PartCopies::copy(size_t index, size_t offset, ConstView params, ConstView bad) {
  if (!lane_) return;
  STARLING_CHECK(steps_ != nullptr && bad.count == 1 && offset + params.count <= steps_->landing.size());
  const std::array pieces = {CopyPiece{steps_->landing.data() + offset, params}, CopyPiece{&bad_.all()[index], bad}};
  if (attempt([&] { lane_->begin(index, pieces); })) under_way_.push_back({index, offset, params.count});
}

void PartCopies::tell_landed() {
  if (tell()) wake_();
}

// After the last part the step's end wakes the owner, in a moment.
void PartCopies::end_step() {
  while (!under_way_.empty()) {
    if (!attempt([this] { lane_->wait(under_way_.front().index); })) break;
    if (tell() && !under_way_.empty()) wake_();
  }
  steps_ = nullptr;
}

// What is under way may still be written to the landing: whoever reads or frees that comes after the lane's end.
void PartCopies::stop(const std::string& why) {
  lane_.reset();
  under_way_.clear();
  if (stopped_because_.empty()) stopped_because_ = why;
}

// False: it failed, and telling has ended.
bool PartCopies::attempt(const std::function<void()>& what) {
  try {
    what();
    return true;
  } catch (const std::exception& error) {
    stop(error.what());
    return false;
  }
}

// True: who was told wants to look.
bool PartCopies::tell() {
  bool look = false;
  for (size_t i = 0; i < under_way_.size();) {
    const Part part = under_way_[i];
    bool landed = false;
    if (!attempt([&] { landed = lane_->landed(part.index); })) break;
    if (!landed) {
      ++i;
      continue;
    }
    under_way_.erase(under_way_.begin() + static_cast<std::ptrdiff_t>(i));
    if (bad_.all()[part.index] == 0) look = steps_->on_final({part.offset, part.count, clock_.now()}) || look;
  }
  return look;
}

}  // namespace starling
