// A lane that copies within host memory, late and in any order: a little when somebody asks, all when somebody waits.
#pragma once

#include <algorithm>
#include <memory>
#include <random>
#include <set>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "kernels/check.h"
#include "kernels/copy_lane.h"

namespace starling {

// What a test may ask a lane that it gave away, and make it do.
struct LaneWatch {
  std::mt19937_64 rng{1};
  int calls_until_failure = -1;  // so many more calls succeed, then one throws; -1: all do
  std::set<size_t> under_way;
  bool ended = false;
  uint64_t landed_when_asked = 0;  // copies
};

class LateLane final : public CopyLane {
 public:
  explicit LateLane(LaneWatch& watch) : watch_(watch) {}
  ~LateLane() override {
    while (!copies_.empty()) land_any();
    watch_.ended = true;
  }

  void begin(size_t ticket, std::span<const CopyPiece> pieces) override {
    count_call();
    STARLING_CHECK(watch_.under_way.insert(ticket).second);
    copies_.push_back({ticket, {pieces.begin(), pieces.end()}});
  }
  bool landed(size_t ticket) override {
    count_call();
    for (size_t more = watch_.rng() % 2; more > 0 && !copies_.empty(); --more) {
      land_any();
      ++watch_.landed_when_asked;
    }
    return !watch_.under_way.contains(ticket);
  }
  void wait(size_t ticket) override {
    count_call();
    while (watch_.under_way.contains(ticket)) land_any();
  }

 private:
  struct Copy {
    size_t ticket;
    std::vector<CopyPiece> pieces;
  };

  void count_call() {
    if (watch_.calls_until_failure == 0) throw std::runtime_error("the lane is closed");
    if (watch_.calls_until_failure > 0) --watch_.calls_until_failure;
  }
  void land_any() {
    std::swap(copies_[watch_.rng() % copies_.size()], copies_.back());
    for (const CopyPiece& piece : copies_.back().pieces) {
      std::copy_n(piece.from.data, piece.from.count, piece.host);
    }
    watch_.under_way.erase(copies_.back().ticket);
    copies_.pop_back();
  }

  LaneWatch& watch_;
  std::vector<Copy> copies_;
};

}  // namespace starling
