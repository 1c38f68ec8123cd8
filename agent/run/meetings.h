// How this agent's exchanges ended: counted, and reported to the peer sampler and to the observer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/observe/deadline_watch.h"
#include "agent/observe/events.h"
#include "agent/run/settling.h"
#include "agent/run/swarm_sampler.h"
#include "gossip/clock.h"
#include "gossip/exchange/exchange.h"

namespace starling {

class Meetings {
 public:
  // An exchange that failed in silence counts against its partner if it took `deadline_min` or longer.
  Meetings(Duration deadline_min, SwarmSampler& sampler, Settling& settling, Observer& observer)
      : deadline_min_(deadline_min), sampler_(sampler), settling_(settling), observer_(observer) {}

  // `steps`: this agent's, so far. `params_rms`: of its params; 0: not known.
  void take(const std::vector<ExchangeReport>& reports, uint64_t steps, double params_rms);

  const ExchangeCounts& tally() const { return tally_; }
  const std::string& left_out_last() const { return left_out_last_; }  // name or id; empty: nobody was
  const std::optional<LateExchange>& last_late() const { return last_late_; }
  double relative_distance() const { return distance_; }  // negative: not known yet

 private:
  void count(const ExchangeReport& report);
  void tell_sampler(const ExchangeReport& report);
  void observe(const ExchangeReport& report, uint64_t steps);

  Duration deadline_min_;
  SwarmSampler& sampler_;
  Settling& settling_;
  Observer& observer_;
  ExchangeCounts tally_;
  std::string left_out_last_;
  std::optional<LateExchange> last_late_;
  double distance_ = -1;
};

}  // namespace starling
