// starling simulate: checks the options, runs the swarm and its baselines, writes the report.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <stdexcept>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "agent/commands/commands.h"
#include "agent/commands/flags.h"
#include "agent/config/fields.h"
#include "agent/config/mistakes.h"
#include "agent/config/values.h"
#include "agent/simulate/baselines.h"
#include "agent/simulate/report.h"
#include "agent/train/model_kinds.h"
#include "gossip/limits.h"

namespace starling {
namespace {

namespace fs = std::filesystem;

// One line on stderr, once a second of real time, if stderr is a terminal.
class Progress {
 public:
  void say(const std::string& text) {
    if (!terminal_ || clock_.now() < next_) return;
    next_ = clock_.now() + std::chrono::seconds(1);
    std::fprintf(stderr, "\r\x1b[K%6.0f s  %s", seconds(clock_.now() - began_), text.c_str());
    shown_ = true;
  }
  ~Progress() {
    if (shown_) std::fputs("\r\x1b[K", stderr);
  }
  bool due() { return terminal_ && ++calls_ % 64 == 0; }  // reading the clock costs more than most instants

 private:
  const SteadyClock clock_;
  const bool terminal_ = isatty(STDERR_FILENO) == 1;
  const TimePoint began_ = clock_.now();
  TimePoint next_;
  uint64_t calls_ = 0;
  bool shown_ = false;
};

void check_options(const SimulateOptions& options) {
  const size_t count = options.agents + options.scenario.joins();
  Mistakes mistakes;
  mistakes.add_if(options.agents == 0, "--agents 0: a swarm needs at least one agent");
  mistakes.add_if(count > kMembersMax,
                  fmt::format("{} agents, those that join included; a swarm has at most {}", count, kMembersMax));
  mistakes.add_if(options.compute < std::chrono::microseconds(1),
                  "--compute " + print_duration(options.compute) + ": a step takes some time; give it at least 1us");
  mistakes.add_if(options.speeds.empty(), "--speeds names none; leave it out, or write 1,1,4");
  mistakes.add_if(options.speeds.size() > count && options.agents > 0,
                  fmt::format("--speeds names {} factors, and the agents are {}; leave some out, or start more agents",
                              options.speeds.size(), count));
  if (options.agents > 0) mistakes.attempt([&] { options.scenario.refuse_absent(options.agents); });
  mistakes.refuse();
}

std::vector<std::string> check_baselines(const std::vector<std::string>& words) {
  std::vector<std::string> known = baseline_names(), wanted;
  known.push_back("none");
  for (const std::string& word : words) {
    if (std::find(known.begin(), known.end(), word) == known.end()) throw_unknown("baseline", word, known);
    const bool doubled = std::find(wanted.begin(), wanted.end(), word) != wanted.end();
    if (word != "none" && !doubled) wanted.push_back(word);
  }
  return wanted;
}

void check_lost_exchanges(const SimulateOptions& options, const SwarmConfig& swarm) {
  if (options.exchange_loss == 0 || swarm.exchange.kind == ExchangeKind::kPairwise) return;
  throw std::runtime_error("--lose-exchanges: only pairs lose exchanges as a whole; write kind: pairwise, or --loss");
}

void check_length(const SimulateOptions& options, const SwarmConfig& swarm) {
  if (swarm.stop_after > 0) return;
  if (!options.duration) {
    throw std::runtime_error(
        "this swarm would train for ever: swarm.stop_after is 0; say when to end with --steps N, "
        "or with --seconds S of virtual time");
  }
  if (!options.baselines.empty()) {
    throw std::runtime_error(
        "--baseline needs to know how many steps to take: --steps N (--seconds may end the swarm "
        "before)");
  }
}

Config load(const SimulateOptions& options) {
  std::vector<std::string> overrides = options.overrides;
  if (options.steps) overrides.push_back("swarm.stop_after=" + std::to_string(*options.steps));
  if (options.rng_seed) overrides.push_back("swarm.rng_seed=" + std::to_string(*options.rng_seed));
  Config config = load_config(options.config_path, overrides);
  if (config.agent.batch > 0) config.swarm.batch = config.agent.batch;  // all agents are alike here
  config.swarm.wait_for = 1;                                            // and start at one moment
  Mistakes mistakes;
  mistakes.attempt([&] { refuse_absent(config.swarm, options.agents + options.scenario.joins()); });
  mistakes.attempt([&] { check_lost_exchanges(options, config.swarm); });
  mistakes.attempt([&] { refuse_baselines(options.baselines, config.swarm); });
  mistakes.attempt([&] { check_length(options, config.swarm); });
  mistakes.refuse();
  return config;
}

// "pairwise, modulo8, matching"
std::string describe_exchange(const Config& config) {
  const auto value = [&](const std::string& key) -> std::string {
    for (const ConfigField& field : config_fields()) {
      if (field.name == key) return field.print(config);
    }
    return "";
  };
  const ExchangeConfig& exchange = config.swarm.exchange;
  std::string text = value("swarm.exchange.kind");
  if (exchange.kind == ExchangeKind::kNone) return "exchange none";
  if (shares_updates(exchange))
    return text + " of " + value("swarm.exchange.source") + ", " + value("swarm.exchange.update.codec");
  text += ", " + value("swarm.exchange.codec");
  return exchange.kind == ExchangeKind::kGroup ? text : text + ", " + value("swarm.topology.kind");
}

std::string describe(const SimulateOptions& options, const Config& config) {
  std::string text = fmt::format("{} agents, {}, {}, rng seed {}", options.agents, config.swarm.model.kind,
                                 describe_exchange(config), config.swarm.rng_seed);
  text += "; links of " + print_duration(options.latency);
  if (options.jitter > Duration::zero()) text += " to " + print_duration(options.latency + options.jitter);
  text += options.bytes_per_s > 0 ? fmt::format(", {:g} Mbit/s an agent each way", options.bytes_per_s * 8e-6)
                                  : ", no limit of rate";
  if (options.loss > 0) text += fmt::format(", {:g} % of the frames lost", 100 * options.loss);
  if (options.exchange_loss > 0) {
    text += fmt::format(", {:g} % of the pair exchanges lost", 100 * options.exchange_loss);
  }
  text += "; a step takes " + print_duration(options.compute);
  if (options.speeds.size() > 1) {
    text += " times";
    for (const double speed : options.speeds) text += fmt::format(" {:g}", speed);
  }
  return text;
}

// Those given that change nothing in baselines: "--loss, --kill".
std::string flags_of_the_swarm(const SimulateOptions& options, const Config& config) {
  using Kind = ScenarioEvent::Kind;
  const auto plans = [&](Kind kind) {
    const auto& events = options.scenario.events();
    return std::any_of(events.begin(), events.end(), [&](const ScenarioEvent& event) { return event.kind == kind; });
  };
  const std::pair<const char*, bool> flags[] = {{"--loss", options.loss > 0},
                                                {"--lose-exchanges", options.exchange_loss > 0},
                                                {"--inject-loss", config.swarm.exchange.inject_loss > 0},
                                                {"--kill", plans(Kind::kKill)},
                                                {"--join", plans(Kind::kJoin)},
                                                {"--pause", plans(Kind::kPause)}};
  std::string text;
  for (const auto& [flag, given] : flags) {
    if (given) text += (text.empty() ? "" : ", ") + std::string(flag);
  }
  return text;
}

void refuse_own_config(const SimulateOptions& options) {
  std::error_code error;
  const fs::path written = fs::path(options.out) / "config.yaml";
  if (!fs::equivalent(written, options.config_path, error)) return;
  throw std::runtime_error(written.string() + " is the --config and would be overwritten; name another --out");
}

std::string print_step(uint64_t step, const SwarmConfig& swarm) {
  return swarm.stop_after == 0 ? fmt::format("step {}", step) : fmt::format("step {} of {}", step, swarm.stop_after);
}

// "step 120 of 400, 2.40 s of virtual time"
std::string describe_progress(const SimulateOptions& options, const SwarmConfig& swarm, double virtual_s,
                              uint64_t step) {
  const bool settles = swarm.stop_after > 0 && step >= swarm.stop_after;  // most agents do
  std::string text = settles ? "all steps made, settling" : print_step(step, swarm);
  text += fmt::format(", {:.2f}", virtual_s);
  if (options.duration) text += fmt::format(" of {:g}", seconds(*options.duration));
  return text + " s of virtual time";
}

// No lines at level info: each of a thousand agents would log a thousand others.
class QuietLog {
 public:
  QuietLog() {
    if (before_ == spdlog::level::info) spdlog::set_level(spdlog::level::err);
  }
  ~QuietLog() { spdlog::set_level(before_); }

