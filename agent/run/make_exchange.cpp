#include "agent/run/make_exchange.h"

#include <algorithm>
#include <stdexcept>

#include "gossip/exchange/group.h"
#include "gossip/exchange/groups_with_pairs.h"
#include "gossip/exchange/neighborhood.h"
#include "gossip/exchange/pairwise.h"

namespace starling {
namespace {

std::unique_ptr<Pairwise> make_pairwise(const ExchangeContext& context, const Codec& codec, size_t param_blocks) {
  const ExchangeConfig& exchange = context.swarm.exchange;
  PairwiseOptions options;
  options.self = context.self;
  options.generation = context.generation;
  options.deadline_min = exchange.deadline_min;
  options.deadline_max = exchange.deadline_max;
  options.clip = exchange.clip;
  options.param_blocks = param_blocks;
  return std::make_unique<Pairwise>(options, context.encoder.layout(), codec, context.worker, context.clock,
                                    context.outbox, &context.sampler);
}

std::unique_ptr<Neighborhood> make_neighborhood(const ExchangeContext& context, const Codec& codec,
                                                size_t param_blocks) {
  const ExchangeConfig& exchange = context.swarm.exchange;
  const NeighborhoodOptions options{context.self, exchange.deadline_min, exchange.deadline_max, param_blocks};
  return std::make_unique<Neighborhood>(options, context.encoder.layout(), codec, context.worker, context.clock,
                                        context.outbox, context.sampler);
}

std::unique_ptr<Group> make_group(const ExchangeContext& context, const Codec& host_codec, size_t param_blocks) {
  const ExchangeConfig& exchange = context.swarm.exchange;
  GroupOptions options;
  options.self = context.self;
  options.deadline_min = exchange.deadline_min;
  options.deadline_max = exchange.deadline_max;
  options.param_blocks = param_blocks;
  options.inject_loss = exchange.inject_loss;
  options.rng_seed = context.swarm.rng_seed;
  return std::make_unique<Group>(options, context.encoder.layout(), host_codec, context.worker, context.clock,
                                 context.outbox, context.sampler);
}

}  // namespace

ExchangeParts make_exchange(const ExchangeContext& context) {
  const ExchangeConfig& exchange = context.swarm.exchange;
  const Codec& codec = context.encoder.codec();
  const Layout& layout = context.encoder.layout();
  const auto param_blocks =
      static_cast<size_t>(std::count_if(layout.blocks.begin(), layout.blocks.end(),
                                        [](const Block& block) { return block.section == 0; }));
  if (exchange.share_gradients && context.space != MemorySpace::kHost) {
    throw std::runtime_error("swarm.exchange.source: gradients is a baseline for the CPU; start with --device cpu");
  }
  ExchangeParts parts;
  switch (exchange.kind) {
    case ExchangeKind::kNone: break;
    case ExchangeKind::kPairwise: parts.exchange = make_pairwise(context, codec, param_blocks); break;
    case ExchangeKind::kNeighborhood: parts.exchange = make_neighborhood(context, codec, param_blocks); break;
    case ExchangeKind::kGroup:
      parts.host_codec = make_codec(exchange.codec, MemorySpace::kHost);
      auto group = make_group(context, *parts.host_codec, param_blocks);
      if (exchange.pairs_every > 0) {
        auto pairs = make_pairwise(context, codec, param_blocks);
        parts.exchange = std::make_unique<GroupsWithPairs>(std::move(group), std::move(pairs), exchange.pairs_every,
                                                           context.sampler);
      } else {
        parts.exchange = std::move(group);
      }
      break;
  }
  return parts;
}

}  // namespace starling
