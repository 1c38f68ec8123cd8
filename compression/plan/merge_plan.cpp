#include "compression/plan/merge_plan.h"

#include <algorithm>
#include <limits>

#include "kernels/check.h"

namespace starling {
namespace {

struct Ends { double compute_s = 0, send_s = 0; };

// All plans are timed by this one function, so that equal plans have equal bits. Neither result decreases when a number
// before it grows, in floating point too.
Ends after_bucket(const StepModel& model, const Ends& before, size_t first, size_t last) {
  const BucketCost& cost = model.bucket(first, last);
  Ends after;
  after.compute_s = before.compute_s + model.backward_s(first, last) + cost.select_s;
  after.send_s = std::max(before.send_s, after.compute_s) + cost.send_s;
  return after;
}

// The end of a step whose last bucket begins with `first`.
double end_s(const StepModel& model, const Ends& ends, size_t first) {
  const double sent_s = ends.send_s + model.bucket(first, model.count() - 1).tail_s + model.latency_s();
  return std::max(sent_s, ends.compute_s + model.apply_s());
}

// One way to have done all sections before some section.
struct State {
  Ends ends;
  uint32_t from = 0;   // where its last bucket begins
  uint32_t state = 0;  // among the states there
};

// Keeps what no other undercuts: ascending in compute_s, descending in send_s.
void keep_best(std::vector<State>& states) {
  std::sort(states.begin(), states.end(), [](const State& a, const State& b) {
    return a.ends.compute_s != b.ends.compute_s ? a.ends.compute_s < b.ends.compute_s : a.ends.send_s < b.ends.send_s;
  });
  double least = std::numeric_limits<double>::infinity();
  std::erase_if(states, [&least](const State& state) {
    if (state.ends.send_s >= least) return true;
    least = state.ends.send_s;
    return false;
  });
}

// Merges neighbors as long as the step ends no later: fewer messages for the same time.
void merge_idle_cuts(const StepModel& model, MergePlan& plan) {
  const double before_s = step_end_s(model, plan);
  for (bool merged = true; merged;) {
    merged = false;
    for (size_t cut = 0; cut + 1 < plan.ends.size();) {
      MergePlan fewer = plan;
      fewer.ends.erase(fewer.ends.begin() + static_cast<std::ptrdiff_t>(cut));
      if (step_end_s(model, fewer) <= before_s) {
        plan = fewer;
        merged = true;
      } else {
        ++cut;
      }
    }
  }
}

}  // namespace

bool is_plan(const MergePlan& plan, size_t section_count) {
  uint32_t before = 0;
  for (const uint32_t end : plan.ends) {
    if (end <= before) return false;
    before = end;
  }
  return before == section_count && section_count > 0;
}

StepTimes step_times(const StepModel& model, const MergePlan& plan) {
  STARLING_CHECK(is_plan(plan, model.count()));
  StepTimes times;
  Ends ends;
  uint32_t first = 0;
  for (const uint32_t end : plan.ends) {
    const Ends before = ends;
    ends = after_bucket(model, before, first, end - 1);
    times.buckets.push_back({.first = first,
                             .last = end - 1,
                             .select_begin_s = before.compute_s + model.backward_s(first, end - 1),
                             .select_end_s = ends.compute_s,
                             .send_begin_s = std::max(before.send_s, ends.compute_s),
                             .send_end_s = ends.send_s});
    first = end;
  }
  times.compute_end_s = ends.compute_s;
  times.end_s = end_s(model, ends, times.buckets.back().first);
  return times;
}

double step_end_s(const StepModel& model, const MergePlan& plan) {
  Ends ends;
  uint32_t first = 0;
  for (const uint32_t end : plan.ends) {
    ends = after_bucket(model, ends, first, end - 1);
    if (end < model.count()) first = end;
  }
  return end_s(model, ends, first);
}

MergePlan best_plan(const StepModel& model) {
  const size_t count = model.count();
  std::vector<std::vector<State>> done(count + 1);  // by how many sections are done
  done[0].push_back({});
  for (uint32_t end = 1; end <= count; ++end) {
    for (uint32_t first = 0; first < end; ++first) {
      for (uint32_t state = 0; state < done[first].size(); ++state) {
        done[end].push_back({after_bucket(model, done[first][state].ends, first, end - 1), first, state});
      }
    }
    if (end < count) keep_best(done[end]);  // of whole plans the tails count too
  }
  MergePlan plan;
  const State* at = &*std::min_element(done[count].begin(), done[count].end(), [&](const State& a, const State& b) {
    return end_s(model, a.ends, a.from) < end_s(model, b.ends, b.from);
  });
  for (auto end = static_cast<uint32_t>(count); end > 0;) {
    plan.ends.push_back(end);
    end = at->from;
    at = &done[end][at->state];
  }
  std::reverse(plan.ends.begin(), plan.ends.end());
  merge_idle_cuts(model, plan);
  return plan;
}

MergePlan plan_per_section(size_t section_count) {
  MergePlan plan;
  for (uint32_t end = 1; end <= section_count; ++end) plan.ends.push_back(end);
  return plan;
}

MergePlan plan_one_bucket(size_t section_count) { return {{static_cast<uint32_t>(section_count)}}; }

MergePlan plan_by_bytes(const StepModel& model, uint64_t bytes) {
  MergePlan plan;
  const auto count = static_cast<uint32_t>(model.count());
  uint64_t filled = 0, limit = std::min<uint64_t>(bytes, 1 << 20);
  for (uint32_t section = 0; section < count; ++section) {
    filled += model.elements(section) * sizeof(float);
    if (filled < limit && section + 1 < count) continue;
    plan.ends.push_back(section + 1);
    filled = 0;
    limit = bytes;
  }
  return plan;
}

MergePlan plan_greedy(const StepModel& model) {
  MergePlan plan;
  Ends ends;
  const auto count = static_cast<uint32_t>(model.count());
  uint32_t first = 0;  // of the open bucket
  for (uint32_t next = 1; next < count; ++next) {
    const Ends alone = after_bucket(model, ends, first, next - 1);
    const BucketCost& open = model.bucket(first, next - 1);
    const BucketCost& own = model.bucket(next, next);
    const BucketCost& both = model.bucket(first, next);
    const double idle_s = std::max(ends.send_s, alone.compute_s) - alone.compute_s;  // it would wait for the link
    const double wait_s = model.backward_s(next, next) + both.select_s - open.select_s - own.select_s - idle_s;
    const double saved_s = open.send_s + own.send_s - both.send_s;
    if (wait_s < saved_s) continue;
    plan.ends.push_back(next);
    ends = alone;
    first = next;
  }
  plan.ends.push_back(count);
  return plan;
}

}  // namespace starling
