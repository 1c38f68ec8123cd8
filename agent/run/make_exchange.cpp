#include "agent/run/make_exchange.h"

#include <algorithm>
#include <stdexcept>

#include "gossip/exchange/group.h"
#include "gossip/exchange/hybrid.h"
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
                                    context.outbox, &context.partners);
}

std::unique_ptr<Neighborhood> make_neighborhood(const ExchangeContext& context, const Codec& codec,
                                                size_t param_blocks) {
  const ExchangeConfig& exchange = context.swarm.exchange;
  const NeighborhoodOptions options{context.self, exchange.deadline_min, exchange.deadline_max, param_blocks};
  return std::make_unique<Neighborhood>(options, context.encoder.layout(), codec, context.worker, context.clock,
                                        context.outbox, context.partners);
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
                                 context.outbox, context.partners);
}

// The swarm's graph; an agent that it does not name would be an island.
TopologySpec topology_for(const ExchangeContext& context) {
  TopologySpec topology = context.swarm.topology;
  topology.rng_seed = context.swarm.rng_seed;
  const bool named = std::any_of(topology.edges.begin(), topology.edges.end(), [&](const auto& edge) {
    return edge.first == context.name || edge.second == context.name;
  });
  if (topology.kind == TopologyKind::kFile && !named) {
    throw std::runtime_error("no edge of swarm.topology.edges names this agent, '" + context.name +
                             "': start it with the --name of one of them, or let the swarm take another topology");
  }
  return topology;
}

void refuse_outsider(const ExchangeContext& context) {
  const std::vector<std::string>& members = context.swarm.exchange.members;
  if (members.empty() || std::find(members.begin(), members.end(), context.name) != members.end()) return;
  throw std::runtime_error("swarm.exchange.members does not name this agent, '" + context.name +
                           "': start it with the --name of one of them, or let the swarm leave the list empty");
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
  context.partners.set_topology(topology_for(context));
  switch (exchange.kind) {
    case ExchangeKind::kNone: break;
    case ExchangeKind::kPairwise: parts.exchange = make_pairwise(context, codec, param_blocks); break;
    case ExchangeKind::kNeighborhood: parts.exchange = make_neighborhood(context, codec, param_blocks); break;
    case ExchangeKind::kGroup:
      refuse_outsider(context);
      context.partners.set_groups(exchange.group_size);
      context.partners.set_group(exchange.members);
      parts.host_codec = make_codec(exchange.codec, MemorySpace::kHost);
      auto group = make_group(context, *parts.host_codec, param_blocks);
      if (exchange.pairs_every > 0) {
        parts.exchange = std::make_unique<Hybrid>(std::move(group), make_pairwise(context, codec, param_blocks),
                                                  exchange.pairs_every, context.partners);
      } else {
        parts.exchange = std::move(group);
      }
      break;
  }
  return parts;
}

}  // namespace starling