 private:
  const spdlog::level::level_enum before_ = spdlog::get_level();
};

std::vector<double> read_speeds(const std::string& text) {
  std::vector<double> speeds;
  for (size_t from = 0; from <= text.size();) {
    const size_t to = std::min(text.find(',', from), text.size());
    const auto speed = read_number<double>(text.substr(from, to - from));
    if (!speed || !(*speed >= 1e-3 && *speed <= 1e3)) {
      throw std::invalid_argument(
          "expected factors on --compute from 0.001 to 1000 with commas, such as "
          "1,1,4, found '" +
          text + "'");
    }
    speeds.push_back(*speed);
    from = to + 1;
  }
  return speeds;
}

double read_probability(const std::string& text) {
  const auto part = read_number<double>(text);
  if (!part || !(*part >= 0 && *part < 1)) {
    throw std::invalid_argument("expected a probability such as 0.01, found '" + text + "'");
  }
  return *part;
}

// `example`: of what the flag takes.
Duration read_virtual_time(const std::string& text, const char* example) {
  const auto seconds = read_seconds(text);
  if (!seconds || *seconds == 0) {
    throw std::invalid_argument(std::string("expected seconds of virtual time such as ") + example + ", found '" +
                                text + "'");
  }
  return from_seconds(*seconds);
}

}  // namespace

int run_simulate_command(const SimulateOptions& asked, const SimTaskFactory& make_task) {
  SimulateOptions options = asked;
  Config config;
  Mistakes mistakes;
  mistakes.attempt([&] { options.baselines = check_baselines(asked.baselines); });
  mistakes.attempt([&] { check_options(options); });
  mistakes.attempt([&] { config = load(options); });
  mistakes.refuse();
  const bool with_torch = model_kind(config.swarm.model.kind).needs_data;
  require_engine(!with_torch || make_task, "simulate");
  std::error_code error;
  fs::create_directories(options.out, error);
  if (error || !fs::is_directory(options.out)) {
    throw std::runtime_error("the folder " + options.out + " cannot be created: " + error.message() +
                             "; name another one with --out");
  }
  refuse_own_config(options);
  const QuietLog quiet;
  const auto task = with_torch ? make_task(config, options.agents) : make_quadratic_task(config, options.agents);
  SimulationReport report;
  report.title = "Simulated swarm \"" + config.swarm.name + "\"";
  report.command = describe(options, config);
  report.config = (options.command_line.empty() ? "" : "# " + options.command_line + "\n") + print_config(config);
  report.agents = options.agents;
  report.steps = config.swarm.stop_after;
  {
    Progress progress;
    report.swarm = run_simulated_swarm(options, config, *task, [&](double virtual_s, const auto& median_step) {
      if (progress.due()) progress.say(describe_progress(options, config.swarm, virtual_s, median_step()));
    });
    report.baselines = run_baselines(options, config.swarm, *task, [&](const std::string& name, uint64_t step) {
      progress.say(name + ": " + print_step(step, config.swarm));
    });
  }
  if (const std::string flags = flags_of_the_swarm(options, config); !report.baselines.empty() && !flags.empty()) {
    report.swarm.remarks.push_back("baselines run without " + flags + ": compare with a swarm without them too");
  }
  write_simulation(options.out, report);
  std::printf("%s\n\n%s\n", report.command.c_str(), print_simulation_table(report).c_str());
  if (options.details) std::printf("%s\n", print_simulation_details(report).c_str());
  for (const SimEvent& event : report.swarm.events) std::printf("%8.2f s  %s\n", event.virtual_s, event.text.c_str());
  for (const std::string& remark : report.swarm.remarks) std::printf("%s\n", remark.c_str());
  if (report.swarm.in_rounds) std::printf("%s\n", print_blocks_line(report.swarm.blocks).c_str());
  const std::string closing =
      fmt::format("{} exchanges done, {} late, {} failed; report: {}, with config.yaml beside it\n", report.swarm.done,
                  report.swarm.late, report.swarm.failed, (fs::path(options.out) / "report.html").string());
  std::fputs(closing.c_str(), stdout);
  if (report.swarm.alive > 0) return 0;
  std::fflush(stdout);
  std::fprintf(stderr,
               "starling: every agent was killed before the end, so this swarm has no final model; leave one "
               "alive, or let newcomers join (--join)\n");
  return 1;
}

void add_simulate(CLI::App& app, Cli& cli) {
  Subcommand command(app, "simulate", "Runs many agents in one process, on virtual time and links.");
  add_common_flags(command, cli, true);
  const auto options = std::make_shared<SimulateOptions>();
  SimulateOptions& simulate = *options;
  add_count_flag(command, simulate.agents, "--agents", {1, 1024}, "Number of agents. Default: 8.");
  command.text("--out FOLDER", "Folder for curve.csv, summary.json, report.html and config.yaml.", simulate.out);
  command.require("--out");
  add_count_flag(command, simulate.steps, "--steps", {1}, "Sets swarm.stop_after. Default: what the config says.");
  add_count_flag(command, simulate.rng_seed, "--seed", {},
                 "Sets swarm.rng_seed, from which all chance of the links follows too. Default: what the config says.");
  command.repeatable("--seconds S", "Ends after this virtual time. Default: when all agents have finished.",
                     [&simulate](const std::string& text) { simulate.duration = read_virtual_time(text, "30"); });
  command.repeatable("--every S",
                     "Virtual seconds between two evaluations; each costs real time. Default: a twentieth of the run.",
                     [&simulate](const std::string& text) { simulate.every = read_virtual_time(text, "0.5"); });
  command.repeatable("--latency TIME", "Latency of each link, one way. Default: 10ms.",
                     [&simulate](const std::string& text) { simulate.latency = read_duration(text); });
  command.repeatable("--jitter TIME", "Largest random addition to the latency of a frame. Default: 0s.",
                     [&simulate](const std::string& text) { simulate.jitter = read_duration(text); });
  command.repeatable("--rate RATE",
                     "Rate of an agent's link, up and down each, such as 1gbit or unlimited. Default: 100mbit.",
                     [&simulate](const std::string& text) { simulate.bytes_per_s = read_rate(text); });
  command.repeatable("--loss PART", "Probability that a frame is lost. Default: 0.",
                     [&simulate](const std::string& text) { simulate.loss = read_probability(text); });
  command.repeatable("--lose-exchanges PART",
                     "Probability that a pair exchange is lost with all its messages. Default: 0.",
                     [&simulate](const std::string& text) { simulate.exchange_loss = read_probability(text); });
  command.repeatable("--compute TIME", "Virtual time of a step. Default: 20ms.",
                     [&simulate](const std::string& text) { simulate.compute = read_duration(text); });
  command.repeatable(
      "--speeds LIST",
      "Factors on --compute, agent by agent, over again; 1,1,4: each third agent is four times slower. Default: 1.",
      [&simulate](const std::string& text) { simulate.speeds = read_speeds(text); });
  for (const char* usage : {"--inject-loss PART", "--repair on|off", "--first-norm-max NORM"}) {
    add_config_flag(command, cli, usage);
  }
  add_scenario_flags(command, simulate.scenario);
  std::string baselines;
  for (const std::string& name : baseline_names()) baselines += " | " + name;
  command.repeatable(
      "--baseline NAME",
      "Runs another algorithm to compare with: none" + baselines +
          ". Repeatable; each takes about as long as the swarm. It loses nothing, and no agent is killed, "
          "joins or pauses. Default: none.",
      [&simulate](const std::string& text) { simulate.baselines.push_back(text); });
  command.flag("--details", "Prints how the pair exchanges of each agent went.", simulate.details);
  command.then([&cli, options] {
    options->command_line = cli.command_line;
    options->config_path = cli.config_path;
    options->overrides = cli.overrides;
    cli.choose("simulate", *options, [make_task = cli.engines.make_task](const SimulateOptions& chosen) {
      return run_simulate_command(chosen, make_task);
    });
  });
}

}  // namespace starling
