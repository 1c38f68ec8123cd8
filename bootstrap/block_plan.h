// Which blocks of a model a newcomer still needs, and which one to ask a donor for next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "gossip/peer.h"

namespace starling {

class BlockPlan {
 public:
  explicit BlockPlan(size_t count) : stages_(count, Stage::kMissing) {}

  size_t count() const { return stages_.size(); }
  size_t placed() const { return placed_; }
  size_t checking() const { return checking_; }
  bool done() const { return placed_ == stages_.size(); }

  // A block that nobody is asked for: first those that another donor owed, then the others in order. Nothing that
  // `peer` itself failed to give, unless it is the only donor. nullopt: none.
  std::optional<uint32_t> next(const PeerId& peer, bool only_donor);
  void ask(uint32_t index);  // REQUIRES: it came from next() or ask_twice()
  // Asks a second donor. false: the block is not on its way, or has had its second donor.
  bool ask_twice(uint32_t index);
  void give_back(uint32_t index, const PeerId& peer);         // `peer` will not give it; no other donor is asked for it
  bool begin_check(uint32_t index);                           // false: it is here already, or not needed
  void judge(uint32_t index, const PeerId& peer, bool good);  // REQUIRES: begin_check() returned true

 private:
  enum class Stage : uint8_t { kMissing, kAsked, kChecking, kPlaced };

  std::vector<Stage> stages_;
  uint32_t first_unasked_ = 0;
  std::vector<std::pair<uint32_t, PeerId>> failed_;  // to ask for again, and the donor to avoid for each
  std::set<uint32_t> asked_twice_;
  size_t placed_ = 0, checking_ = 0;
};

}  // namespace starling
