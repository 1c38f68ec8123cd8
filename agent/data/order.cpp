#include "agent/data/order.h"

#include <numeric>

#include "gossip/rng.h"
#include "kernels/check.h"

namespace starling {

DatasetOrder::DatasetOrder(uint64_t sample_count, uint64_t rng_seed, uint64_t stream)
    : rng_seed_(rng_seed), stream_(stream) {
  STARLING_CHECK(sample_count > 0 && sample_count < (uint64_t{1} << 32));
  order_.resize(sample_count);
  shuffle();
}

void DatasetOrder::shuffle() {
  std::iota(order_.begin(), order_.end(), int64_t{0});
  // Chained, so that neighboring seeds, streams and epochs give unrelated orders.
  const uint64_t of_stream = Rng(rng_seed_ ^ 0x4f52444552ull).next_u64() ^ stream_;  // "ORDER"
  Rng rng(Rng(of_stream).next_u64() ^ place_.epoch);
  rng.shuffle(order_);
}

void DatasetOrder::next(std::span<int64_t> batch) {
  for (int64_t& index : batch) {
    index = order_[place_.position];
    if (++place_.position < order_.size()) continue;
    place_ = {place_.epoch + 1, 0};
    shuffle();
  }
}

bool DatasetOrder::set_place(Place place) {
  if (place.position >= order_.size()) return false;
  const bool same_epoch = place.epoch == place_.epoch;
  place_ = place;
  if (!same_epoch) shuffle();
  return true;
}

}  // namespace starling
