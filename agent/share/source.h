// What an agent shares of its mixed sections: the values, or the change made by the round's steps. Chosen by
// swarm.exchange.source.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "gossip/exchange/options.h"
#include "kernels/view.h"

namespace starling {

// One call at a time, while the trainer is idle.
class Source {
 public:
  virtual ~Source() = default;

  // False: round_began() does nothing, and need not be called.
  virtual bool follows_rounds() const = 0;
  // The steps of a round start from these sections, in the layout's order.
  virtual void round_began(const std::vector<ConstView>& sections) = 0;

  // The values to encode for the block that begins at `offset` of its section and now holds `x`. Valid until the next
  // call.
  virtual ConstView shared(size_t section, size_t offset, ConstView x) = 0;
};

// kGradients: with one step a round, the change is the gradient times the learning rate: a baseline that lost messages
// ruin. Before the first round the change is zero. For params in host memory.
std::unique_ptr<Source> make_source(SourceKind kind);

}  // namespace starling
