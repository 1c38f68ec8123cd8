// Sums up exchanges before they reach another observer: of a fast model, a line an exchange would be a gigabyte a day.
#pragma once

#include <map>
#include <string>

#include "agent/observe/events.h"
#include "gossip/clock.h"

namespace starling {

class ExchangeSums final : public Observer {
 public:
  // Both outlive the object. `every` 0: each exchange as it is.
  ExchangeSums(const Clock& clock, Observer& next, Duration every) : clock_(clock), next_(next), every_(every) {}

  // Passes on all events but the exchanges. Their sums follow before the first event that comes `every` after the first
  // of them, and before the last event of all; a status comes once a second.
  void on(const Event& event) override;

 private:
  void add(const ExchangeEnded& exchange);
  void pass_on_sums();

  const Clock& clock_;
  Observer& next_;
  const Duration every_;
  TimePoint began_;                                // when the first exchange of the sums ended
  uint64_t ended_ = 0, timed_ = 0, measured_ = 0;  // exchanges in the sums, in the mean time, in the mean distance
  ExchangesSummed sums_;                           // its means are sums until they are passed on
  std::map<std::string, ExchangesWith> partners_;  // by peer
};

}  // namespace starling
