// Which swarm this agent is in: the settings that all its members agreed on, where they came from, and whether this
// agent can draw the swarm's first params itself. The agreed text is the router's; its hash is the swarm's id.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "agent/config/config.h"
#include "agent/train/model_kinds.h"
#include "agent/train/trainer.h"
#include "bootstrap/router.h"

namespace starling {

// `own` with what the settings that a swarm began with say where it leaves the choice, or where only the end differs.
SwarmConfig as_agreed(SwarmConfig own, const SwarmConfig& agreed);

class AgreedSwarm {
 public:
  // The signature of the swarm's key for a text that this agent brings; empty: the swarm is open, or it has none.
  using Sign = std::function<std::string(const std::string& settings)>;
  // `router` outlives the object. `sign`: null for an open swarm.
  explicit AgreedSwarm(Router& router, Sign sign = nullptr) : router_(router), sign_(std::move(sign)) {}

  // The settings of this agent's config, or `stored`: the agreed text of an earlier life in its state folder (empty:
  // none). The stored text counts if the config means the same, even if it is written differently or by another
  // version; throws std::runtime_error if it means another swarm. False: there are neither; they have to be adopted.
  [[nodiscard]] bool take_own(const Config& config, const std::string& stored);
  // The text of the members that this agent has contacted, with the signature that came with it.
  void adopt(const std::string& text, const std::string& signature = {});
  // A member has the same settings in other words: its text is the older one, and names the swarm.
  void take_words(const std::string& text, const std::string& signature = {});

  // False: the first params have to be drawn, as the agreed text has their hash and nobody has said it.
  bool knows_genesis() const { return !genesis_hash_.empty(); }
  // The trainer holds its first params. If there is no agreed text yet, this agent brings the settings.
  void genesis_drawn(const std::string& own_hash);
  bool has_drawn() const { return !own_genesis_hash_.empty(); }
  // For people: why this agent cannot make the swarm's first params itself. Empty: it can, or has not tried.
  std::string genesis_problem() const;

  const SwarmConfig& config() const { return config_; }
  bool adopted() const { return adopted_; }  // the settings came from another member
  bool trains_alone() const { return config_.exchange.kind == ExchangeKind::kNone; }

 private:
  void take_wait(uint32_t agreed);
  void bring(const std::string& text) { router_.set_settings(text, sign_ ? sign_(text) : ""); }
  bool is_attached() const { return model_kind(config_.model.kind).attached; }

  Router& router_;
  const Sign sign_;
  SwarmConfig config_;
  std::string own_genesis_hash_, genesis_hash_;  // hex; empty: not known yet
  bool adopted_ = false;
};

// Of the trainer's first params, which it draws if need be, as the agreed text has it. Worker thread.
std::string genesis_hash(Trainer& trainer);

}  // namespace starling
