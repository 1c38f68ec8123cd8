#include "agent/run/agreed_swarm.h"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "agent/config/settings.h"
#include "gossip/net/hash.h"
#include "kernels/transfer.h"

namespace starling {

std::string genesis_hash(Trainer& trainer) {
  trainer.draw_genesis();
  const HostValues params(trainer.params());
  std::string hex;
  for (uint8_t byte : blake2b_256(std::as_bytes(params.all()))) hex += fmt::format("{:02x}", byte);
  return hex;
}

SwarmConfig as_agreed(SwarmConfig own, const SwarmConfig& agreed) {
  if (!own.exchange.clip) own.exchange.clip = agreed.exchange.clip;  // its default was another before
  if (own.exchange.deadline_max == kDeadlineAuto) own.exchange.deadline_max = agreed.exchange.deadline_max;
  if (agreed.stop_after > 0) own.stop_after = std::min(own.stop_after, agreed.stop_after);  // prolonged
  return own;
}

bool AgreedSwarm::take_own(const Config& config, const std::string& stored) {
  config_ = config.swarm;
  if (stored.empty()) {
    if (config.has_swarm) config_.exchange.deadline_max = longest_deadline(config_);
    return config.has_swarm;
  }
  const AgreedSettings agreed = parse_agreed_settings(stored);
  SwarmConfig& own = config_;
  own = as_agreed(own, agreed.swarm);
  if (config.has_swarm && !same_settings(own, agreed.swarm)) {
    throw std::runtime_error(fmt::format(
        "the state folder {} belongs to another swarm than the config:\n{}\n(Here: the config; there: the folder.) "
        "Nothing was changed. To go on with that swarm, undo the changes or start without --config. To begin another "
        "swarm, name a new folder with --state.",
        config.agent.state, describe_difference(agreed_settings(own, agreed.genesis_hash_hex), stored)));
  }
  bring(stored);
  genesis_hash_ = agreed.genesis_hash_hex;
  if (config.has_swarm) take_wait(agreed.swarm.wait_for);
  config_ = agreed.swarm;
  return true;
}

void AgreedSwarm::take_words(const std::string& text, const std::string& signature) {
  router_.set_settings(text, signature);
  take_wait(parse_agreed_settings(text).swarm.wait_for);
}

void AgreedSwarm::take_wait(uint32_t agreed) {
  if (config_.wait_for == agreed) return;
  spdlog::warn("swarm.wait_for: {} of this agent is ignored: the swarm was begun with {}", config_.wait_for, agreed);
  config_.wait_for = agreed;
}

void AgreedSwarm::adopt(const std::string& text, const std::string& signature) {
  router_.set_settings(text, signature);
  adopted_ = true;
  const AgreedSettings agreed = parse_agreed_settings(text);
  config_ = agreed.swarm;
  genesis_hash_ = agreed.genesis_hash_hex;
  router_.membership().set_options(config_.membership);
  spdlog::info("adopted the settings of swarm '{}' (id {:016x}), model {}", config_.name, router_.swarm_id(),
               config_.model.kind);
}

void AgreedSwarm::genesis_drawn(const std::string& own_hash) {
  own_genesis_hash_ = own_hash;
  if (!genesis_hash_.empty()) return;
  genesis_hash_ = own_hash;
  bring(agreed_settings(config_, own_hash));
}

std::string AgreedSwarm::genesis_problem() const {
  if (own_genesis_hash_ == genesis_hash_ || own_genesis_hash_.empty()) return "";
  if (is_attached()) return "the weights that this loop began with are not the swarm's";
  return fmt::format(
      "this agent cannot make the swarm's first params ({:.8}; it makes {:.8}): the swarm was begun from a trained "
      "model, "
      "or its settings were edited or come from a build or machine that computes otherwise",
      genesis_hash_, own_genesis_hash_);
}

}  // namespace starling
