// The bytes that an agent sends in a round, with all that comes with it: exchanges, membership, a newcomer's model.
#pragma once

#include <cstdint>
#include <optional>

namespace starling {

// A round lasts from the begin of its steps to that of the next ones. What is sent before the first one, and while the
// run ends, is in none.
class RoundBytes {
 public:
  bool begins(uint64_t round) const { return round_ != round; }

  // The agent is in this round now and has sent so many bytes since it began. A number that falls back, as after a step
  // back, ends no round.
  void begin(uint64_t round, uint64_t sent) {
    if (counts_ && round > *round_) {
      const uint64_t rounds = round - *round_;
      last_ = static_cast<double>(sent - sent_) / static_cast<double>(rounds);
      rounds_ += rounds;
      bytes_ += sent - sent_;
    }
    counts_ = round_.has_value();  // the first number that is heard of is where the agent came from
    round_ = round;
    sent_ = sent;
  }

  // nullopt: no round has ended yet.
  std::optional<double> mean() const {
    return rounds_ > 0 ? std::optional(static_cast<double>(bytes_) / static_cast<double>(rounds_)) : std::nullopt;
  }
  std::optional<double> last() const { return last_; }

 private:
  std::optional<uint64_t> round_;
  bool counts_ = false;
  uint64_t sent_ = 0, rounds_ = 0, bytes_ = 0;
  std::optional<double> last_;
};

}  // namespace starling
