#include "agent/run/boundary_jobs.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "kernels/check.h"

namespace starling {
namespace {

constexpr Duration kDiskPatience = std::chrono::seconds(30);
constexpr Duration kRoomAhead = std::chrono::seconds(2), kRoomPatience = std::chrono::seconds(10);

}  // namespace

bool BoundaryJobs::begin_due(bool training, const Progress& progress, Next next) {
  const TimePoint now = clock_.now();
  const Duration ahead = std::max(kRoomAhead, now - std::exchange(last_look_, now));  // before the next boundary
  if (cadence_.checkpoint_due(now + ahead) && !cadence_.checkpoint_due(now)) checkpoints_.make_room();
  if (training && (cadence_.evaluation_due(now) || trainer_.has_evaluation())) {
    evaluate_then(progress.steps, std::move(next));
    return true;
  }
  if (!cadence_.checkpoint_due(now)) return false;
  if (checkpoints_.making_room() && !cadence_.checkpoint_overdue(now, kRoomPatience)) return false;
  if (checkpoints_.writing()) {
    look_at_disk(now);
    return false;
  }
  began_ = now;
  checkpoints_.save_beside_then(
      progress,
      [this] {
        const bool saved = checkpoints_.error().empty();
        saved ? cadence_.checkpoint_saved(clock_.now()) : cadence_.checkpoint_failed(clock_.now());
      },
      [this, next = std::move(next)] {
        pace_.job_took(clock_.now() - began_);
        next();
      });
  return true;
}

// The next checkpoint waits for the one that is being written.
void BoundaryJobs::look_at_disk(TimePoint now) {
  const TimePoint began = checkpoints_.writing_since();
  if (now - began < kDiskPatience || !cadence_.another_due(began, now)) return;
  slow_disk_.say(
      "the next checkpoint is due, and the disk has not taken the last one for more than 30 s. A crash now goes back "
      "to "
      "the one before. Put the state folder on a faster disk (--state), or save less often (agent.checkpoint.every)");
}

void BoundaryJobs::evaluate_then(uint64_t steps, Next next) {
  STARLING_CHECK(!after_evaluation_);
  after_evaluation_ = std::move(next);
  steps_ = steps;
  began_ = clock_.now();
  trainer_.start_evaluation();
}

void BoundaryJobs::tick() {
  if (after_evaluation_ && trainer_.idle()) evaluated();
}

void BoundaryJobs::evaluated() {
  const std::optional<Evaluation> evaluation = trainer_.take_evaluation();
  if (evaluation && evaluation->samples > 0) {
    if (steps_ > 0) {  // else others would take that of a model of no steps for what it can
      accuracy_ = evaluation->accuracy;
      test_loss_ = evaluation->loss;
    }
    observer_.on(Evaluated{steps_, evaluation->accuracy, evaluation->loss});
  }
  evaluation_took_ = clock_.now() - began_;
  pace_.job_took(evaluation_took_);
  cadence_.evaluated(began_, clock_.now());
  std::exchange(after_evaluation_, nullptr)();
}

void BoundaryJobs::save_then(const Progress& progress, Next next) {
  began_ = clock_.now();
  checkpoints_.save_then(progress, [this, next = std::move(next)] {
    pace_.job_took(clock_.now() - began_);
    next();
  });
}

}  // namespace starling
