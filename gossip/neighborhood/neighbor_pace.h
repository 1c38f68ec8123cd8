// How regularly a neighbor brings something new: the part of the last rounds in which it did, in [0, 1].
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace starling {

class NeighborPace {
 public:
  static constexpr int kHistory = 16;    // rounds
  static constexpr int kHistoryMin = 4;  // with fewer rounds the pace is 1

  void add(bool brought_news) {
    history_ = static_cast<uint16_t>(history_ << 1 | (brought_news ? 1 : 0));
    rounds_ = std::min(rounds_ + 1, kHistory);
  }
  double value() const { return rounds_ < kHistoryMin ? 1 : static_cast<double>(std::popcount(history_)) / rounds_; }

 private:
  uint16_t history_ = 0;  // a bit per round, newest in bit 0
  int rounds_ = 0;
};

}  // namespace starling
