// starling plan: which layers' gradients are best sent together over given links, beside the naive plans.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <stdexcept>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "agent/commands/commands.h"
#include "agent/commands/flags.h"
#include "agent/config/layer_table.h"
#include "agent/report/format.h"
#include "agent/report/plan_draw.h"
#include "agent/report/svg.h"
#include "agent/share/plan_slices.h"
#include "compression/plan/comparison.h"
#include "gossip/clock.h"
#include "gossip/limits.h"
#include "gossip/updates/update_bundles.h"

namespace starling {
namespace {

constexpr size_t kColumns = 64;
// Both directions of a link carry gradients, and TCP says of every second full segment that it came.
constexpr double kAcknowledging = 52.0 / (2 * 1448);

std::string print_ms(double seconds) {
  const double ms = 1e3 * seconds;
  return fmt::format("{:.{}f} ms", ms, ms < 10 ? 2 : ms < 100 ? 1 : 0);
}

std::string print_params(uint64_t params) {
  return params < 10'000 ? std::to_string(params) : fmt::format("{:.2f} M", static_cast<double>(params) / 1e6);
}

// nullopt: --layers alone says what is planned for.
std::optional<Config> load_swarm(const PlanOptions& options) {
  if (options.config_path.empty() && options.layers.empty()) {
    throw std::runtime_error(
        "a plan needs layers: --config FILE for a built-in model, or --layers FILE with a table "
        "as in configs/layers");
  }
  if (options.config_path.empty() && !options.overrides.empty()) {
    throw std::runtime_error("--set changes a config, and there is none here: add --config FILE");
  }
  if (options.config_path.empty()) return std::nullopt;
  Config config = load_config(options.config_path, options.overrides);
  if (config.swarm.local_steps > 1) {
    throw std::runtime_error("swarm.local_steps is " + std::to_string(config.swarm.local_steps) +
                             ": gradients are sent in every step; --set swarm.local_steps=1 plans for that");
  }
  return config;
}

LayerTable load_layers(const PlanOptions& options, const std::optional<Config>& config) {
  if (options.backward == Duration::zero()) {
    throw std::runtime_error("--backward 0s leaves no time to send in; name what backward of a step takes: 150ms");
  }
  if (!options.layers.empty()) return read_layer_table(options.layers, options.backward);
  if (!options.backward) {
    throw std::runtime_error("nothing says how long backward takes; add --backward 10ms");
  }
  return layers_by_flops(config->swarm.model.kind, model_layers(config->swarm.model), seconds(*options.backward));
}

// What the flags do not say is the config's, where its swarm shares gradients.
UpdateOptions codec_options(const PlanOptions& options, const std::optional<Config>& config) {
  UpdateOptions codec{.kind = UpdateKind::kTopk, .density = 0.01};
  if (config && config->swarm.exchange.source == SourceKind::kGradients) codec = config->swarm.exchange.update;
  if (options.codec) {
    const auto kind = parse_update(*options.codec);
    if (!kind) throw_unknown("update codec", *options.codec, update_words());
    codec.kind = *kind;
  }
  if (codec.kind == UpdateKind::kSketch) {
    throw std::runtime_error(
        "codec sketch asks for elements when backward has ended, so nothing is sent earlier and "
        "there is nothing to plan; plan for another one, --codec topk");
  }
  codec.density = options.density.value_or(codec.density);
  return codec;
}

StepOptions step_options(const PlanOptions& options, const std::optional<Config>& config) {
  StepOptions step{.codec = codec_options(options, config)};
  if (options.agents < 2 || options.agents > kUpdateMembersMax) {
    throw std::runtime_error(fmt::format("--agents {}; a group has 2 to {}", options.agents, kUpdateMembersMax));
  }
  if (options.form != "group" && options.form != "collectives") {
    throw std::runtime_error("--form '" + options.form + "'; it is group or collectives");
  }
  step.form = options.form == "group" ? CostForm::kGroup : CostForm::kCollective;
  step.members = static_cast<uint32_t>(options.agents);
  step.link = {.latency_s = seconds(options.latency),
               .s_per_byte = options.bytes_per_s > 0 ? 1 / options.bytes_per_s : 0,
               .occupancy_s = seconds(options.occupancy)};
  step.select = kHostTopk;
  if (step.form == CostForm::kGroup) {
    step.select.s_per_element += kHostDrift;
    step.link.s_per_byte *= 1 + kAcknowledging;
  }
  const uint64_t entry_bytes = kFrameHeaderBytes + kEntryHeaderBytes + kCountedBytes * options.agents;
  step.headers = {.contribution = kFrameHeaderBytes + kContributionHeaderBytes,
                  .entry = static_cast<double>(entry_bytes)};
  step.apply_s_per_element = kHostApply;
  return step;
}

std::string describe_codec(const UpdateOptions& codec) {
  const std::string name(update_name(codec.kind));
  return name.starts_with("topk") ? fmt::format("{}, density {:g} %", name, 100 * codec.density) : name;
}

std::string describe_links(const PlanOptions& options) {
  std::string rate = "no limit of rate";
  if (options.bytes_per_s > 0) rate = fmt::format("{:g} Mbit/s", options.bytes_per_s * 8e-6);
  return fmt::format("{} agents, links of {} and ", options.agents, print_duration(options.latency)) + rate;
}

std::string describe_form(const PlanOptions& options) {
  if (options.form == "collectives") return "each bucket is one collective call, and they run one after the other";
  return "each slice has an owner; the latency is paid once, a message takes " + print_duration(options.occupancy) +
         " of a processor";
}

std::vector<const PlanRow*> all_rows(const PlanComparison& all) {
  std::vector<const PlanRow*> rows = {&all.best,     &all.by_form,    &all.greedy, &all.per_section,
                                      &all.by_bytes, &all.one_bucket, &all.dense};
  if (all.by_form.plan == all.best.plan) rows.erase(rows.begin() + 1);
  return rows;
}

std::string print_table(const PlanComparison& all, double forward_s) {
  std::string text = fmt::format("{:<16}{:>8}{:>10}{:>11}{:>17}{:>11}{:>13}\n", "plan", "buckets", "messages", "select",
                                 "exposed sending", "step", "over best");
  const double best_s = forward_s + all.best.times.end_s;
  for (const PlanRow* row : all_rows(all)) {
    const double step_s = forward_s + row->times.end_s;
    text += fmt::format("{:<16}{:>8}{:>10.0f}{:>11}{:>17}{:>11}{:>11.1f} %\n", row->name, row->times.buckets.size(),
                        row->messages, print_ms(row->select_s), print_ms(row->times.end_s - row->times.compute_end_s),
                        print_ms(step_s), 100 * (step_s / best_s - 1));
  }
  return text;
}

std::string print_verdict(const UpdateOptions& codec, const PlanComparison& all, double forward_s) {
  const PlanRow& naive = all.better_naive();
  const double best_s = forward_s + all.best.times.end_s, naive_s = forward_s + naive.times.end_s;
  std::string text = fmt::format(
      "The best plan takes {:.1f} % less time a step than the better naive one ({}), with {:.0f} messages instead of "
      "{:.0f}.\n",
      100 * (1 - best_s / naive_s), naive.name, all.best.messages, naive.messages);
  if (codec.kind == UpdateKind::kFp32) return text;
  const double dense_s = forward_s + all.dense.times.end_s;
  if (all.dense_is_faster()) {
    return text + fmt::format("Dense is faster here: whole fp32 gradients take {} a step, {} takes {}.\n",
                              print_ms(dense_s), describe_codec(codec), print_ms(best_s));
  }
  return text + fmt::format("Whole fp32 gradients would take {} a step, {:.1f} times as long.\n", print_ms(dense_s),
                            dense_s / best_s);
}

std::string print_buckets(const PlanComparison& all) {
  std::string text = fmt::format("{:>6}  {:<40}{:>9}{:>11}{:>11}{:>11}{:>11}\n", "bucket", "layers", "params",
                                 "complete", "selected", "sent from", "to");
  for (size_t i = 0; i < all.best.times.buckets.size(); ++i) {
    const BucketTimes& bucket = all.best.times.buckets[i];
    uint64_t params = 0;
    for (size_t s = bucket.first; s <= bucket.last; ++s) params += all.sections[s].elements;
    std::string name = name_bucket(all.sections, bucket);
    if (name.size() > 39) name = name.substr(0, 36) + "...";
    text += fmt::format("{:>6}  {:<40}{:>9}{:>11}{:>11}{:>11}{:>11}\n", i + 1, name, print_params(params),
                        print_ms(bucket.select_begin_s), print_ms(bucket.select_end_s), print_ms(bucket.send_begin_s),
                        print_ms(bucket.send_end_s));
  }
  return text;
}

std::string print_timelines(const PlanComparison& all) {
  const PlanRow* rows[] = {&all.best, &all.per_section, &all.one_bucket};
  double until_s = 0;
  for (const PlanRow* row : rows) until_s = std::max(until_s, std::min(row->times.end_s, 2 * all.best.times.end_s));
  std::string text = fmt::format("From the begin of backward to {}; digits are buckets:\n", print_ms(until_s));
  for (const PlanRow* row : rows) {
    text += fmt::format("{}, ends at {}{}\n", row->name, print_ms(row->times.end_s),
                        row->times.end_s > until_s ? ", cut off here" : "") +
            draw_lanes(*row, until_s, kColumns);
  }
  return text;
}

nlohmann::ordered_json as_json(const PlanComparison& all, const LayerTable& table) {
  nlohmann::ordered_json plans = nlohmann::ordered_json::object();
  for (const PlanRow* row :
       {&all.best, &all.by_form, &all.greedy, &all.per_section, &all.by_bytes, &all.one_bucket, &all.dense}) {
    plans[row->name] = {{"step_s", table.forward_s + row->times.end_s},
                        {"form_step_s", table.forward_s + row->form_end_s},
                        {"compute_end_s", row->times.compute_end_s},
                        {"end_s", row->times.end_s},
                        {"select_s", row->select_s},
                        {"messages", row->messages},
                        {"ends", row->plan.ends}};
  }
  return {{"model", table.model},           {"sections", all.sections.size()},          {"forward_s", table.forward_s},
          {"backward_s", table.backward_s}, {"dense_is_faster", all.dense_is_faster()}, {"plans", plans}};
}

}  // namespace

int run_plan_command(const PlanOptions& options) {
  const std::optional<Config> config = load_swarm(options);
  const StepOptions step = step_options(options, config);
  const LayerTable table = load_layers(options, config);
  const bool is_group = step.form == CostForm::kGroup;
  const size_t slices = slices_max(config ? config->swarm.exchange : ExchangeConfig());
  const PlanComparison all =
      compare_plans(is_group ? plan_slices(table.layers, slices) : join_small(table.layers, kSmallSection), step);
  uint64_t params = 0;
  for (const PlanSection& layer : table.layers) params += layer.elements;
  const std::string parts = print_count(all.sections.size(), is_group ? "slice" : "layer");
  const std::string title =
      table.model + ": " + print_params(params) + " params in " + parts + "; " + describe_codec(step.codec);
  const std::string subtitle = describe_links(options) + "; " + describe_form(options);
  if (!options.svg.empty()) {
    write_drawing(options.svg, draw_plan_svg({title, subtitle, all_rows(all), &all.sections}));
  }
  if (options.json) {
    std::printf("%s\n", as_json(all, table).dump(1).c_str());
    return 0;
  }
  std::string text = title + "\n" + subtitle + "\n";
  text += "forward " + print_ms(table.forward_s) + ", backward " + print_ms(table.backward_s) + " a step\n\n";
  text += print_table(all, table.forward_s) + "\n" + print_verdict(step.codec, all, table.forward_s) + "\n";
  text += "The best plan:\n" + print_buckets(all) + "\n" + print_timelines(all);
  if (!options.svg.empty()) text += "\ndrawn in " + options.svg + "\n";
  std::fputs(text.c_str(), stdout);
  return 0;
}

void add_plan(CLI::App& app, Cli& cli) {
  Subcommand command(app, "plan", "Plans which layers' gradients are best sent together.");
  const auto options = std::make_shared<PlanOptions>();
  PlanOptions& plan = *options;
  add_common_flags(command, cli);
  command.text("--layers FILE", "Table of layers, as in configs/layers. Default: the layers of the config's model.",
               plan.layers);
  command.option("--backward TIME", "Time of a step's backward. Default: what the table says.",
                 [&plan](const std::string& text) { plan.backward = read_duration(text); });
  command.option("--link TIME,RATE", "Latency one way and rate of each agent's link. Default: 1ms,1gbit.",
                 [&plan](const std::string& text) {
                   const size_t comma = text.find(',');
                   if (comma == std::string::npos) {
                     throw std::invalid_argument("expected LATENCY,RATE such as 10ms,1gbit, found '" + text + "'");
                   }
                   plan.latency = read_duration(text.substr(0, comma));
                   plan.bytes_per_s = read_rate(text.substr(comma + 1));
                 });
  add_count_flag(command, plan.agents, "--agents", {}, "Number of agents. Default: 8.");
  command.option("--codec CODEC",
                 "Codec of the gradients: " + update_choices(" | ") + ". Default: the config's, else topk.",
                 [&plan](const std::string& text) { plan.codec = text; });
  add_density_flag(command, plan.density, "Part of the elements that topk sends. Default: the config's, else 0.01.");
  command.text(
      "--form FORM",
      "How buckets are sent: group (streams of a Starling group) | collectives (one call a bucket). Default: group.",
      plan.form);
  command.option("--occupancy TIME", "Processor time of one message, sent or received. Default: 30us.",
                 [&plan](const std::string& text) { plan.occupancy = read_duration(text); });
  command.text("--svg FILE", "Draws all plans into this file. Default: none.", plan.svg);
  command.flag("--json", "Prints JSON.", plan.json);
  command.then([&cli, options] {
    options->config_path = cli.config_path;
    options->overrides = cli.overrides;
    cli.choose("plan", *options, run_plan_command);
  });
}

}  // namespace starling
