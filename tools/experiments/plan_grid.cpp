// plan_grid TABLE...: plans every cell of the grid for each table of layers; one JSON line for each plan of each cell.
#include <cstdio>
#include <exception>

#include <nlohmann/json.hpp>

#include "agent/config/layer_table.h"
#include "gossip/limits.h"
#include "tools/experiments/plan_replay.h"

namespace starling {
namespace {

constexpr double kMilliseconds[] = {0.1, 1, 10};
constexpr double kMegabits[] = {100, 1000, 10000};
constexpr double kDensities[] = {0.01, 0.001};

void print_cell(const LayerTable& table, const StepOptions& options, const nlohmann::ordered_json& cell) {
  std::vector<PlanSection> sections = join_small(table.layers, kSmallSection);
  if (options.form == CostForm::kGroup) sections = cut_slices(sections, kUpdateSlicesMax);
  const PlanComparison all = compare_plans(sections, options);
  for (const PlanRow* row : {&all.best, &all.greedy, &all.per_section, &all.by_bytes, &all.one_bucket, &all.dense}) {
    nlohmann::ordered_json line = cell;
    line["plan"] = row->name;
    line["buckets"] = row->plan.ends.size();
    line["messages"] = row->messages;
    line["select_s"] = row->select_s;
    line["step_s"] = table.forward_s + row->times.end_s;
    if (options.form == CostForm::kGroup) {
      StepOptions played = options;
      if (row == &all.dense) played.codec.kind = UpdateKind::kFp32;
      const Replay replay = replay_group(all.sections, row->times, played);
      line["played_step_s"] = table.forward_s + replay.end_s;
      line["played_messages"] = replay.messages_busiest;
    }
    std::printf("%s\n", line.dump().c_str());
  }
}

void print_table(const std::string& path) {
  const LayerTable table = read_layer_table(path, {});
  for (const CostForm form : {CostForm::kGroup, CostForm::kCollective}) {
    for (const double density : kDensities) {
      for (const double ms : kMilliseconds) {
        for (const double mbit : kMegabits) {
          StepOptions options;
          options.form = form;
          options.members = 8;
          options.codec = {.kind = UpdateKind::kTopk, .density = density};
          options.link = {.latency_s = 1e-3 * ms, .s_per_byte = 8e-6 / mbit, .occupancy_s = 30e-6};
          options.select = kHostTopk;
          const char* name = form == CostForm::kGroup ? "group" : "collectives";
          print_cell(table, options, {{"model", table.model}, {"form", name}, {"density", density},
                                      {"latency_ms", ms}, {"rate_mbit", mbit}, {"backward_s", table.backward_s}});
        }
      }
    }
  }
}

}  // namespace
}  // namespace starling

int main(int argc, char** argv) {
  try {
    for (int i = 1; i < argc; ++i) starling::print_table(argv[i]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "plan_grid: %s\n", error.what());
    return 1;
  }
}
