// The payloads of pair exchanges: sent under credits, checked on arrival, judged by the worker. All indices are of
// parts (pair_parts.h): without blocks of low rank, of blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "compression/codec.h"
#include "compression/layout.h"
#include "gossip/exchange/bitmap.h"
#include "gossip/exchange/pair_exchange.h"
#include "gossip/exchange/pair_parts.h"
#include "gossip/exchange/robust_window.h"
#include "gossip/net/outbox.h"
#include "gossip/worker.h"

namespace starling {

struct BlockCounts {
  uint64_t refused = 0, left_out = 0;
};

class PairBlocks {
 public:
  // The verdict on a block of this exchange with this peer. Called from the worker's completions, or from receive().
  using OnJudged =
      std::function<void(const ExchangeId&, const PeerId&, uint32_t index, BlockVerdict, const PairStats&)>;

  // All references must outlive the object. `codec` is used from worker jobs too. A payload of at most
  // `eager_bytes_max` may go with the proposal, before ACCEPT. REQUIRES: each of the fragments has a block.
  PairBlocks(const Layout& layout, const Codec& codec, Worker& worker, const Clock& clock, Outbox& outbox,
             OnJudged on_judged, uint32_t fragments, size_t eager_bytes_max = kEagerBytesMax);

  static constexpr size_t kEagerBytesMax = 64 * 1024;   // sending this much in vain costs less than one latency

  // Halves of this exchange with this peer are made: send() has more. Called from the worker's completions. Null: never
  // needed, as without blocks of low rank.
  std::function<void(const ExchangeId&, const PeerId&)> on_made;

  size_t count() const { return parts_.count(); }
  bool in_halves() const { return parts_.in_halves(); }
  double reach() const { return parts_.reach(); }
  size_t payload_bytes() const { return payload_bytes_total_; }   // upper bound on one snapshot
  size_t exchange_bytes() const { return exchange_bytes_; }       // upper bound on what one side sends in an exchange
  bool may_come_early() const { return exchange_bytes_ <= eager_bytes_max_; }   // before ACCEPT
  uint32_t fragments() const { return static_cast<uint32_t>(fragments_.size()); }
  uint32_t last_of(uint32_t fragment) const;    // the index of the block that is sent last
  PeerBlocks none_yet(uint32_t fragment) const { return PeerBlocks(fragments_[fragment], count(), window_); }

  void begin(PairExchange& exchange);           // makes its first halves; before any other of these calls
  void send(PairExchange& exchange);            // the fragment's blocks that the peer's credit allows, as they are made
  void send_all(PairExchange& exchange);        // all of them, without waiting for credit
  void grant(PairExchange& exchange, uint32_t credit);
  void repeat_credit(PairExchange& exchange);   // the last CREDIT may be lost, and blocks may wait for it

  // Lost blocks. watch(): the peer's blocks may come from now on, in order. When they have stopped coming for twice the
  // usual gap (ask_missing_at), ask_missing() asks for those that later ones have overtaken, and again after a round
  // trip, kMissingMax times in all. Where none was overtaken it asks for the last one alone, less and less often: the
  // others may wait in a queue of a thin link, and once that one is here, those that still lack are lost.
  // send_missing() sends each block as often at most. False: ignore it.
  void watch(PairExchange& exchange);
  void ask_missing(PairExchange& exchange);
  [[nodiscard]] bool send_missing(PairExchange& exchange, const Bitmap& blocks);

  // False: the block was not expected, and nothing changed. True: the exchange may have ended when this returns.
  [[nodiscard]] bool receive(PairExchange& exchange, const BlockPayload& block, const SharedBytes& payload);

  // Takes the verdict on a block that came. With a first half's, the own second half can be sent.
  void judged(PairExchange& exchange, uint32_t index, BlockVerdict verdict, const PairStats& stats);
  // What may be mixed: those that have passed, without halves whose other half has not.
  Bitmap passed(const PairExchange& exchange) const;
  // The exchange needs no more halves: frees the floats that they were made of.
  void release_matrices(PairExchange& exchange) const;
  // The payloads of `decided` parts, by block. `keep`: the exchange may need them again.
  void fill(Delta& delta, PairExchange& exchange, const Bitmap& decided, bool keep) const;
  bool of_block_from(size_t index, size_t block) const { return parts_[index].block >= block; }

  // Rms of (peer - own) over the elements of those of the first `param_blocks` blocks that are in `blocks`; negative:
  // there are none. Of a block of low rank, what its delta moves stands for its difference.
  double distance(const PairExchange& exchange, const Bitmap& blocks, size_t param_blocks) const;

  // What the codec learns from an exchange, whether it was applied or failed. Holds only the payload bytes it reads.
  std::vector<BlockLesson> lessons(const PairExchange& exchange) const;
  bool comparable(const BlockLesson& lesson) const {
    return codec_.comparable(lesson.own.span(), lesson.peer.span());
  }

  const BlockCounts& counts() const { return counts_; }

 private:
  void judge(const PairExchange& exchange, uint32_t index);
  void report(const ExchangeId& xid, const PeerId& peer, uint32_t index, BlockVerdict verdict,
              const PairStats& stats);
  bool waits_for_first(const PairExchange& exchange, uint32_t index) const;
  bool to_send(const PairExchange& exchange, uint32_t index) const;
  const SharedBytes& own(const PairExchange& exchange, uint32_t index) const;
  void next_credit(PairExchange& exchange);
  void send_one(PairExchange& exchange, uint32_t index);
  Duration usual_gap(const PairExchange& exchange) const;
  void came(PairExchange& exchange, uint32_t index, bool continues);
  bool between_turns(const PairExchange& exchange) const;
  Bitmap overtaken(const PairExchange& exchange) const;
  Bitmap last_missing(const PairExchange& exchange) const;
  bool lacks(const PairExchange& exchange, size_t index) const;

  static constexpr Duration kGapUnknown = std::chrono::milliseconds(50), kGapMin = std::chrono::milliseconds(5);
  static constexpr uint32_t kMissingMax = 3, kDoublingsMax = 6;
  static constexpr int kCreditRepeats = 8;              // per deadline, while nothing comes

  const Layout& layout_;
  const Codec& codec_;
  Worker& worker_;
  const Clock& clock_;
  Outbox& outbox_;
  OnJudged on_judged_;
  const PairParts parts_;
  RobustWindow gaps_[2];                    // s: of streams to this agent as acceptor, as proposer
  std::vector<Bitmap> fragments_;           // the blocks of each
  size_t payload_bytes_total_ = 0, exchange_bytes_ = 0;
  const size_t eager_bytes_max_;
  uint32_t window_ = 2;                 // blocks in flight towards this agent, per exchange
  BlockCounts counts_;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);   // completions of a destroyed object do nothing
};

}  // namespace starling
