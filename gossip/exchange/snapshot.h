// A consistent, encoded copy of what this agent shares. The payload is the snapshot: there is no raw copy beside it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "compression/codec.h"
#include "gossip/clock.h"
#include "gossip/net/transport.h"

namespace starling {

// How far a member's model is from the own one; infinitely where nobody knows.
struct Apart {
  PeerId peer;
  double distance = 0;  // rms; in Agreement over this agent's rms params
};

// While settling, the rms distances beyond which a partner's model does not count.
struct Far {
  double first = 0;  // before any exchange with it; each makes it less
  double last = 0;   // but no less than this: models that are so near agree
  // The other members, and how far away each may be by its record. nullptr: not known.
  std::shared_ptr<const std::vector<Apart>> others;
};

struct Snapshot {
  uint64_t number = 0;  // grows by one per boundary
  uint64_t round = 0;
  uint64_t boundary = 0;  // counts the boundaries of this agent; several snapshots may have the same
  double mass = 1;
  std::vector<SharedBytes> blocks;   // one payload per Layout block
  double drift = 0;                  // rms of what the own steps of a round move the params; 0: not known
  bool settling = false;             // no steps follow, so that models come nearer than is usual
  std::optional<Far> far;            // nullopt: not settling, or not known yet
  std::optional<TimePoint> next_at;  // pairs by turns: steps follow, and this is about when they end
  Duration job{};                    // before then, an evaluation, say, that takes so long; the other time is steps'
};

// What one decided exchange adds to the params. The worker applies it at the next boundary, block by block, and can
// free the payloads of each block as soon as it is applied.
struct Delta {
  std::vector<SharedBytes> own;   // payloads by block index; empty where not in `blocks`.
  std::vector<SharedBytes> peer;  // likewise
  std::vector<uint8_t> blocks;    // the blocks to apply, a Bitmap
  float coefficient = 0;          // x += coefficient * f(own, peer)
  uint64_t early = 0;             // queued before its exchange was decided: the number of such deltas so far; 0: no
  uint64_t taken_back = 0;        // undoes the delta with this number in `early`; 0: none
};

// How one block went in an exchange that ended: Encoder::learn() takes it. Failed exchanges teach as well: one in which
// every block wraps has no delta, and would fail for ever if the codec did not hear of it.
struct BlockLesson {
  uint32_t block = 0;
  PairStatus status = PairStatus::kRefused;  // kOk or kLeftOut
  PairStats stats;
  SharedBytes own, peer;  // as much of both payloads as Codec::learnable_bytes() says
  PairVerdict verdict() const { return {status, stats, own.span(), peer.span()}; }
};

struct Decided {
  std::vector<Delta> deltas;
  std::vector<BlockLesson> lessons;  // in the order in which their exchanges ended
};

// How an exchange ended, for the log, the deadline and the metrics.
enum class ExchangeOutcome : uint8_t { kDone, kLate, kFailed, kBusy };

struct ExchangeReport {
  PeerId peer;
  bool initiated = false;  // by this agent
  ExchangeOutcome outcome = ExchangeOutcome::kDone;
  Duration duration{};        // from propose (or accept) to decision
  uint32_t blocks_mixed = 0;  // blocks that the delta holds
  uint32_t blocks_total = 0;
  uint64_t payload_bytes_sent = 0;
  uint64_t payload_bytes_received = 0;
  double distance = -1;  // rms of (peer - own) over the params' elements in K; negative: not known
  double scale = 1;      // s: below 1 when a guard clipped
  uint64_t peer_round = 0;
  Duration free_in{};            // kBusy: when the peer expects to be free
  std::vector<PeerId> left_out;  // peers of which something did not count because it was too far away
};

}  // namespace starling
