#include "agent/run/step_parts.h"

#include <utility>

namespace starling {

void StepParts::stepped(const StepReport& report) {
  sum_.steps += report.steps;
  sum_.compute += report.compute_time;
  sum_.forward += report.forward_time;
  sum_.backward += report.backward_time;
}

void StepParts::end_window() {
  const Sum sum = std::exchange(sum_, {});
  if (sum.steps == 0) return;
  const auto each = [&](Duration total) { return 1e3 * seconds(total) / static_cast<double>(sum.steps); };
  mean_ = {};
  if (sum.backward > Duration::zero()) {
    mean_.forward_ms = each(sum.forward);
    mean_.backward_ms = each(sum.backward);
    mean_.other_ms = each(sum.compute - sum.forward - sum.backward);
  }
  // A virtual clock stands still meanwhile; some codecs choose nothing.
  if (sum.select > Duration::zero()) mean_.select_ms = each(sum.select);
  if (sum.encode > Duration::zero()) mean_.encode_ms = each(sum.encode);
  mean_.exposed_ms = each(sum.exposed);
  mean_.jobs_ms = each(sum.jobs);
}

}  // namespace starling
