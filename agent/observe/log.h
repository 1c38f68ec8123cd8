// The events that a person follows, as readable lines through spdlog; at level debug also a line of figures a second,
// and where the time of exchanges and steps went.
#pragma once

#include <string>

#include "agent/observe/events.h"
#include "agent/report/pair_report.h"

namespace starling {

class Log final : public Observer {
 public:
  void on(const Event& event) override;

 private:
  void print_status(const AgentStatus& status);
  void print_details(const AgentStatus& status);
  void print_threads(uint64_t threads);

  std::string saved_;            // the last checkpoint; empty: none
  bool last_was_saved_ = false;  // the last one that was tried
  uint64_t evaluated_at_ = 0;    // step of the last evaluation
  // Of the last status line. While training, a line without new steps is not repeated.
  uint64_t steps_printed_ = 0;
  PairReport pairs_printed_;
  bool threads_explained_ = false;
};

}  // namespace starling
