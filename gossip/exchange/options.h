// What the whole swarm agrees on about exchanges, and what each exchange needs to know of its agent.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compression/codec.h"
#include "compression/update_codec.h"
#include "gossip/clock.h"
#include "gossip/limits.h"
#include "gossip/peer.h"

namespace starling {

enum class ExchangeKind { kNone, kPairwise, kNeighborhood, kGroup };
// What agents share: their params, or the changes of a round, by the log of updates; gradients: of a round of one step.
enum class SourceKind { kParams, kUpdates, kGradients };
enum class Overlap { kAuto, kOn, kOff };

inline constexpr size_t kGroupMax = 16;  // members
inline constexpr uint32_t kFragmentsMax = 64;
inline constexpr uint32_t kTurnsMax = 3;  // a boundary

// Bounds of the adaptive deadline of one exchange.
inline constexpr Duration kDeadlineMin = std::chrono::milliseconds(20);
inline constexpr Duration kDeadlineMax = std::chrono::milliseconds(500);

struct ExchangeConfig {
  SourceKind source = SourceKind::kParams;
  ExchangeKind kind = ExchangeKind::kPairwise;  // none: train alone (the baseline)
  CodecKind codec = CodecKind::kModulo8;
  bool carry_momentum = false;       // share: [params] | [params, momentum]
  uint32_t fragments = 1;            // pairs: an exchange carries one of so many parts of the model
  uint32_t turns = 0;                // pairs by turns: exchanges due at a boundary; 0: auto
  uint64_t block = 131072;           // elements in one block: the unit of sending, losing and mixing
  Overlap overlap = Overlap::kAuto;  // on: exchange while the trainer computes; auto: when it costs > 10 % of a round
  Duration deadline_min = kDeadlineMin;
  Duration deadline_max = kDeadlineMax;
  std::optional<double> clip;           // pairs: a delta is clipped at this multiple of the usual distance;
                                        // 0 = off (pairs/guard.h). nullopt: as clip_of() says
  uint32_t group_size = kGroupMax;      // group: members at most
  std::vector<std::string> members;     // group: the names of the agents that take part; empty: all live agents
  double inject_loss = 0;               // group, for experiments: this part of the blocks is dropped on receive
  UpdateOptions update;                 // updates: how they become bytes
  uint32_t update_slices = 0;           // updates: logs at most; 0: as slices_max() says
  bool update_pipeline = false;         // gradients: a slice is sent as soon as backward has ended with it
  bool update_merge = false;            // with update_pipeline: slices are sent together as the log's plan says
  double update_first_norm_max = 1e30;  // updates: what the first entries of a log count at most, while no median of
                                        // entries says what is usual
  double outer_momentum = 0;  // updates: what a replica does with an entry (outer_rule.h); DiLoCo: 0.9 and 0.7
  double outer_rate = 1;
  bool repair = true;  // gradients: by the log of updates; false, for experiments: their mean, and what is
                       // lost is lost
};

inline double clip_of(const ExchangeConfig& exchange) {
  constexpr double kOfPairs = 3;
  return exchange.clip.value_or(exchange.kind == ExchangeKind::kPairwise ? kOfPairs : 0);
}

// The log of updates (gossip/updates) rather than an exchange of params.
inline bool shares_updates(const ExchangeConfig& exchange) {
  if (exchange.kind != ExchangeKind::kGroup) return false;
  return exchange.source == SourceKind::kUpdates || (exchange.source == SourceKind::kGradients && exchange.repair);
}

// Of a swarm in one group.
inline uint32_t members_max(const ExchangeConfig& exchange) {
  return shares_updates(exchange) ? static_cast<uint32_t>(kUpdateMembersMax) : exchange.group_size;
}

// Tables of few large slices show more of the largest elements than as many bytes of many small ones.
inline size_t slices_max(const ExchangeConfig& exchange) {
  constexpr size_t kSketchSlices = 4;
  if (exchange.update_slices > 0) return exchange.update_slices;
  return exchange.update.kind == UpdateKind::kSketch ? kSketchSlices : kUpdateSlicesMax;
}

// What every exchange needs to know of its agent; the neighborhood needs no more.
struct ExchangeOptions {
  PeerId self;
  Duration deadline_min = kDeadlineMin;  // of a pair exchange, a neighborhood's round, each phase of a group's round
  Duration deadline_max = kDeadlineMax;
  size_t param_blocks = 0;  // blocks [0, param_blocks) are params; only they count for distances
};

}  // namespace starling
