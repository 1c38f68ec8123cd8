// The subcommands. Each has one file that adds it to the command line and runs it to its end. They throw
// std::runtime_error (cause and remedy) for a wrong start; main catches it. The value is the process's exit status.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/commands/cli.h"
#include "agent/config/config.h"
#include "agent/local/options.h"
#include "agent/simulate/options.h"

namespace CLI {
class App;
}

namespace starling {

void add_agent(CLI::App& app, Cli& cli);
void add_bootstrap(CLI::App& app, Cli& cli);
void add_swarm(CLI::App& app, Cli& cli);
void add_simulate(CLI::App& app, Cli& cli);
void add_init(CLI::App& app, Cli& cli);
void add_check(CLI::App& app, Cli& cli);
void add_export(CLI::App& app, Cli& cli);
void add_eval(CLI::App& app, Cli& cli);
void add_topology(CLI::App& app, Cli& cli);
void add_plan(CLI::App& app, Cli& cli);
void add_status(CLI::App& app, Cli& cli);
void add_key(CLI::App& app, Cli& cli);
void add_admit(CLI::App& app, Cli& cli);
void add_revoke(CLI::App& app, Cli& cli);
void add_members(CLI::App& app, Cli& cli);

// In the order of `starling --help`.
inline constexpr void (*kCommands[])(CLI::App&, Cli&) = {add_agent, add_status, add_bootstrap, add_swarm,  add_simulate,
                                                         add_init,  add_check,  add_export,    add_eval,   add_topology,
                                                         add_plan,  add_key,    add_admit,     add_revoke, add_members};

// One agent until stop_after, Ctrl-C or for ever; process/exit_status.h has what it returns. In a file that needs
// LibTorch: the others reach it through Engines.
int run_agent_process(const Config& config);

struct AgentCommand {
  std::string config_path;
  std::vector<std::string> overrides;
  bool print_config = false;  // --print-config: says what is in effect, and ends
  bool alone = false;         // --alone: no waiting for the peers of an earlier life
};

struct BootstrapCommand {
  std::string config_path;
  std::vector<std::string> overrides;
};

struct StatusCommand {
  std::string address;                 // empty: of the agent that holds the state folder
  std::vector<std::string> overrides;  // --state, --swarm
  bool once = false, json = false;     // --once, --json
  std::string listen;                  // --listen; empty: any port of the address that leads to the other one
};

// Starts a registry and N agents as processes on loopback, shows one live table, kills and joins as told, runs the
// baselines, writes DIR/report.html and DIR/report.json. Exit 1 if any agent failed.
int run_swarm_command(const SwarmOptions& options);

struct InitCommand {
  std::string task;  // --task: digits | cifar10 | text | own
  std::string data;  // --data: of this agent; without a task or a model, what a model follows from
  std::string from;  // --from: a trained model, which goes into a file beside the config
  std::string path;
};

// Writes a commented config. Never overwrites.
int run_init_command(const InitCommand& command);

struct CheckCommand {
  std::string config_path;               // empty: none
  std::string data;                      // --data; empty: none
  bool json = false;                     // of the config alone
  std::vector<std::string> overrides{};  // --set, of the config
};

// Says what is wrong with a config, what a data set holds, and whether both fit.
int run_check_command(const CheckCommand& command);

// Writes the model of a state folder to a file that PyTorch reads. An agent may be running there.
struct ExportOptions {
  std::string state = AgentConfig().state;  // --state
  std::string path;                         // NAME.safetensors or NAME.pt
};

// Judges the model of a state folder on data. An agent may be running there.
struct EvalOptions {
  std::string state = AgentConfig().state;  // --state
  std::string data;                         // --data
  std::string device = "auto";              // --device
  bool json = false;                        // --json: an object for programs instead of text
};

// The rest is for a certified swarm. `state`: the folder with the swarm's key; of KeyCommand that of the agent.
struct KeyCommand { std::string state = AgentConfig().state; };

struct AdmitCommand {
  std::string id;                           // hex; empty with --new
  std::string state = AgentConfig().state;  // --state
  std::optional<PeerAddress> via{};         // --via; nullopt: the agent of the folder
  Duration lasts{};                         // --for; 0: for ever
  bool makes = false;                       // --new
  uint64_t count = 1;                       // --count
  std::string out = ".";                    // --out
};

struct RevokeCommand {
  std::string id;                           // hex, or its first digits
  std::string state = AgentConfig().state;  // --state
};

struct MembersCommand { std::string state = AgentConfig().state; };

struct TopologyOptions {
  std::string kind;                // --kind; empty: "file" where there is a file, else "all"
  std::optional<uint64_t> agents;  // --agents; absent: as many as the file names, else 16
  std::optional<uint64_t> degree;  // --degree, of regular
  uint64_t rng_seed = 1;           // --seed
  uint64_t params = 10'000'000;    // --params: the size of the model, for the bytes
  std::string codec = "fp32";      // --codec
  uint64_t fragments = 1;          // --fragments: an exchange sends one of so many parts of the model
  std::string update;              // --update: of a group that shares updates, a codec or "all"; empty: graphs
  std::optional<double> density;   // --density: of update codecs that send some elements
  std::string file;                // --file: edges by name
  std::string svg;                 // --svg FILE; empty: draws in the terminal
};

// Prints what a graph costs and how fast it averages, and draws it; "all" prints a line for each kind.
int run_topology_command(const TopologyOptions& options);

struct PlanOptions {
  std::string config_path;                          // --config: the model, where --layers names none
  std::vector<std::string> overrides;               // --set
  std::string layers;                               // --layers: a table of layers
  std::optional<Duration> backward;                 // --backward: of a step; absent: what the table says
  Duration latency = std::chrono::milliseconds(1);  // --link, one way
  double bytes_per_s = 125e6;                       // --link, of each direction of an agent's link; 0 = no limit
  uint64_t agents = 8;                              // --agents
  std::optional<std::string> codec;  // --codec; absent: the config's where it shares gradients, else topk
  std::optional<double> density;     // --density; likewise, else 0.01
  std::string form = "group";        // --form: group | collectives
  Duration occupancy = std::chrono::microseconds(30);  // --occupancy: of a processor, by one message
  std::string svg;                                     // --svg FILE: draws there too
  bool json = false;                                   // --json: figures for programs instead of text
};

// Prints which layers' gradients are best sent together, beside naive plans, and when what is computed and sent.
int run_plan_command(const PlanOptions& options);

// Writes curve.csv, summary.json, report.html and config.yaml into DIR. The same options give the same files.
int run_simulate_command(const SimulateOptions& options, const SimTaskFactory& make_task);

}  // namespace starling
