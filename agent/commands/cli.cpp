#include "agent/commands/cli.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <stdexcept>

#include <CLI/CLI.hpp>

#include "agent/config/fields.h"
#include "agent/config/values.h"
#include "compression/codec.h"
#include "gossip/exchange/topology.h"

namespace starling {
namespace {

constexpr const char* kVersion = "starling 0.1.0";

// A flag of the table: it sets one key of the configuration, so that one check judges file, environment and flags.
// Each occurrence counts when it is met, so that a later flag or --set wins.
void add_config_flag(CLI::App* command, Cli& cli, const std::string& flag) {
  std::string doc;
  for (const ConfigField& field : config_fields()) {
    if (field.flag == flag) doc = field.doc;
  }
  command->add_option_function<std::string>(
      flag, [&cli, flag](const std::string& value) { cli.overrides.push_back(flag + "=" + value); }, doc)
      ->type_name("")->trigger_on_parse();
}

// Several --bootstrap add up.
void add_bootstrap_flag(CLI::App* command, Cli& cli, const char* doc) {
  const auto all = std::make_shared<std::string>();
  command->add_option_function<std::string>("--bootstrap,--initial-peers", [&cli, all](const std::string& value) {
    *all += (all->empty() ? "" : ",") + value;
    cli.overrides.push_back("--bootstrap=" + *all);
  }, doc)->type_name("")->trigger_on_parse();
}

std::string read_log_level(const std::string& where, const std::string& text) {
  try {
    return WordValue{{"debug", "info", "warn", "error", "off"}}.read(scalar_tree(text));
  } catch (const std::invalid_argument& error) {
    throw CLI::ValidationError(where, error.what());
  }
}

void add_common_flags(CLI::App* command, Cli& cli) {
  command->add_option("--config", cli.config_path, "YAML file; starling init makes one")->type_name("");
  command->add_option_function<std::string>("--set", [&cli](const std::string& text) { cli.overrides.push_back(text); },
      "KEY=VALUE: any key of the config, such as swarm.exchange.codec=bf16 (repeatable)")
      ->type_name("")->trigger_on_parse();
  command->add_option_function<std::string>("--log-level",
      [&cli](const std::string& text) { cli.log_level = read_log_level("--log-level", text); },
      "debug | info | warn | error | off (or STARLING_LOG_LEVEL)")->type_name("");
}

void add_agent(CLI::App& app, Cli& cli) {
  CLI::App* command =
      app.add_subcommand("agent", "trains here and exchanges with the swarm, until Ctrl-C or stop_after");
  add_common_flags(command, cli);
  add_bootstrap_flag(command, cli, "HOST:PORT of any agent or registry of the swarm (repeatable, or with commas)");
  for (const char* flag : {"--data", "--test-data", "--sharding", "--shard", "--labels", "--listen", "--advertise",
                           "--state", "--name", "--device", "--batch", "--threads", "--metrics"}) {
    add_config_flag(command, cli, flag);
  }
  command->add_flag("--print-config", cli.print_config, "print what is in effect, and exit");
  command->callback([&cli] { cli.command = CommandKind::kAgent; });
}

void add_bootstrap(CLI::App& app, Cli& cli) {
  CLI::App* command = app.add_subcommand("bootstrap", "a registry: answers joins, trains nothing; may die at any time");
  add_common_flags(command, cli);
  add_bootstrap_flag(command, cli, "HOST:PORT of others to stay in touch with (repeatable, or with commas)");
  for (const char* flag : {"--listen", "--advertise", "--state", "--name"}) add_config_flag(command, cli, flag);
  command->callback([&cli] {
    cli.command = CommandKind::kBootstrap;
    // Not an agent's folder, so that both can be started in one place.
    const char* state = std::getenv("STARLING_STATE");
    if (state == nullptr || *state == '\0') {
      cli.overrides.insert(cli.overrides.begin(), "agent.state=starling-registry");
    }
  });
}

// A whole text as a number; nullopt if it is none.
template <typename T>
std::optional<T> read_number(const std::string& text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (text.empty() || result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return value;
}

std::optional<double> read_seconds(const std::string& text) {
  const auto seconds = read_number<double>(text);
  return seconds && *seconds >= 0 && *seconds <= 1e9 ? seconds : std::nullopt;
}

// Into a uint64_t, or an optional one.
template <typename Target>
void add_count_flag(CLI::App* command, Target& target, const char* flag, uint64_t min, const char* doc) {
  command->add_option_function<std::string>(flag, [&target, flag, min](const std::string& text) {
    try {
      target = CountValue{min, UINT64_MAX}.read(scalar_tree(text));
    } catch (const std::invalid_argument& error) {
      throw CLI::ValidationError(flag, error.what());
    }
  }, doc)->type_name("");
}

// A flag whose value is read by `read`, each time it is met.
template <typename Read>
void add_read_flag(CLI::App* command, const char* flag, const char* doc, const Read& read) {
  command->add_option_function<std::string>(flag, read, doc)->type_name("")->trigger_on_parse();
}

// An event of the scenario, each time its flag is met.
void add_event_flag(CLI::App* command, Scenario& scenario, void (Scenario::*add)(const std::string&), const char* flag,
                    const char* doc) {
  add_read_flag(command, flag, doc, [&scenario, add, flag](const std::string& text) {
    try {
      (scenario.*add)(text);
    } catch (const std::invalid_argument& error) {
      throw CLI::ValidationError(flag, error.what());
    }
  });
}

void add_scenario_flags(CLI::App* command, Scenario& scenario) {
  add_event_flag(command, scenario, &Scenario::add_kill, "--kill",
                 "AGENT@SECONDS or AGENT@stepN: that agent is killed then (repeatable; agents count from 0)");
  add_event_flag(command, scenario, &Scenario::add_join, "--join",
                 "@SECONDS or @stepN: a newcomer joins then, with the data of the one killed last (repeatable)");
  add_event_flag(command, scenario, &Scenario::add_pause, "--pause",
                 "AGENT@SECONDS+SECONDS or AGENT@stepN+SECONDS: when and how long it stands still (repeatable)");
}

void add_swarm(CLI::App& app, Cli& cli) {
  CLI::App* command =
      app.add_subcommand("swarm", "a whole swarm on this machine: registry, agents, live table, report");
  add_common_flags(command, cli);
  command->get_option("--config")->required();
  SwarmOptions& swarm = cli.swarm;
  command->add_option("--agents", swarm.agents, "how many")->type_name("")->check(CLI::Range(1, 64));
  command->add_option("--out", swarm.out, "folder for the report and the logs")->type_name("")->required();
  add_count_flag(command, swarm.steps, "--steps", 1, "swarm.stop_after");
  add_count_flag(command, swarm.rng_seed, "--seed", 0, "swarm.rng_seed");
  add_scenario_flags(command, swarm.scenario);
  command->add_flag("!--no-baselines", swarm.baselines, "skip the agents alone and the one with all data");
  command->callback([&cli] { cli.command = CommandKind::kSwarm; });
}

Duration read_duration(const std::string& flag, const std::string& text) {
  const auto duration = parse_duration(text);
  if (duration) return *duration;
  throw CLI::ValidationError(flag, "expected a time with its unit such as 10ms (us, ms, s, m, h), found '" + text +
                             "'");
}

// Bytes a second from "100mbit"; 0 = no limit.
double read_rate(const std::string& text) {
  if (text == "unlimited") return 0;
  constexpr std::pair<const char*, double> kUnits[] = {{"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}};
  for (const auto& [unit, bits] : kUnits) {
    if (!text.ends_with(unit)) continue;
    const auto value = read_number<double>(text.substr(0, text.size() - 4));
    if (value && *value > 0 && *value < 1e9) return *value * bits / 8;
  }
  throw CLI::ValidationError("--rate", "expected a rate such as 100mbit (kbit, mbit, gbit) or 'unlimited', found '" +
                             text + "'");
}

std::vector<double> read_speeds(const std::string& text) {
  std::vector<double> speeds;
  for (size_t from = 0; from <= text.size();) {
    const size_t to = std::min(text.find(',', from), text.size());
    const auto speed = read_number<double>(text.substr(from, to - from));
    if (!speed || !(*speed >= 1e-3 && *speed <= 1e3)) {
      throw CLI::ValidationError("--speeds", "expected factors on --compute from 0.001 to 1000 with commas, such as "
                                 "1,1,4, found '" + text + "'");
    }
    speeds.push_back(*speed);
    from = to + 1;
  }
  return speeds;
}

void add_simulate(CLI::App& app, Cli& cli) {
  CLI::App* command = app.add_subcommand(
      "simulate", "many agents in one process on virtual time and links; all-reduce and others beside them");
  add_common_flags(command, cli);
  command->get_option("--config")->required();
  SimulateOptions& simulate = cli.simulate;
  command->add_option("--agents", simulate.agents, "how many; 8")->type_name("")->check(CLI::Range(1, 1024));
  command->add_option("--out", simulate.out, "folder for curve.csv, summary.json and report.html")
      ->type_name("")->required();
  add_count_flag(command, simulate.steps, "--steps", 1, "swarm.stop_after");
  add_count_flag(command, simulate.rng_seed, "--seed", 0, "swarm.rng_seed, and all chance of the links");
  add_read_flag(command, "--seconds", "S of virtual time, then it ends", [&simulate](const std::string& text) {
    const auto seconds = read_seconds(text);
    if (!seconds || *seconds == 0) {
      throw CLI::ValidationError("--seconds", "expected seconds of virtual time such as 30, found '" + text + "'");
    }
    simulate.duration = from_seconds(*seconds);
  });
  add_read_flag(command, "--every", "SECONDS of virtual time between two evaluations; a twentieth of the steps",
                [&simulate](const std::string& text) {
    const auto seconds = read_seconds(text);
    if (!seconds || *seconds == 0) {
      throw CLI::ValidationError("--every", "expected seconds of virtual time such as 0.5, found '" + text + "'");
    }
    simulate.every = from_seconds(*seconds);
  });
  add_read_flag(command, "--latency", "of every link, one way; 10ms",
                [&simulate](const std::string& text) { simulate.latency = read_duration("--latency", text); });
  add_read_flag(command, "--jitter", "up to so much more; 0s",
                [&simulate](const std::string& text) { simulate.jitter = read_duration("--jitter", text); });
  add_read_flag(command, "--rate", "of every link: 100mbit | 1gbit | unlimited",
                [&simulate](const std::string& text) { simulate.bytes_per_s = read_rate(text); });
  add_read_flag(command, "--loss", "probability that a frame is lost; 0", [&simulate](const std::string& text) {
    const auto loss = read_number<double>(text);
    if (!loss || !(*loss >= 0 && *loss < 1)) {
      throw CLI::ValidationError("--loss", "expected a probability such as 0.01, found '" + text + "'");
    }
    simulate.loss = *loss;
  });
  add_read_flag(command, "--compute", "virtual time of one step; 20ms",
                [&simulate](const std::string& text) { simulate.compute = read_duration("--compute", text); });
  add_read_flag(command, "--speeds", "1,1,4: factors on --compute by agent, repeated (4 = 4x slower)",
                [&simulate](const std::string& text) { simulate.speeds = read_speeds(text); });
  add_scenario_flags(command, simulate.scenario);
  add_read_flag(command, "--baseline", "none | allreduce | local-sgd | parameter-server | asgd | serial (repeatable)",
                [&simulate](const std::string& text) { simulate.baselines.push_back(text); });
  command->callback([&cli] { cli.command = CommandKind::kSimulate; });
}

void add_files(CLI::App& app, Cli& cli) {
  CLI::App* init = app.add_subcommand("init", "writes a commented config to start from");
  init->add_option("--task", cli.init_task, "digits | cifar10")->type_name("")->required();
  init->add_option("file", cli.init_path, "where to")->type_name("")->required();
  init->callback([&cli] { cli.command = CommandKind::kInit; });
  CLI::App* check = app.add_subcommand("check", "reads a config and says what is wrong with it");
  check->add_option("file,--config", cli.config_path, "YAML file")->type_name("")->required();
  check->callback([&cli] { cli.command = CommandKind::kCheck; });
}

void add_topology(CLI::App& app, Cli& cli) {
  CLI::App* command =
      app.add_subcommand("topology", "what a communication graph costs, how fast it averages, and its picture");
  TopologyOptions& topology = cli.topology;
  std::string kinds = "all";
  for (const std::string& name : topology_names()) kinds += " | " + name;
  command->add_option("--kind", topology.kind, kinds + "; without it all are compared")->type_name("");
  add_count_flag(command, topology.agents, "--agents", 0, "how many; 16, or those that the file names");
  add_count_flag(command, topology.degree, "--degree", 0, "neighbors of each agent, for --kind regular; 4");
  add_count_flag(command, topology.rng_seed, "--seed", 0, "of the random kinds; 1");
  add_count_flag(command, topology.params, "--params", 0, "numbers in the model; 10000000");
  command->add_option("--codec", topology.codec, codec_choices(" | "))->type_name("");
  command->add_option("--file", topology.file, "edges for --kind file: two names a line, # for comments")
      ->type_name("");
  command->add_option("--svg", topology.svg, "draws into this file, not into the terminal")->type_name("");
  command->callback([&cli] { cli.command = CommandKind::kTopology; });
}

std::string suggest(const std::string& wrong, const std::vector<std::string>& words) {
  const std::string nearest = nearest_word(wrong, words);
  return nearest.empty() ? "" : "; did you mean '" + nearest + "'?";
}

std::string describe_unknown_command(const CLI::App& app, const std::string& name) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return "no command '" + name + "'" + suggest(name, names);
}

const CLI::App* find_command(const CLI::App& app, const std::string& name) {
  for (const CLI::App* command : app.get_subcommands({})) {
    if (command->get_name() == name) return command;
  }
  return nullptr;
}

// The first flag in `argv` that this command does not have; empty: all are known.
std::string describe_unknown_flag(const CLI::App& command, int argc, const char* const* argv) {
  std::vector<std::string> flags = {"--help"};
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  for (int i = 2; i < argc; ++i) {
    const std::string text = argv[i];
    const std::string flag = text.substr(0, text.find('='));
    if (!flag.starts_with("--") || std::find(flags.begin(), flags.end(), flag) != flags.end()) continue;
    return "'starling " + command.get_name() + "' has no flag " + flag + suggest(flag, flags);
  }
  return {};
}

// What is wrong, and where to look it up.
std::string describe_usage_error(const CLI::App& app, const CLI::ParseError& error, int argc, const char* const* argv) {
  std::string text = error.what(), help = "starling --help";
  const CLI::App* command = argc > 1 ? find_command(app, argv[1]) : nullptr;
  if (command != nullptr) {
    help = "starling " + command->get_name() + " --help";
    const std::string unknown = describe_unknown_flag(*command, argc, argv);
    if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !unknown.empty()) text = unknown;
  } else if (argc > 1) {
    text = describe_unknown_command(app, argv[1]);
  }
  return text + "\n(" + help + " lists what there is)";
}

}  // namespace

Cli parse_cli(int argc, const char* const* argv, const std::string& program) {
  Cli cli;
  CLI::App app{"Starling trains one model on many machines, without a server.", "starling"};
  app.set_version_flag("--version", kVersion);
  app.require_subcommand(1);
  add_agent(app, cli);
  add_bootstrap(app, cli);
  add_swarm(app, cli);
  add_simulate(app, cli);
  add_files(app, cli);
  add_topology(app, cli);
  app.footer("A first swarm:\n  starling init --task digits swarm.yaml\n"
             "  starling agent --config swarm.yaml --data FOLDER\n"
             "  starling agent --bootstrap HOST:PORT --data FOLDER     on every further machine");
  try {
    if (argc < 2) throw CLI::CallForHelp();
    const char* level = std::getenv("STARLING_LOG_LEVEL");
    if (level != nullptr && *level != '\0') cli.log_level = read_log_level("STARLING_LOG_LEVEL", level);
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    cli.command = CommandKind::kShown;
    if (error.get_exit_code() == 0) {
      app.exit(error, std::cout, std::cerr);   // help or version
      return cli;
    }
    std::cerr << "starling: " << describe_usage_error(app, error, argc, argv) << "\n";
    cli.exit_status = 2;
    return cli;
  }
  cli.swarm.program = program;
  cli.swarm.config_path = cli.config_path;
  cli.swarm.overrides = cli.overrides;
  cli.simulate.config_path = cli.config_path;
  cli.simulate.overrides = cli.overrides;
  return cli;
}

}  // namespace starling
