// The state of one pair exchange at one of its two agents. It ends for the proposer when it decides, and for the
// acceptor when the proposer's decision arrives.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>

#include "gossip/clock.h"
#include "gossip/exchange/coefficients.h"
#include "gossip/exchange/snapshot.h"
#include "gossip/net/message.h"
#include "gossip/pairs/peer_blocks.h"

namespace starling {

struct PairExchange {
  ExchangeId xid;
  PeerId peer;
  bool initiated = false;  // by this agent
  std::shared_ptr<const Snapshot> own;
  double own_offer = 0;
  bool holds_offer = true;  // own_offer is marked as taken in the current snapshot's budget
  TimePoint started_at, deadline_at;
  TimePoint slow_at = TimePoint::max();  // by turns: it ends then; what comes before moves it (PairBlocks::expect_pace)
  Duration deadline{};
  TimePoint ends_at() const { return std::min(deadline_at, slow_at); }

  bool agreed = false;           // ACCEPT was sent or received: the next four are known
  uint64_t peer_generation = 0;  // 0: not known yet
  double peer_offer = 0, peer_mass = 0;
  uint64_t peer_round = 0, peer_payload = 0;
  uint64_t own_slot = 0, peer_slot = 0;  // by turns: where each was in its schedule
  bool scheduled = false;                // it is that of its proposer's slot
  bool brief = false;                    // by turns: with a peer that has decided none of this agent's proposals yet

  uint32_t fragment = 0;  // the part of the model that both sides send (fragments.h)
  PeerBlocks blocks;      // received from the peer
  uint32_t send_next = 0, send_credit = 0;
  TimePoint credit_repeat_at = TimePoint::max();
  uint64_t bytes_sent = 0, bytes_received = 0;
  std::optional<Bitmap> vote;  // the acceptor's; only blocks inside it can still be mixed

  double distance = -1;  // over the blocks voted on, later over the blocks mixed; negative: not known
  double scale = 1;      // by this agent's guard; 0: it takes nothing
  bool judged = false;   // by the guard

  // By turns: the delta that was queued before the decision, and is taken back if the decision differs.
  float early_coefficient = 0;  // 0: none
  uint64_t early_number = 0;    // Delta::early of the last one
  Bitmap early_blocks;
  // Of the peer's stream of blocks, while it is watched. It began when the exchange was agreed.
  std::optional<TimePoint> last_block_at;
  Duration longest_gap{};
  TimePoint ask_missing_at = TimePoint::max();
  TimePoint missing_due_at;                    // the answer to the last question for lost blocks
  Duration repeat_after{};                     // of such a question
  uint32_t asked_missing = 0, asked_last = 0;  // how often: for lost ones; for the last one
  size_t sent_again = 0;                       // blocks, on request
  bool undecided = false;                      // it ends because the peer let its time run out, or gave it up
  bool in_vain = false;                        // that counts against the peer
};

inline double told_scale(const PairExchange& exchange) { return std::max(exchange.scale, kTakesNothing); }

struct ProposedExchange : PairExchange {
  Duration round_trip{};                  // from PROPOSE to ACCEPT
  std::optional<TimePoint> last_arrival;  // of a block or the vote
  Duration free_in{};                     // from the peer's BUSY

  // By turns.
  std::optional<ExchangeId> crossed;    // the peer's proposal that crossed this one: its blocks serve this exchange
  std::optional<TimePoint> first_sign;  // the acceptor has begun its turn
  bool sent_at_once = false;            // its blocks went with the proposal
  bool blocks_first = false;            // and it waits at the acceptor until they are there
  TimePoint ask_again_at = TimePoint::max();  // PROPOSE, or the answer to it, may be lost
};

struct AcceptedExchange : PairExchange {
  TimePoint vote_at;                      // votes then for the blocks that have passed
  TimePoint voted_at, park_at, query_at;  // used once it has voted and is in doubt
  Duration query_backoff{};
  Duration waited{};  // its proposal, for this agent

  // Whether an ABORT now is the proposer's fault. After a long wait the proposer gives up as announced, before it hears
  // that its turn has begun.
  bool blames_abort(TimePoint now) const { return 2 * (now - started_at) >= waited; }

  bool crossed = false;  // by turns: this agent's own proposal crossed it, for the same blocks
  bool parked = false;   // in doubt for so long that it no longer counts against the limit of doubts
};

}  // namespace starling
