// Counters that a person must know of, said once a minute while they grow, each with what to do about it.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "agent/observe/events.h"
#include "agent/observe/metrics.h"
#include "gossip/clock.h"

namespace starling {

class Warnings final : public Observer {
 public:
  using Say = std::function<void(const std::string&)>;
  // `metrics` counts the lines that it lost; null: there is no such file. Both must outlive the object.
  Warnings(const Clock& clock, const MetricsFile* metrics, Say say);

  void on(const Event& event) override;  // looks at each AgentStatus, and at the last one

 private:
  struct Said {
    uint64_t count = 0;
    TimePoint next;
  };

  const Clock& clock_;
  const MetricsFile* metrics_;
  Say say_;
  std::map<std::string, Said> said_;  // by the warning's text; at most one entry a warning
};

}  // namespace starling
