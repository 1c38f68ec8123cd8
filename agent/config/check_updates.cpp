#include "agent/config/check_updates.h"

#include <string>

#include "agent/config/fields.h"
#include "agent/config/mistakes.h"
#include "gossip/exchange/options.h"

namespace starling {
namespace {

// What the log of updates (gossip/updates) cannot carry.
void refuse_updates(const SwarmConfig& swarm) {
  const ExchangeConfig& exchange = swarm.exchange;
  Mistakes mistakes("swarm.exchange.source: updates: ");
  const bool grouped = exchange.kind == ExchangeKind::kGroup || exchange.kind == ExchangeKind::kNone;
  mistakes.add_if(!grouped,
                  "updates hold replicas together only where all apply the same bytes: in one group; write "
                  "kind: group");
  mistakes.add_if(exchange.carry_momentum,
                  "an optimizer's momentum stays with its agent, which has steps of its own; "
                  "write share: [params]");
  mistakes.refuse();
}

// A vote counts heads: what a member's mass would say is lost in it.
void refuse_vote(const SwarmConfig& swarm) {
  const ExchangeConfig& exchange = swarm.exchange;
  if (!shares_updates(exchange) || exchange.update.kind != UpdateKind::kSign || swarm.weight == "equal") return;
  throw ConfigError("swarm.exchange.update.codec: sign: a vote counts every member once, and weight: " + swarm.weight +
                    " would not; write weight: equal, or codec: sign_ef");
}

// The momentum is the codec's: a second one would be of the first.
void refuse_two_momenta(const SwarmConfig& swarm) {
  const ExchangeConfig& exchange = swarm.exchange;
  const bool is_dgc = exchange.update.kind == UpdateKind::kDgc;
  const bool in_sketch = exchange.update.kind == UpdateKind::kSketch && momentum_of(exchange.update) > 0;
  if (!shares_updates(exchange) || (!is_dgc && !in_sketch)) return;
  const std::string instead = is_dgc ? ", or codec: topk" : ", or update.momentum: 0";
  Mistakes mistakes("swarm.exchange.update.codec: " + std::string(update_name(exchange.update.kind)) + ": ");
  mistakes.add_if(swarm.optimizer.kind != "sgd", "its momentum is of gradients, and " + swarm.optimizer.kind +
                                                     " has moments of its own; write "
                                                     "optimizer.kind: sgd" +
                                                     instead);
  mistakes.add_if(swarm.optimizer.kind == "sgd" && swarm.optimizer.momentum > 0,
                  "it brings the momentum (update.momentum); write optimizer.momentum: 0" + instead);
  mistakes.add_if(exchange.outer_momentum > 0,
                  "it brings the momentum (update.momentum); write outer.momentum: 0" + instead);
  mistakes.refuse();
}

// The owner asks for what its tables say is large; with more candidates than elements it would ask for all of them.
void refuse_sketch(const ExchangeConfig& exchange) {
  if (!shares_updates(exchange) || exchange.update.kind != UpdateKind::kSketch) return;
  if (exchange.update.density * exchange.update.candidates <= 1) return;
  throw ConfigError("swarm.exchange.update.candidates: " + std::to_string(exchange.update.candidates) +
                    " times the elements of an entry are more than a slice has, so the tables would choose nothing; "
                    "write a smaller density or fewer candidates, or codec: bf16");
}

void refuse_outer(const ExchangeConfig& exchange) {
  constexpr double kOverlapMomentumMax = 0.5;  // no experiment has shown that more is stable
  const bool steps = exchange.outer_momentum > 0 || exchange.outer_rate != 1;
  const bool of_params = !shares_updates(exchange) && exchange.kind != ExchangeKind::kNone;
  Mistakes mistakes("swarm.exchange.");
  mistakes.add_if(steps && of_params,
                  "outer: only merged updates are steps of an outer rule; write kind: group and "
                  "source: updates, or leave it out");
  mistakes.add_if(exchange.update.kind != UpdateKind::kFp32 && of_params,
                  "update.codec: read only with kind: group and source: updates or gradients");
  mistakes.add_if(exchange.outer_momentum > kOverlapMomentumMax && exchange.overlap != Overlap::kOff,
                  "outer.momentum: above 0.5 it is not known to be stable where entries come a round late; write "
                  "overlap: off");
  mistakes.refuse();
}

void refuse_gradients(const SwarmConfig& swarm) {
  const ExchangeConfig& exchange = swarm.exchange;
  Mistakes mistakes("swarm.exchange.source: gradients: ");
  mistakes.add_if(exchange.kind != ExchangeKind::kGroup,
                  "gradients hold replicas together only where all apply the same bytes: in one group; write kind: "
                  "group, or source: params");
  mistakes.add_if(swarm.local_steps != 1 || swarm.round > Duration::zero(),
                  "a gradient is of one step; write local_steps: 1");
  mistakes.add_if(exchange.overlap != Overlap::kOff, "a gradient is of the params it was taken at; write overlap: off");
  mistakes.add_if(exchange.carry_momentum,
                  "the momentum of shared gradients is the same everywhere; write share: [params]");
  mistakes.add_if(exchange.repair && swarm.optimizer.kind == "adamw",
                  "adamw divides by moments of each agent's own gradients, so their mean is no gradient; write "
                  "source: updates, or optimizer.kind: sgd");
  mistakes.refuse();
}

// With more than one step a round no gradient is ready before the last step.
void refuse_pipeline(const ExchangeConfig& exchange) {
  if (exchange.update_merge && !exchange.update_pipeline) {
    throw ConfigError(
        "swarm.exchange.update.merge: auto: slices that are all sent when the step has ended need no "
        "plan; write pipeline: on, or merge: off");
  }
  if (!exchange.update_pipeline) return;
  Mistakes mistakes("swarm.exchange.update.pipeline: on: ");
  mistakes.add_if(exchange.source != SourceKind::kGradients || !shares_updates(exchange),
                  "only the gradient of a round's one step is ready piece by piece; write source: gradients and "
                  "local_steps: 1, or pipeline: off");
  mistakes.add_if(exchange.update.kind == UpdateKind::kSketch,
                  "codec sketch asks for elements when the round has begun; write codec: topk, or pipeline: off");
  mistakes.add_if(exchange.update.kind == UpdateKind::kDgc && exchange.update.clip > 0,
                  "update.norm_clip needs the norm of the whole gradient; write norm_clip: 0, or pipeline: off");
  mistakes.refuse();
}

}  // namespace

void refuse_unmergeable(const SwarmConfig& swarm) {
  Mistakes mistakes;
  const auto ask = [&](const auto& refuse, const auto& of) { mistakes.attempt([&] { refuse(of); }); };
  if (swarm.exchange.source == SourceKind::kGradients) ask(refuse_gradients, swarm);
  if (swarm.exchange.source == SourceKind::kUpdates) ask(refuse_updates, swarm);
  ask(refuse_vote, swarm);
  ask(refuse_two_momenta, swarm);
  ask(refuse_sketch, swarm.exchange);
  ask(refuse_outer, swarm.exchange);
  ask(refuse_pipeline, swarm.exchange);
  mistakes.refuse();
}

}  // namespace starling
