#include "agent/share/plan_maker.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "compression/plan/plan_judge.h"
#include "kernels/check.h"

namespace starling {
namespace {

constexpr size_t kSelectionsMax = 512;
constexpr double kNewest = 0.1;       // of a step in the mean of all
constexpr uint32_t kTrialShares = 5;  // none, a quarter, ... all of the slices wait for the boundary

// Slices are numbered against the order of backward.
std::vector<uint32_t> mirrored(const std::vector<uint32_t>& ends) {
  std::vector<uint32_t> mirror;
  for (size_t i = ends.size() - 1; i-- > 0;) mirror.push_back(ends.back() - ends[i]);
  mirror.push_back(ends.back());
  return mirror;
}

// Plans count the bytes of the largest payload, which with dgc is that of the warm-up's first rounds.
UpdateOptions after_warmup(UpdateOptions codec) {
  codec.warmup = 0;
  return codec;
}

}  // namespace

PlanMaker::PlanMaker(std::span<const SliceRange> slices, const UpdateOptions& codec)
    : slice_count_(slices.size()), codec_(after_warmup(codec)) {
  STARLING_CHECK(slice_count_ > 1);
  for (size_t slice = slice_count_; slice-- > 0;) {
    sections_.push_back({"slice " + std::to_string(slice), slices[slice].count, 0});
  }
  for (uint32_t end = 1; end <= slice_count_; ++end) alone_.push_back(end);
}

std::vector<uint32_t> PlanMaker::trial_ends() const {
  if (!is_trial()) return {};
  const bool alone = trial() / kTrialShares % 2 == 0;
  return alone ? alone_ : std::vector<uint32_t>{alone_.back()};
}

uint32_t PlanMaker::held_back() const {
  if (!is_trial()) return 0;
  return static_cast<uint32_t>(trial() % kTrialShares * slice_count_ / (kTrialShares - 1));
}

void PlanMaker::add_step(std::span<const Duration> final_after) {
  Duration before{};
  for (size_t i = 0; i < slice_count_; ++i) {
    const Duration after = std::max(before, final_after[slice_count_ - 1 - i]);
    double& mean = sections_[i].backward_s;
    mean += (timed_ ? kNewest : 1) * (seconds(after - before) - mean);
    before = after;
  }
  timed_ = true;
}

void PlanMaker::add_selection(size_t elements, Duration took) {
  const FitSample<1> sample{{static_cast<double>(elements)}, seconds(took)};
  if (select_.size() < kSelectionsMax) return select_.push_back(sample);
  select_[next_select_] = sample;
  next_select_ = (next_select_ + 1) % kSelectionsMax;
}

void PlanMaker::add_exchange(uint64_t messages, uint64_t bytes, Duration took) {
  link_.add({static_cast<double>(messages), static_cast<double>(bytes), seconds(took)});
}

void PlanMaker::add_round(const std::vector<uint32_t>& ends, Duration took) {
  since_thought_ += took;
  if (is_trial()) return;
  Timed& timed = timed_plans_[ends];
  timed.mean_s += std::max(kNewest, 1.0 / static_cast<double>(++timed.rounds)) * (seconds(took) - timed.mean_s);
}

bool PlanMaker::proved_slower(const std::vector<uint32_t>& ends, const std::vector<uint32_t>& than) const {
  const auto a = timed_plans_.find(ends), b = timed_plans_.find(than);
  if (a == timed_plans_.end() || b == timed_plans_.end()) return false;
  return std::min(a->second.rounds, b->second.rounds) >= kTimedMin && a->second.mean_s > b->second.mean_s;
}

std::vector<uint32_t> PlanMaker::choose(const Thought& thought) const {
  if (proved_slower(thought.now, alone_)) return alone_;
  if (thought.is_old || thought.gain < kGainMin || proved_slower(thought.best, alone_)) return {};
  return thought.best;
}

std::shared_ptr<PlanMaker::Thought> PlanMaker::think(uint32_t members, std::vector<uint32_t> now) {
  const bool due = rounds_ > kTrialsFirst && (rounds_ - kTrialsFirst) % kThinkEvery == 0;
  if (!due || since_thought_ < rest_ || members < 2 || !timed_) return nullptr;
  const FitNews news = link_.refresh();
  if (news == FitNews::kNoRate) {
    spdlog::warn(
        "merge plan: the measured cost of a byte is zero, so the plan stays as it is. This is normal where links "
        "are fast or the machine is busy; update.merge: off saves the measuring");
  }
  if (!link_.fit()) return nullptr;
  auto thought = std::make_shared<Thought>();
  thought->sections = sections_;
  thought->members = members;
  thought->codec = codec_;
  thought->link = *link_.fit();
  thought->now = std::move(now);
  thought->is_old = news == FitNews::kNoRate || news == FitNews::kNoRateAgain;
  if (const auto line = fit_line<1>(select_); line && line->slope[0] > 0) {
    thought->select = {.start_s = std::max(0.0, line->start), .s_per_element = line->slope[0]};
    thought->select_r_squared = line->r_squared;
  }
  return thought;
}

void PlanMaker::add_thought(Duration took) {
  rest_ = kCostShare * took;
  since_thought_ = {};
}

void PlanMaker::Thought::run() {
  const StepOptions options{.members = members, .codec = codec, .link = link.cost, .select = select};
  const PlanJudge judge(sections, options);
  const MergePlan plan = judge.choose();
  const double now_s = judge.played_end_s({mirrored(now)});
  best = mirrored(plan.ends);
  gain = now_s > 0 ? 1 - judge.played_end_s(plan) / now_s : 0;
}

std::string PlanMaker::Thought::describe() const {
  return fmt::format(
      "a message costs {:.0f} us (alone R^2 {:.2f}), a MB {:.2f} ms ({:.2f}), the latency is {:.2f} ms "
      "({:.2f}), together R^2 {:.2f}, {} rounds, {} left out. Selection takes {:.2f} ms a million elements "
      "(R^2 {:.2f}). With {} buckets instead of {} a step would be shorter by {:.1f} %",
      1e6 * link.cost.occupancy_s, link.occupancy_r_squared, 1e9 * link.cost.s_per_byte, link.s_per_byte_r_squared,
      1e3 * link.cost.latency_s, link.latency_r_squared, link.r_squared, link.used, link.left_out,
      1e9 * select.s_per_element, select_r_squared, best.size(), now.size(), 1e2 * gain);
}

}  // namespace starling
