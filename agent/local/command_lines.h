// The command lines of a local swarm's processes, all made in one place.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "agent/config/config.h"
#include "agent/local/options.h"

namespace starling {

// `options` must outlive it.
class SwarmCommandLines {
 public:
  // `config` is the result of the options. Throws std::runtime_error if the data is not there.
  SwarmCommandLines(const SwarmOptions& options, const Config& config);

  // What had to be done differently from the config, for people; empty if nothing.
  const std::string& remark() const { return remark_; }

  std::vector<std::string> bootstrap(const std::filesystem::path& dir, uint16_t port) const;
  // `bootstrap`: as of --bootstrap.
  std::vector<std::string> agent(const std::string& name, const std::filesystem::path& dir, uint32_t shard,
                                 const std::string& bootstrap) const;
  // Given only an address and its own data: it adopts the settings from the swarm's members.
  std::vector<std::string> joiner(const std::string& name, const std::filesystem::path& dir, uint32_t shard,
                                  const std::string& bootstrap) const;
  std::vector<std::string> alone(const std::string& name, const std::filesystem::path& dir, uint32_t shard) const;
  std::vector<std::string> central(const std::string& name, const std::filesystem::path& dir) const;

 private:
  std::vector<std::string> configured(const std::string& name, const std::filesystem::path& dir) const;
  std::string shard_text(uint32_t shard) const;

  const SwarmOptions& options_;
  Config config_;
  std::string data_path_;  // empty: the model needs none
  std::string sharding_;
  std::string remark_;
};

// --set, --steps and --seed, as overrides of config keys.
std::vector<std::string> swarm_overrides(const SwarmOptions& options);

}  // namespace starling
