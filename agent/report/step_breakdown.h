// What the local steps of one agent consist of, on average over its last seconds.
#pragma once

#include <optional>

namespace starling {

// Milliseconds a step; nullopt: not measured. forward + backward + other + exposed + jobs is the time of a step.
struct StepBreakdown {
  std::optional<double> forward_ms, backward_ms;  // not measured on a GPU
  std::optional<double> other_ms;                 // of computing: reading samples, the optimizer
  std::optional<double> encode_ms;                // of the worker, exposed or not: coding, and applying what came
  std::optional<double> exposed_ms;               // the trainer stood still: exchange, and arithmetic at the boundary
  std::optional<double> jobs_ms;                  // steps waited for evaluations and checkpoints
  std::optional<double> select_ms;                // of the worker, exposed or not: choosing the elements that are sent
};

}  // namespace starling
