// What is done to a swarm while it trains: agents are killed, join, or stand still for a while, at a time or at a step.
// `swarm` does it to processes, `simulate` to agents on virtual time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gossip/clock.h"

namespace starling {

struct ScenarioEvent {
  enum class Kind { kKill, kJoin, kPause, kResume };
  Kind kind = Kind::kKill;
  uint32_t agent = 0;                 // counted from 0; not of a join
  Duration at{};                      // since the first agents began
  std::optional<uint64_t> at_step{};  // instead of `at`: when the median step reaches it
  Duration lasts{};                   // of a pause
  bool operator==(const ScenarioEvent&) const = default;
};

class Scenario {
 public:
  // From the texts of flags. Throw std::invalid_argument: what was expected, and what was found.
  void add_kill(const std::string& text);   // "2@8", "2@step300"
  void add_join(const std::string& text);   // "@12", "12", "@step300"
  void add_pause(const std::string& text);  // "2@8+1.5", "2@step300+1.5"

  const std::vector<ScenarioEvent>& events() const { return events_; }
  size_t joins() const;
  Duration end() const;  // of the last event that has a time; zero: none has

  // Throws std::runtime_error if an event names an agent that is neither among the first nor joins.
  void refuse_absent(size_t first_agents) const;

 private:
  std::vector<ScenarioEvent> events_;
};

// The events still to come. The end of a pause is an event of its own (kResume).
class ScenarioAgenda {
 public:
  explicit ScenarioAgenda(const Scenario& scenario);

  // Takes what is due by now, earliest first.
  std::vector<ScenarioEvent> take_due(Duration now, uint64_t median_step);
  std::optional<Duration> next() const;  // of the next event that has a time
  bool is_step_due(uint64_t median_step) const;
  bool waits_for_step() const;

  // For people: the events that had not happened when the swarm ended.
  std::vector<std::string> missed(Duration end) const;

 private:
  std::vector<ScenarioEvent> pending_;  // by time; those at a step first
};

// What a newcomer trains on: the shard of the agent killed last that no other newcomer has taken.
class FreeShards {
 public:
  void add(uint32_t shard) { shards_.push_back(shard); }
  uint32_t take();  // 0 where none is free

 private:
  std::vector<uint32_t> shards_;
};

// The upper median of the living agents' steps, by which "at a step" is measured. 0 if no agent lives.
uint64_t median_step(std::vector<uint64_t> steps);

}  // namespace starling
