// The typed configuration. Two halves: `swarm:` is what all members agree on (a joiner adopts it from any member),
// `agent:` is this machine's own. The options of a part are declared with that part; this file puts them together.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "agent/data/options.h"
#include "agent/train/options.h"
#include "gossip/clock.h"
#include "gossip/exchange/options.h"
#include "gossip/exchange/topology.h"
#include "gossip/membership/options.h"
#include "gossip/net/ticket.h"
#include "gossip/peer.h"

namespace starling {

// ---------------------------------------------------------------- swarm

// Which agents get in. kAuto: all, unless a ticket is given. kTicket: those with the ticket that all share.
// kCertified: those with one of their own, which the holder of the swarm's key makes. Both encrypt links.
enum class Trust { kAuto, kOpen, kTicket, kCertified };

struct TrustConfig {
  Trust kind = Trust::kAuto;
  PeerId key{};  // of a swarm with tickets: the public half of its key; zero: not made yet
  bool has_tickets() const { return kind == Trust::kTicket || kind == Trust::kCertified; }
  bool operator==(const TrustConfig&) const = default;
};

struct SwarmConfig {
  std::string name = "starling";
  uint64_t rng_seed = 1;
  ModelConfig model;
  OptimizerConfig optimizer;
  std::string weight = "uniform";  // uniform: every agent counts the same, however fast | data: in proportion to its
                                   // data | equal: every model the same, so fast agents count more
  uint32_t local_steps = 1;        // optimizer steps between two exchanges
  uint32_t batch = 64;             // default for agents that name none
  uint64_t stop_after = 0;         // steps on the swarm's clock (median over living agents); 0 = never
  uint32_t wait_for = 1;           // agents there before the swarm's first step; the first agent's value counts
  double final_distance = 0.02;    // settle until rms distance / rms params is below this
  Duration settle_max = std::chrono::seconds(10);
  Duration round{};  // a round lasts this long, whatever an agent's speed; 0: local_steps steps
  ExchangeConfig exchange;
  TopologySpec topology;  // pairwise and neighborhood; its rng_seed is the swarm's
  MembershipOptions membership;
  TrustConfig trust;
};

// ---------------------------------------------------------------- agent

struct AgentConfig {
  std::string name;                      // for people; empty: the first digits of its id
  Endpoint listen{"0.0.0.0", 7400};      // control port; bulk is the next one; port 0: any two
  std::optional<Endpoint> advertise;     // what others dial; default: listen, or this host's address if that is 0.0.0.0
  std::vector<Endpoint> bootstrap;       // any agent or registry of the swarm
  std::vector<Ticket> tickets;           // of those that came with one
  uint64_t swarm_id = 0;                 // the swarm to join; of a registry, the only one to serve; 0: any
  std::string state = "starling-state";  // folder: identity, checkpoints, lock
  std::string genesis;  // file with the first params of a swarm that this agent begins; empty: drawn from the seed
  Duration return_wait = std::chrono::minutes(10);  // of a member that starts again, for most of its peers
  std::string device = "auto";                      // auto | cpu | cuda
  uint32_t batch = 0;                               // 0: the swarm's
  uint32_t threads = 0;  // of the trainer on the CPU; 0: what is fastest, by trial: not exact
  Duration checkpoint_every = std::chrono::seconds(30);
  uint32_t checkpoint_keep = 3;
  Duration evaluate_every = std::chrono::seconds(5);  // 0: only at the end
  std::string metrics;                                // file for one JSON line per event; empty: none
  Duration metrics_every = std::chrono::seconds(1);   // exchanges are summed over it; 0: a line each
  double compute_ms = 0;  // pretend one step takes this long, of a network at least; 0: what it computes
  std::string layers;     // quadratic: pretend that backward ends layer by layer, as this table says
  DataConfig data;
};

struct Config {
  SwarmConfig swarm;
  std::optional<uint64_t> stop_after;  // swarm.stop_after where it is given: a member that starts again may prolong its
                                       // run by it. Without a file and other keys below `swarm` it is no settings
  bool has_swarm = false;  // false: adopt the settings of the first member that answers. Without a file an agent with
                           // bootstrap addresses brings none: its keys below `swarm` are ignored, with a notice
  AgentConfig agent;
};

// What is wrong, in which file and line, and what to do. Caught once, in main.
class ConfigError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// file < environment (STARLING_BOOTSTRAP, STARLING_LISTEN, STARLING_STATE) < overrides (later ones win): "a.b=c", or
// "--flag=c" where a key has a flag, so that an error names what was typed. An empty path means no file.
// Throws ConfigError: unknown key (with line and "did you mean"), wrong type, value out of range, refused combination.
// `notice` takes a line of each old name that was read.
using Notice = std::function<void(const std::string& line)>;
void log_notice(const std::string& line);  // at level warn
Config load_config(const std::string& path, const std::vector<std::string>& overrides,
                   const Notice& notice = log_notice);

// The same for a program that brings its own model: file, environment and overrides change `base`, and no key is left
// to the members, bootstrap or not.
Config load_config_over(Config base, const std::string& path, const std::vector<std::string>& overrides,
                        const Notice& notice = log_notice);

// The options of this machine's trainer in this swarm.
TrainerOptions trainer_options(const SwarmConfig& swarm, const AgentConfig& agent);

// Throws ConfigError if a graph or a group names an agent other than agent-0 to agent-(count - 1), or if so many agents
// cannot share what the swarm shares. Says nothing of none, which the commands refuse.
void refuse_absent(const SwarmConfig& swarm, size_t count);

// What the settings allow, but hardly learns from such data or hardly mixes where messages are lost, and what to write
// instead. Empty: nothing to say.
std::string foreseen_trouble(const SwarmConfig& swarm, const DataConfig& data);

// All values in effect, with comments; loads as the same config.
std::string print_config(const Config& config);

// "250ms", "5s", "2m", "1h". nullopt for anything else.
std::optional<Duration> parse_duration(const std::string& text);
std::string print_duration(Duration duration);

}  // namespace starling
