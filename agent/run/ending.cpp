#include "agent/run/ending.h"

#include <chrono>
#include <utility>

namespace starling {
namespace {

constexpr Duration kStopPatience = std::chrono::milliseconds(300);   // for exchanges in doubt; Ctrl-C ends in 2 s
constexpr Duration kFinishPatience = std::chrono::seconds(2);

}  // namespace

bool Ending::settled() const {
  if (sharing_.holds_replica()) {
    const bool agreed = swarm_clock_.training_count() == 0 && sharing_.agreed(swarm_clock_.taking_part_count());
    return agreed || settling_.overdue(clock_.now());
  }
  return sharing_.alone() ||
         settling_.settled(clock_.now(), swarm_clock_.training_count(), swarm_clock_.taking_part_count());
}

bool Ending::exchanges_ended(Duration patience) {
  if (!patience_until_) {
    sharing_.publish_nothing();
    patience_until_ = clock_.now() + patience;
  }
  return sharing_.idle() || clock_.now() >= *patience_until_;
}

bool Ending::begin(Reason reason, const Progress& progress, std::function<void()> ended) {
  if (!exchanges_ended(reason == Reason::kFinished ? kFinishPatience : kStopPatience)) return false;
  sharing_.apply_decided_then([this, reason, &progress, ended = std::move(ended)] {
    if (reason == Reason::kStopped) {
      jobs_.save_then(progress, ended);
      return;
    }
    jobs_.evaluate_then(progress.steps, [this, &progress, ended] {
      finished_ = true;
      jobs_.save_then(progress, ended);
    });
  });
  return true;
}

}  // namespace starling
