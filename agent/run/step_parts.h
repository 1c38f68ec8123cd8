// What steps take, part by part: sums of a window, and what they were on average.
#pragma once

#include "agent/report/step_breakdown.h"
#include "agent/train/trainer.h"
#include "gossip/clock.h"

namespace starling {

class StepParts {
 public:
  void stepped(const StepReport& report);
  void coded(Duration select, Duration encode) {  // the worker
    sum_.select += select;
    sum_.encode += encode;
  }
  void stood_still(Duration duration) { sum_.exposed += duration; }  // the trainer, at a boundary, but for jobs
  void job_took(Duration duration) { sum_.jobs += duration; }
  // A window without steps says nothing: the one before it stays.
  void end_window();
  const StepBreakdown& mean() const { return mean_; }

 private:
  struct Sum {
    uint64_t steps = 0;
    Duration compute{}, forward{}, backward{}, select{}, encode{}, exposed{}, jobs{};
  };
  Sum sum_;
  StepBreakdown mean_;
};

}  // namespace starling
