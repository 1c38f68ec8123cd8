#include "agent/local/command_lines.h"

#include <initializer_list>
#include <stdexcept>

#include "agent/config/values.h"
#include "agent/train/model_kinds.h"

namespace starling {
namespace {

namespace fs = std::filesystem;

void append(std::vector<std::string>& argv, std::initializer_list<std::string> more) { argv.insert(argv.end(), more); }

}  // namespace

std::vector<std::string> swarm_overrides(const SwarmOptions& options) {
  std::vector<std::string> overrides = options.overrides;
  if (options.steps) overrides.push_back("swarm.stop_after=" + std::to_string(*options.steps));
  if (options.rng_seed) overrides.push_back("swarm.rng_seed=" + std::to_string(*options.rng_seed));
  return overrides;
}

SwarmCommandLines::SwarmCommandLines(const SwarmOptions& options, const Config& config)
    : options_(options), config_(config), data_path_(config.agent.data.path), sharding_(config.agent.data.sharding) {
  if (!model_kind(config.swarm.model.kind).needs_data) {
    data_path_.clear();
    return;
  }
  if (data_path_.empty()) {
    throw std::runtime_error(options.config_path +
                             " names no data; set agent.data.path to a folder or file with data, or to "
                             "'generated'");
  }
  if (data_path_ == "generated" || fs::exists(data_path_)) return;
  // Drawn digits may stand in for the digits data set only; for a user's own data the result would mislead.
  if (fs::path(data_path_).filename() != "digits") {
    throw std::runtime_error("the data " + data_path_ + " (agent.data.path of " + options.config_path +
                             ") does not exist; correct the path, or use 'generated'");
  }
  remark_ = "the handwritten digits are not in " + data_path_ +
            " (tools/setup fetches them): this swarm trains on "
            "digits drawn by the program itself";
  data_path_ = "generated";
  config_.agent.data.test_path.clear();  // the drawn digits bring their own
}

std::string SwarmCommandLines::shard_text(uint32_t shard) const {
  return std::to_string(shard + 1) + "/" + std::to_string(options_.agents);
}

std::vector<std::string> SwarmCommandLines::bootstrap(const fs::path& dir, uint16_t port) const {
  return {options_.program,        "bootstrap", "--listen", "127.0.0.1:" + std::to_string(port), "--state",
          (dir / "state").string()};
}

std::vector<std::string> SwarmCommandLines::configured(const std::string& name, const fs::path& dir) const {
  std::vector<std::string> argv = {options_.program, "agent", "--config", options_.config_path};
  for (const std::string& override : swarm_overrides(options_)) append(argv, {"--set", override});
  append(argv, {"--name", name, "--listen", "127.0.0.1:0", "--state", (dir / "state").string(), "--metrics",
                (dir / "metrics.jsonl").string()});
  if (config_.agent.threads == 0) append(argv, {"--threads", "1"});  // the agents share this machine's cores
  if (!data_path_.empty()) append(argv, {"--data", data_path_});
  if (!remark_.empty()) append(argv, {"--set", "agent.data.test_path="});
  return argv;
}

std::vector<std::string> SwarmCommandLines::agent(const std::string& name, const fs::path& dir, uint32_t shard,
                                                  const std::string& bootstrap) const {
  std::vector<std::string> argv = configured(name, dir);
  append(argv, {"--bootstrap", bootstrap, "--shard", shard_text(shard)});
  append(argv, {"--wait-for", std::to_string(options_.agents)});
  return argv;
}

std::vector<std::string> SwarmCommandLines::joiner(const std::string& name, const fs::path& dir, uint32_t shard,
                                                   const std::string& bootstrap) const {
  std::vector<std::string> argv = {options_.program, "agent",
                                   "--bootstrap",    bootstrap,
                                   "--name",         name,
                                   "--listen",       "127.0.0.1:0",
                                   "--state",        (dir / "state").string(),
                                   "--metrics",      (dir / "metrics.jsonl").string()};
  append(argv, {"--threads", std::to_string(config_.agent.threads == 0 ? 1 : config_.agent.threads)});
  // Keys below `agent` are passed on. Keys below `swarm` are not: a joiner has to adopt the settings from the swarm.
  append(argv, {"--set", "agent.evaluate_every=" + print_duration(config_.agent.evaluate_every)});
  append(argv, {"--device", config_.agent.device, "--batch", std::to_string(config_.agent.batch)});
  for (const std::string& override : options_.overrides) {
    if (override.starts_with("agent.")) append(argv, {"--set", override});
  }
  append(argv, {"--shard", shard_text(shard)});
  if (data_path_.empty()) return argv;
  append(argv, {"--data", data_path_, "--sharding", sharding_});
  if (!config_.agent.data.test_path.empty()) {
    append(argv, {"--set", "agent.data.test_path=" + config_.agent.data.test_path});
  }
  if (sharding_ == "dirichlet")
    append(argv, {"--set", "agent.data.alpha=" + NumberValue::print(config_.agent.data.alpha)});
  const DataConfig& data = config_.agent.data;
  if (data.hold_out > 0) append(argv, {"--set", "agent.data.hold_out=" + NumberValue::print(data.hold_out)});
  if (!data.labels.empty()) append(argv, {"--set", "agent.data.labels=" + CountsValue::print(data.labels)});
  return argv;
}

std::vector<std::string> SwarmCommandLines::alone(const std::string& name, const fs::path& dir, uint32_t shard) const {
  std::vector<std::string> argv = configured(name, dir);
  append(argv, {"--set", "swarm.exchange.kind=none", "--shard", shard_text(shard)});
  return argv;
}

std::vector<std::string> SwarmCommandLines::central(const std::string& name, const fs::path& dir) const {
  std::vector<std::string> argv = configured(name, dir);
  append(argv, {"--set", "swarm.exchange.kind=none", "--sharding", "all"});
  return argv;
}

}  // namespace starling
