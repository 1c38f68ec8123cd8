#include "agent/run/sickness.h"

#include <optional>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

namespace starling {
namespace {

constexpr const char* kRemedy = "lower swarm.optimizer.learning_rate or look at the data";

}  // namespace

void Sickness::go_back_then(const std::string& reason, uint64_t steps, std::function<void(const Progress&)> next) {
  sharing_.publish_nothing();
  sharing_.drop_decided();
  observer_.on(BecameSick{steps, reason});
  if (!recovery_.fell_sick(clock_.now())) {
    throw std::runtime_error(fmt::format("{} {} times in a row, each time after going back to the last checkpoint; {}",
                                         reason, kSickInARowMax, kRemedy));
  }
  checkpoints_.restore_then([this, reason, next = std::move(next)](const std::optional<Progress>& found) {
    if (!found) {
      throw std::runtime_error(fmt::format("{}, and there is no checkpoint to go back to; {}", reason, kRemedy));
    }
    if (sharing_.holds_replica()) {  // it is good, and newer; the optimizer's state was not
      sharing_.apply_decided_then([next, to = *found] { next(to); });
    } else {
      next(*found);
    }
  });
}

}  // namespace starling
