#include "agent/share/make_exchange.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "gossip/exchange/pairwise_finalizer.h"
#include "gossip/group/group.h"
#include "gossip/neighborhood/neighborhood.h"
#include "gossip/pairs/async_pairs.h"
#include "gossip/pairs/sync_pairs.h"

namespace starling {
namespace {

ExchangeOptions common_options(const ExchangeContext& context) {
  const std::vector<Block>& blocks = context.encoder.layout().blocks;
  const auto is_params = [](const Block& block) { return block.section == 0; };
  const auto params = std::count_if(blocks.begin(), blocks.end(), is_params);
  const ExchangeConfig& exchange = context.swarm.exchange;
  return {context.self, exchange.deadline_min, exchange.deadline_max, static_cast<size_t>(params)};
}

// Of auto: after several steps, and among many, one exchange does not bring agents with different data close enough to
// learn. That their data differ shows only in the momentum, which travels for that.
void set_turns(const SwarmConfig& swarm, PairwiseOptions& options) {
  const ExchangeConfig& exchange = swarm.exchange;
  const bool several_steps = swarm.local_steps > 1 || swarm.round > Duration::zero();
  const uint64_t of_many = exchange.carry_momentum ? 2 : 1;
  options.turns = exchange.turns > 0 ? exchange.turns : several_steps ? of_many : 1;
  options.turns_of_many = exchange.turns > 0 ? exchange.turns : of_many;
}

template <class Pairs>
std::unique_ptr<Pairs> make_pairs(const ExchangeContext& context, ExchangeParts& parts) {
  const ExchangeConfig& exchange = context.swarm.exchange;
  PairwiseOptions options{common_options(context), context.generation, clip_of(exchange), exchange.fragments};
  set_turns(context.swarm, options);
  auto pairs = std::make_unique<Pairs>(options, context.encoder.layout(), context.encoder.codec(), context.worker,
                                       context.clock, context.outbox, &context.sampler);
  parts.pairs_status = [made = pairs.get()] { return made->pairs_status(); };
  return pairs;
}

// Turns keep the trainer waiting, so they do not go with `overlap: on`.
std::unique_ptr<Exchange> make_pairwise(const ExchangeContext& context, ExchangeParts& parts) {
  if (context.swarm.exchange.overlap == Overlap::kOn) return make_pairs<AsyncPairs>(context, parts);
  return make_pairs<SyncPairs>(context, parts);
}

// Rounds of a duration have more steps at fast members, which only unequal masses tell.
bool tells_steps(const SwarmConfig& swarm) { return swarm.round == Duration::zero() || swarm.weight != "equal"; }

// How many times the usual distance a model is away that a group leaves out; 0: no guard.
double far_for(const SwarmConfig& swarm) {
  if (swarm.exchange.source != SourceKind::kParams) return 0;  // changes of a round are no models
  return tells_steps(swarm) ? GroupGuard::kFar : GroupGuard::kFarOfFew;
}

std::unique_ptr<Neighborhood> make_neighborhood(const ExchangeContext& context) {
  return std::make_unique<Neighborhood>(common_options(context), tells_steps(context.swarm), context.encoder.layout(),
                                        context.encoder.codec(), context.worker, context.clock, context.outbox,
                                        context.sampler);
}

std::unique_ptr<Group> make_group(const ExchangeContext& context, ExchangeParts& parts) {
  const SwarmConfig& swarm = context.swarm;
  const GroupOptions options{common_options(context), swarm.exchange.inject_loss, swarm.rng_seed};
  parts.host_codec = make_codec(swarm.exchange.codec, MemorySpace::kHost);
  auto group = std::make_unique<Group>(options, far_for(swarm), context.encoder.layout(), *parts.host_codec,
                                       context.worker, context.clock, context.outbox, context.sampler);
  parts.group_status = [made = group.get()] { return made->counters(); };
  return group;
}

std::unique_ptr<Exchange> settling_in_pairs(std::unique_ptr<Exchange> rounds, const ExchangeContext& context,
                                            ExchangeParts& parts) {
  if (!settles_in_pairs(context.swarm)) return rounds;
  return std::make_unique<PairwiseFinalizer>(std::move(rounds), make_pairwise(context, parts));
}

}  // namespace

void require_blocks(const ExchangeConfig& exchange, size_t elements, size_t blocks) {
  if (blocks >= exchange.fragments) return;
  const std::string cut = "swarm.exchange.fragments: " + std::to_string(exchange.fragments) +
                          " need as many blocks, and " + std::to_string(elements) + " params in blocks of " +
                          std::to_string(exchange.block) + " are " + std::to_string(blocks) + "; write ";
  constexpr size_t kSmallestBlock = 64;  // of the key `block`
  const size_t block = elements / exchange.fragments;
  throw std::runtime_error(cut + (block >= kSmallestBlock ? "block: " + std::to_string(block) : "fewer fragments"));
}

ExchangeParts make_exchange(const ExchangeContext& context) {
  const ExchangeConfig& exchange = context.swarm.exchange;
  if (exchange.source == SourceKind::kGradients && context.space != MemorySpace::kHost) {
    throw std::runtime_error("swarm.exchange.source: gradients is a baseline for the CPU; start with --device cpu");
  }
  ExchangeParts parts;
  switch (exchange.kind) {
    case ExchangeKind::kNone: break;
    case ExchangeKind::kPairwise:
      require_blocks(context.swarm.exchange, context.encoder.layout().sections[0].element_count,
                     common_options(context).param_blocks);
      parts.exchange = make_pairwise(context, parts);
      break;
    case ExchangeKind::kNeighborhood:
      parts.exchange = settling_in_pairs(make_neighborhood(context), context, parts);
      break;
    case ExchangeKind::kGroup: parts.exchange = settling_in_pairs(make_group(context, parts), context, parts); break;
  }
  return parts;
}

// Changes of a round are no models, and do not settle.
bool settles_in_pairs(const SwarmConfig& swarm) {
  const ExchangeConfig& exchange = swarm.exchange;
  const bool in_rounds = exchange.kind == ExchangeKind::kGroup || exchange.kind == ExchangeKind::kNeighborhood;
  return in_rounds && exchange.source == SourceKind::kParams;
}

double settling_far_for(const SwarmConfig& swarm) {
  if (settles_in_pairs(swarm)) return far_for(swarm);
  return clip_of(swarm.exchange);
}

bool guards_by_drift(const SwarmConfig& swarm) {
  switch (swarm.exchange.kind) {
    case ExchangeKind::kPairwise: return clip_of(swarm.exchange) > 0;
    case ExchangeKind::kNeighborhood: return tells_steps(swarm);
    case ExchangeKind::kGroup: return far_for(swarm) > 0;
    default: return false;
  }
}

std::unique_ptr<UpdateExchange> make_update_exchange(const UpdateContext& context) {
  const ExchangeConfig& exchange = context.swarm.exchange;
  UpdateGroupOptions options;
  options.self = context.self;
  options.generation = context.generation;
  options.deadline_min = exchange.deadline_min;
  options.deadline_max = exchange.deadline_max;
  options.outer = context.model.outer();
  options.first_norm_max = static_cast<float>(exchange.update_first_norm_max);
  options.last_first = exchange.update_pipeline;
  options.merge = exchange.update_merge;
  options.inject_loss = exchange.inject_loss;
  options.rng_seed = context.swarm.rng_seed;
  auto made =
      std::make_unique<UpdateExchange>(options, context.model.slices(), context.model.memory(), context.model.codecs(),
                                       context.worker, context.clock, context.outbox, context.sampler);
  if (!context.model.restored().empty()) made->group().restore(context.model.restored());
  context.model.follow(made->group().replicas());
  return made;
}

}  // namespace starling
