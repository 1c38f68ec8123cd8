#include "agent/share/memory_need.h"

#include <filesystem>
#include <string>

#include "agent/report/format.h"
#include "agent/report/free_memory.h"
#include "agent/train/model_kinds.h"
#include "agent/train/model_layers.h"

namespace starling {
namespace {

// Weights, gradients, the optimizer's state, the temporaries of a step, and a checkpoint's copy. Bytes a param.
double of_training(const OptimizerConfig& optimizer) {
  if (optimizer.kind == "adamw") return 31;
  return optimizer.momentum > 0 ? 22 : 14.5;
}

// Replica, accumulator, drift and payloads. Bytes a param.
double of_updates(const ExchangeConfig& exchange) {
  const double outer = exchange.outer_momentum > 0 ? 8 : 0;
  switch (exchange.update.kind) {
    case UpdateKind::kFp32: return 23 + outer;
    case UpdateKind::kBf16: return 17 + outer;
    case UpdateKind::kSketch: return 5 + outer;
    case UpdateKind::kTopk:
    case UpdateKind::kTopkBf16:
    case UpdateKind::kTopkInt8:
    case UpdateKind::kDgc: return 9 + outer;
    default: return 14 + outer;
  }
}

// Snapshots, payloads and sums. Bytes a param.
double of_exchange(const ExchangeConfig& exchange) {
  const bool fp32 = exchange.codec == CodecKind::kFp32;
  switch (exchange.kind) {
    case ExchangeKind::kNone: return 0;
    case ExchangeKind::kPairwise: return 1.5;
    case ExchangeKind::kNeighborhood: return fp32 ? 9 : 4;
    case ExchangeKind::kGroup: break;
  }
  if (shares_updates(exchange)) return of_updates(exchange);
  return fp32 ? 6 : 2.5;
}

// What the layers put out for one sample, behind their nonlinearity too, and the gradient. Bytes.
double of_sample(const ModelConfig& model) {
  double values = 0;
  for (const LayerFlops& layer : model_layers(model)) values += 3 * layer.outputs;
  return sizeof(float) * values;
}

}  // namespace

uint64_t memory_need(const SwarmConfig& swarm, const AgentConfig& agent) {
  const ModelKind& kind = model_kind(swarm.model.kind);
  const auto params = static_cast<double>(kind.param_count(swarm.model));
  double bytes = params * of_exchange(swarm.exchange);
  if (!kind.attached) bytes += params * of_training(swarm.optimizer);
  if (kind.needs_data) bytes += (agent.batch > 0 ? agent.batch : swarm.batch) * of_sample(swarm.model);
  return static_cast<uint64_t>(bytes);
}

void require_memory_for(const SwarmConfig& swarm, const AgentConfig& agent, uint64_t agents) {
  const bool has_gpu = std::filesystem::exists("/dev/nvidiactl");
  if (agent.device == "cuda" || (agent.device == "auto" && has_gpu)) return;
  require_memory(agents * memory_need(swarm, agent),
                 "with this model and exchange " +
                     (agents > 1 ? print_count(agents, "agent") + " take" : std::string("an agent takes")),
                 "take a smaller model, or a machine with more memory");
}

}  // namespace starling
