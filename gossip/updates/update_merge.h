// The arithmetic of a slice's owner: makes the next entry of the log from what members handed in. A pure function that
// runs on the worker.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "gossip/updates/slice_replica.h"
#include "gossip/updates/update_inbox.h"

namespace starling {

struct MergeJob {
  std::vector<HandedIn> items;            // the owner's own among them; ascending by sender
  std::vector<double> masses;             // of each of them
  LogEntry draft;                         // all but counted, head and parts; `divisor`: the mass of the whole roster
  LogHead after;                          // the log that it continues
  size_t counted_min = 0;                 // more than half of the roster
  PeerId self;                            // must be counted
  std::optional<float> payload_norm_max;  // a payload counts at most at this norm; nullopt: the log is short
  size_t element_count = 0;

  // out
  std::vector<PeerId> refused;  // senders of payloads that do not decode
  bool made = false;            // else too few are left, or the sum left the range of a float
  LogEntry entry;
  SharedBytes payload;
  Digest16 payload_hash{};
  double norm = 0;
};

// bytes = encode(sum of scale * mass * payload / mass of the whole roster). The divisor is not the mass of what was
// counted: a payload that comes in the next round would then weigh more than in this one.
void run_merge(const UpdateCodecs& codecs, const UpdateCodec& encoder, MergeJob& job);

}  // namespace starling
