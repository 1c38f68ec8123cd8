// Neighborhoods as round_harness.h drives them.
#pragma once

#include <memory>

#include "gossip/neighborhood/neighborhood.h"
#include "tests/gossip/exchange/round_harness.h"

namespace starling::exchange_test {

template <>
inline std::unique_ptr<Neighborhood> make_test_exchange<Neighborhood>(const ExchangeParts& p) {
  return std::make_unique<Neighborhood>(p.common(), p.options.far > 0, p.layout, p.codec, p.worker, p.clock, p.outbox,
                                        p.sampler);
}

}  // namespace starling::exchange_test
