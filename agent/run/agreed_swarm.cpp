#include "agent/run/agreed_swarm.h"

#include <span>
#include <stdexcept>
#include <vector>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "agent/config/settings.h"
#include "gossip/net/hash.h"
#include "kernels/transfer.h"

namespace starling {

std::string genesis_hash(Trainer& trainer) {
  const View params = trainer.params();
  std::vector<float> values(params.count);
  copy_to_host(params, values.data());
  std::string hex;
  for (uint8_t byte : blake2b_256(std::as_bytes(std::span<const float>(values)))) hex += fmt::format("{:02x}", byte);
  return hex;
}

bool AgreedSwarm::take_own(const Config& config, const std::string& stored) {
  config_ = config.swarm;
  if (stored.empty()) return config.has_swarm;
  const AgreedSettings agreed = parse_agreed_settings(stored);
  SwarmConfig& own = config_;
  if (!own.exchange.clip) own.exchange.clip = agreed.swarm.exchange.clip;   // its default was another before
  if (config.has_swarm && !same_settings(own, agreed.swarm)) {
    throw std::runtime_error(fmt::format(
        "the state folder {} belongs to another swarm than the config:\n{}\n(Here: the config; there: the folder.) "
        "Nothing was changed. To go on with that swarm, undo the changes or start without --config. To begin another "
        "swarm, name a new folder with --state.", config.agent.state,
        describe_difference(agreed_settings(own, agreed.genesis_hash_hex), stored)));
  }
  router_.set_settings(stored);
  genesis_hash_ = agreed.genesis_hash_hex;
  config_ = agreed.swarm;
  return true;
}

void AgreedSwarm::adopt(const std::string& text) {
  router_.set_settings(text);
  adopted_ = true;
  const AgreedSettings agreed = parse_agreed_settings(text);
  config_ = agreed.swarm;
  genesis_hash_ = agreed.genesis_hash_hex;
  router_.membership().set_options(config_.membership);
  spdlog::info("adopted the settings of swarm '{}' (id {:016x}): {} params by {}", config_.name, router_.swarm_id(),
               codec_name(config_.exchange.codec), config_.model.kind);
}

void AgreedSwarm::genesis_drawn(const std::string& own_hash) {
  own_genesis_hash_ = own_hash;
  if (!genesis_hash_.empty()) return;
  genesis_hash_ = own_hash;
  router_.set_settings(agreed_settings(config_, own_hash));
}

std::string AgreedSwarm::genesis_problem() const {
  if (own_genesis_hash_ == genesis_hash_ || own_genesis_hash_.empty()) return "";
  return fmt::format("from the swarm's settings this program makes the genesis {:.8}, but they name {:.8}: they were "
                     "edited, or come from a build or machine that computes otherwise. This agent cannot begin alone",
                     own_genesis_hash_, genesis_hash_);
}

}  // namespace starling
