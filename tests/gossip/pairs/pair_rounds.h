// Pairs as round_harness.h drives them.
#pragma once

#include <memory>

#include "gossip/pairs/async_pairs.h"
#include "gossip/pairs/sync_pairs.h"
#include "tests/gossip/exchange/round_harness.h"

namespace starling::exchange_test {

template <>
inline std::unique_ptr<AsyncPairs> make_test_exchange<AsyncPairs>(const ExchangeParts& p) {
  const PairwiseOptions own{p.common(), 1};
  return std::make_unique<AsyncPairs>(own, p.layout, p.codec, p.worker, p.clock, p.outbox, &p.sampler);
}

template <>
inline std::unique_ptr<SyncPairs> make_test_exchange<SyncPairs>(const ExchangeParts& p) {
  const PairwiseOptions own{p.common(), 1};
  return std::make_unique<SyncPairs>(own, p.layout, p.codec, p.worker, p.clock, p.outbox, &p.sampler);
}

}  // namespace starling::exchange_test
