// One exchange of a pair, as one of its two agents sees it, until it ends: for the proposer with its decision, for the
// acceptor with the proposer's word.
#pragma once

#include <memory>
#include <optional>

#include "gossip/clock.h"
#include "gossip/exchange/peer_blocks.h"
#include "gossip/exchange/snapshot.h"
#include "gossip/net/message.h"

namespace starling {

struct PairExchange {
  ExchangeId xid;
  PeerId peer;
  bool initiated = false;           // by this agent
  std::shared_ptr<const Snapshot> own;
  double own_offer = 0;
  bool holds_share = true;          // own_offer is taken from the current snapshot's budget
  TimePoint started_at, deadline_at;
  Duration deadline{};

  bool agreed = false;              // ACCEPT was sent or received: the next four are known
  uint64_t peer_generation = 0;     // 0: not known yet
  double peer_offer = 0, peer_mass = 0;
  uint64_t peer_round = 0;

  PeerBlocks blocks;                // of the peer
  uint32_t send_next = 0, send_credit = 0;
  TimePoint credit_repeat_at = TimePoint::max();
  uint64_t bytes_sent = 0, bytes_received = 0;
  std::optional<Bitmap> vote;       // the acceptor's: no block outside it can be mixed any more

  double distance = -1;             // over what was voted on, then over what is mixed; negative: not known
  double scale = 1;
  bool guard_fed = false;
};

struct ProposedExchange : PairExchange {
  Duration round_trip{};            // from PROPOSE to ACCEPT
  std::optional<TimePoint> last_arrival;   // of a block or the vote
  Duration free_in{};               // as BUSY said
};

struct AcceptedExchange : PairExchange {
  TimePoint vote_at;                // votes then, with what it has
  TimePoint voted_at, park_at, query_at;   // in doubt, that is with a vote
  Duration query_backoff{};
  bool parked = false;              // in doubt for so long that it gave up its place
};

}  // namespace starling
