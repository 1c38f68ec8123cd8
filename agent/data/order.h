// In which order an agent walks through its samples: each epoch shuffled anew, batches of constant size that
// run on into the next epoch. All of it follows from (rng seed, stream, epoch, position), so a resumed run
// goes on exactly.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace starling {

class DatasetOrder {
 public:
  struct Place {
    uint64_t epoch = 0;
    uint64_t position = 0;  // in the epoch; < sample count
    bool operator==(const Place&) const = default;
  };

  // REQUIRES: 0 < sample_count < 2^32. Agents of one swarm take different streams.
  DatasetOrder(uint64_t sample_count, uint64_t rng_seed, uint64_t stream);

  void next(std::span<int64_t> batch);  // fills it with sample indices

  Place place() const { return place_; }
  bool set_place(Place place);  // false, and nothing changed: no such position

 private:
  void shuffle();

  uint64_t rng_seed_, stream_;
  Place place_;
  std::vector<int64_t> order_;  // of the current epoch
};

}  // namespace starling
