// Proposes merge plans from the times of this agent's own steps and rounds. These are the end of backward for each
// slice, the worker's time to choose and code elements, and the time of a round from the boundary on. The costs of a
// message, of a byte and the latency are fitted to the last one.
//
// All rounds of one plan are alike, and a line through alike samples says nothing. So the first rounds are trials, and
// a few later ones: slices travel alone, and more or fewer of them wait for the boundary; or all travel together. That
// is this agent's own affair: plans may differ between members.
//
// A prediction is a forecast, though the plan was the best one when it was played message by message: TCP shares slow
// links unevenly (tools/experiments/s2_real). So rounds are timed by plan, and a plan that proves slower than each
// slice alone is given up.
//
// A plan costs .5 to 15 ms of a processor whatever a step takes, so it is made again only once rounds have taken
// kCostShare times as long as the last one.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compression/plan/linear_fit.h"
#include "compression/plan/sections.h"
#include "compression/update_codec.h"
#include "gossip/clock.h"
#include "gossip/updates/update_replicas.h"

namespace starling {

class PlanMaker {
 public:
  static constexpr uint64_t kTrialsFirst = 20;  // rounds
  static constexpr uint64_t kTrialEvery = 25;   // rounds, later
  static constexpr uint64_t kThinkEvery = 32;   // rounds; first when so many were no trials
  static constexpr uint64_t kTimedMin = 16;     // rounds of a plan, until its time counts
  static constexpr int kCostShare = 1000;       // a plan takes at most this part of the time until the next one
  static constexpr double kGainMin = 0.05;      // of a step, predicted

  // `slices`: two at least; one has nothing to be merged with.
  PlanMaker(std::span<const SliceRange> slices, const UpdateOptions& codec);

  void begin_round() { ++rounds_; }
  // Of the round that begun last. By slice ends, as UpdatePlan; empty: no trial.
  std::vector<uint32_t> trial_ends() const;
  uint32_t held_back() const;  // so many slices, from 0 on, wait for the boundary

  // When backward ended with each slice, since the step began.
  void add_step(std::span<const Duration> final_after);
  void add_selection(size_t elements, Duration took);
  // `messages` and `bytes` of this agent since the boundary; bytes of the direction that had more.
  void add_exchange(uint64_t messages, uint64_t bytes, Duration took);

  // How long a round of this plan took in all, steps included. Trials say nothing of a plan.
  void add_round(const std::vector<uint32_t>& ends, Duration took);

  // Arithmetic for the worker: the best plan for so many members, beside the one that holds.
  struct Thought {
    std::vector<PlanSection> sections;  // in the order of backward
    uint32_t members = 0;
    UpdateOptions codec;
    LinkFit link;
    SelectCost select;
    double select_r_squared = 0;
    std::vector<uint32_t> now;  // the ends that hold
    bool is_old = false;        // the measured cost of a byte is zero; `link` is an earlier one

    // out
    std::vector<uint32_t> best;  // ends
    double gain = 0;             // of a step: 1 - time by the best plan / time by `now`
    void run();
    std::string describe() const;  // for people: costs, fits, gain
  };
  // Null: it is not time, or the costs are not known. Says once if what a byte costs is not above zero; no other plan
  // is chosen then.
  std::shared_ptr<Thought> think(uint32_t members, std::vector<uint32_t> now);
  // What think() and run() took in all; where the machine is busy more than they cost a processor.
  void add_thought(Duration took);
  // What to propose after it; empty: nothing.
  std::vector<uint32_t> choose(const Thought& thought) const;

 private:
  bool is_trial() const { return rounds_ <= kTrialsFirst || rounds_ % kTrialEvery == 0; }
  bool proved_slower(const std::vector<uint32_t>& ends, const std::vector<uint32_t>& than) const;
  uint64_t trial() const { return rounds_ <= kTrialsFirst ? rounds_ : rounds_ / kTrialEvery; }

  const size_t slice_count_;
  const UpdateOptions codec_;
  uint64_t rounds_ = 0;
  Duration since_thought_{}, rest_{};  // what rounds took since the last one; what they have to take
  std::vector<PlanSection> sections_;  // in the order of backward, so slice 0 last; mean times
  bool timed_ = false;                 // some step was
  std::vector<FitSample<1>> select_;   // the newest ones; a ring once it is full
  size_t next_select_ = 0;
  LinkEstimate link_;
  struct Timed {
    uint64_t rounds = 0;
    double mean_s = 0;
  };
  std::map<std::vector<uint32_t>, Timed> timed_plans_;  // by ends; one for each plan that held, a few an hour
  std::vector<uint32_t> alone_;                         // the plan of each slice alone
};

}  // namespace starling
