// The payloads of pair exchanges: sent under credits, checked on arrival, judged by the worker.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "compression/codec.h"
#include "compression/layout.h"
#include "gossip/exchange/bitmap.h"
#include "gossip/exchange/robust_window.h"
#include "gossip/net/outbox.h"
#include "gossip/pairs/options.h"
#include "gossip/pairs/pair_exchange.h"
#include "gossip/worker.h"

namespace starling {

struct BlockCounts { uint64_t refused = 0, left_out = 0; };

class PairBlocks {
 public:
  // The verdict on a block of this exchange with this peer. Called from the worker's completions, or from receive().
  using OnJudged =
      std::function<void(const ExchangeId&, const PeerId&, uint32_t index, BlockVerdict, const PairStats&)>;

  // All references must outlive the object. `codec` is used from worker jobs too. A payload of at most
  // `eager_bytes_max` may go with the proposal, before ACCEPT. REQUIRES: each of the fragments has a block.
  PairBlocks(const Layout& layout, const Codec& codec, Worker& worker, const Clock& clock, Outbox& outbox,
             OnJudged on_judged, const PairwiseOptions& options, size_t eager_bytes_max = kEagerBytesMax);

  static constexpr size_t kEagerBytesMax = 64 * 1024;  // sending this much in vain costs less than one latency

  size_t count() const { return layout_.blocks.size(); }
  size_t payload_bytes() const { return payload_bytes_total_; }  // upper bound on one snapshot
  size_t exchange_bytes() const { return exchange_bytes_; }      // upper bound on what one side sends in an exchange
  bool may_come_early() const;                                   // before ACCEPT: few enough bytes, and blocks
  uint32_t fragments() const { return static_cast<uint32_t>(fragments_.size()); }
  uint32_t last_of(uint32_t fragment) const;  // the index of the block that is sent last
  PeerBlocks none_yet(uint32_t fragment) const { return PeerBlocks(fragments_[fragment], count(), window_); }

  void send(PairExchange& exchange);      // the fragment's blocks that the peer's credit allows
  void send_all(PairExchange& exchange);  // all of them, without waiting for credit
  void grant(PairExchange& exchange, uint32_t credit);
  void repeat_credit(PairExchange& exchange);  // the last CREDIT may be lost, and blocks may wait for it

  // From now on the exchange ends once it is a window behind the pace of the longest deadline. Blocks and credits
  // count. A peer that stops then costs the time of a window, however long the deadline.
  void expect_pace(PairExchange& exchange) const;
  Duration slack() const;  // what a window takes at that pace, and a little at least

  // Lost blocks. After watch() the peer's blocks may come, in order. At ask_missing_at they have stopped coming for
  // twice the usual gap. Then ask_missing() asks for those that later blocks have overtaken, and again after each round
  // trip, kMissingMax times in all. If none was overtaken, the others may still wait in the queue of a thin link. Then
  // it asks for the last one alone, less and less often: once that one is here, the missing ones are lost. Each block
  // is sent again as often at most. False: ignore it.
  void watch(PairExchange& exchange);
  void ask_missing(PairExchange& exchange);
  [[nodiscard]] bool send_missing(PairExchange& exchange, const Bitmap& blocks);

  // False: the block was not expected, and nothing changed. True: the exchange may have ended when this returns.
  [[nodiscard]] bool receive(PairExchange& exchange, const BlockPayload& block, const SharedBytes& payload);

  // The payloads of `decided` blocks. `keep`: the exchange may need them again.
  void fill(Delta& delta, PairExchange& exchange, const Bitmap& decided, bool keep) const;

  // Rms of (peer - own) over the elements of those of the first `param_blocks` blocks that are in `blocks`; negative:
  // there are none.
  double distance(const PairExchange& exchange, const Bitmap& blocks, size_t param_blocks) const;

  // What the codec learns from an exchange, whether it was applied or failed. Holds only the payload bytes it reads.
  std::vector<BlockLesson> lessons(const PairExchange& exchange) const;
  bool comparable(const BlockLesson& lesson) const { return codec_.comparable(lesson.own.span(), lesson.peer.span()); }

  const BlockCounts& counts() const { return counts_; }

 private:
  void judge(const PairExchange& exchange, uint32_t index);
  void report(const ExchangeId& xid, const PeerId& peer, uint32_t index, BlockVerdict verdict, const PairStats& stats);
  bool to_send(const PairExchange& exchange, uint32_t index) const;
  size_t bytes_max(size_t index) const { return codec_.payload_bytes_max(layout_.blocks[index].element_count); }
  void next_credit(PairExchange& exchange);
  static Duration credit_repeat(const PairExchange& exchange);
  void keeps_pace(PairExchange& exchange, uint32_t blocks) const;  // so many more came, or may go
  void send_one(PairExchange& exchange, uint32_t index);
  Duration usual_gap(const PairExchange& exchange) const;
  void came(PairExchange& exchange, bool continues);
  Bitmap overtaken(const PairExchange& exchange) const;
  Bitmap last_missing(const PairExchange& exchange) const;
  bool lacks(const PairExchange& exchange, size_t index) const;

  static constexpr Duration kGapUnknown = std::chrono::milliseconds(50), kGapMin = std::chrono::milliseconds(5);
  static constexpr uint32_t kMissingMax = 3, kDoublingsMax = 6;
  static constexpr int kCreditRepeats = 8;  // per deadline, while nothing comes; and once in kCreditRepeatMax
  static constexpr Duration kCreditRepeatMax = std::chrono::milliseconds(500);
  static constexpr Duration kSlackMin = std::chrono::seconds(2);  // behind the pace

  const Layout& layout_;
  const Codec& codec_;
  Worker& worker_;
  const Clock& clock_;
  Outbox& outbox_;
  OnJudged on_judged_;
  RobustWindow gaps_[2];           // s: of streams to this agent as acceptor, as proposer
  std::vector<Bitmap> fragments_;  // the blocks of each
  const Duration deadline_max_;
  size_t payload_bytes_total_ = 0, exchange_bytes_ = 0, exchange_blocks_ = 0;
  const size_t eager_bytes_max_;
  uint32_t window_ = 2;  // blocks in flight towards this agent, per exchange
  BlockCounts counts_;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);  // completions of a destroyed object do nothing
};

}  // namespace starling
