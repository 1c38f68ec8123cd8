// For exchanges that are made of two: whose message it is, and the results of both in one.
#pragma once

#include <iterator>
#include <utility>
#include <variant>
#include <vector>

#include "gossip/exchange/snapshot.h"
#include "gossip/net/message.h"

namespace starling {

// The others are of pairs.
inline bool is_of_rounds(const ExchangeMessage& message) {
  return std::holds_alternative<RoundBlock>(message) || std::holds_alternative<RoundCredit>(message);
}

template <typename T>
std::vector<T> joined(std::vector<T> first, std::vector<T> second) {
  first.insert(first.end(), std::make_move_iterator(second.begin()), std::make_move_iterator(second.end()));
  return first;
}

inline Decided joined(Decided first, Decided second) {
  return {joined(std::move(first.deltas), std::move(second.deltas)),
          joined(std::move(first.lessons), std::move(second.lessons))};
}

}  // namespace starling
