// What the log of updates counts since this agent began, and how it stands.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "gossip/exchange/counters.h"
#include "gossip/peer.h"

namespace starling {

struct UpdateCounters {
  uint64_t entries = 0, payloads = 0;  // in the own logs, over all slices: how long they are, and what they count
  uint64_t behind = 0;                 // entries that the log farthest behind lacks, as others claim
  uint64_t made = 0;                   // entries, as owner
  uint64_t short_splits = 0;           // another log took over, and what only the old one counted was taken back
  uint64_t long_splits = 0;            // likewise, and the difference of both became drift
  uint64_t states_adopted = 0;         // slices taken over as a whole
  uint64_t audits_failed = 0;          // slices that were not what most others have under the same head
  uint64_t payloads_refused = 0;       // this and the last three: as UpdateRefusals says
  uint64_t pulls = 0;
  uint64_t early = 0;                    // payloads that were handed in while backward still went on
  uint64_t buckets = 0, plan_since = 0;  // of the log's merge plan, and the first round that it holds in; 0: none
  uint64_t plans_refused = 0;
  uint64_t frames_saved = 0;  // that were not sent because a plan put them into others
  uint64_t entries_refused = 0, blocks_refused = 0, heads_refused = 0;

  // What others sent and no member should: it changed nothing here.
  uint64_t refused() const { return payloads_refused + entries_refused + blocks_refused + heads_refused; }
};

struct UpdatesStatus {
  UpdateCounters counters;
  GroupCounters rounds;
  std::optional<PeerId> refused_last;  // the sender of what was refused last; nullopt: not known
  std::string log_heads;               // equal at members with equal logs; empty: this agent has no log
  double held_back = 0;                // the norm of what was learned here and no entry counted yet
};

}  // namespace starling
