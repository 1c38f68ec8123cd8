#include "gossip/pairs/pair_blocks.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "gossip/exchange/round_stream.h"
#include "gossip/limits.h"
#include "gossip/pairs/early_pair_blocks.h"
#include "gossip/pairs/fragments.h"
#include "kernels/check.h"

namespace starling {
namespace {

// A worker's job: judges a block that came. Owns all that it reads except the codec, since the exchange may end before
// it runs.
struct Judgement {
  uint32_t index = 0;
  size_t element_count = 0;
  std::shared_ptr<const Snapshot> own;
  SharedBytes payload;
  BlockVerdict verdict = BlockVerdict::kRefused;
  PairStats stats{};

  void decide(const Codec& codec) {
    switch (codec.pair(own->blocks[index].span(), payload.span(), element_count, &stats)) {
      case PairStatus::kOk: verdict = BlockVerdict::kPassed; break;
      case PairStatus::kLeftOut: verdict = BlockVerdict::kLeftOut; break;
      case PairStatus::kRefused: break;
    }
  }
};

}  // namespace

PairBlocks::PairBlocks(const Layout& layout, const Codec& codec, Worker& worker, const Clock& clock, Outbox& outbox,
                       OnJudged on_judged, const PairwiseOptions& options, size_t eager_bytes_max)
    : layout_(layout),
      codec_(codec),
      worker_(worker),
      clock_(clock),
      outbox_(outbox),
      on_judged_(std::move(on_judged)),
      fragments_(cut_fragments(layout, options.fragments)),
      deadline_max_(options.deadline_max),
      eager_bytes_max_(eager_bytes_max) {
  STARLING_CHECK(!layout.blocks.empty() && count() <= kBlocksMax);
  size_t largest = 1;
  for (size_t i = 0; i < count(); ++i) {
    payload_bytes_total_ += bytes_max(i);
    largest = std::max(largest, bytes_max(i));
  }
  window_ = stream_window(largest);
  for (const Bitmap& fragment : fragments_) {
    size_t bytes = 0;
    for (size_t i = 0; i < count(); ++i) bytes += test_bit(fragment, i) ? bytes_max(i) : 0;
    STARLING_CHECK(count_bits(fragment) > 0);
    exchange_bytes_ = std::max(exchange_bytes_, bytes);
    exchange_blocks_ = std::max(exchange_blocks_, count_bits(fragment));
  }
}

// ---- to the peer ----

void PairBlocks::send(PairExchange& exchange) {
  if (exchange.initiated && exchange.vote) return;  // the acceptor has voted and uses no further block
  const size_t limit = std::min<size_t>(exchange.send_credit, exchange.blocks.count());
  for (; exchange.send_next < limit; ++exchange.send_next) {
    if (to_send(exchange, exchange.send_next)) send_one(exchange, exchange.send_next);
  }
}

bool PairBlocks::to_send(const PairExchange& exchange, uint32_t index) const {
  return test_bit(fragments_[exchange.fragment], index) && (!exchange.vote || test_bit(*exchange.vote, index));
}

void PairBlocks::send_one(PairExchange& exchange, uint32_t index) {
  outbox_.send(exchange.peer, BlockPayload{exchange.xid, index, 0}, exchange.own->blocks[index]);
  exchange.bytes_sent += exchange.own->blocks[index].size;
}

bool PairBlocks::may_come_early() const {
  return exchange_bytes_ <= eager_bytes_max_ && exchange_blocks_ <= EarlyPairBlocks::kBlocksPerPeerMax;
}

uint32_t PairBlocks::last_of(uint32_t fragment) const {
  size_t last = count() - 1;
  while (!test_bit(fragments_[fragment], last)) --last;
  return static_cast<uint32_t>(last);
}

void PairBlocks::send_all(PairExchange& exchange) {
  exchange.send_credit = static_cast<uint32_t>(count());
  send(exchange);
}

void PairBlocks::grant(PairExchange& exchange, uint32_t credit) {
  const uint32_t before = std::min<uint32_t>(exchange.send_credit, static_cast<uint32_t>(count()));
  exchange.send_credit = std::max(exchange.send_credit, credit);
  keeps_pace(exchange, std::min<uint32_t>(exchange.send_credit, static_cast<uint32_t>(count())) - before);
  if (exchange.agreed) send(exchange);
}

bool PairBlocks::send_missing(PairExchange& exchange, const Bitmap& blocks) {
  const bool of_use = !(exchange.initiated && exchange.vote);  // after its vote the acceptor uses no further block
  const size_t limit = kMissingMax * exchange.blocks.due_count();
  if (exchange.sent_again >= limit || !of_use || !fits(blocks, count())) return false;
  for (uint32_t index = 0; index < exchange.send_next && exchange.sent_again < limit; ++index) {
    if (!test_bit(blocks, index) || !test_bit(fragments_[exchange.fragment], index)) continue;
    ++exchange.sent_again;
    send_one(exchange, index);
  }
  return true;
}

// ---- the pace ----

// The last window may have no sign but the vote.
void PairBlocks::expect_pace(PairExchange& exchange) const { exchange.slow_at = clock_.now() + slack(); }

Duration PairBlocks::slack() const {
  const double window = std::min(1.0, static_cast<double>(kCreditBytes) / static_cast<double>(exchange_bytes_));
  return std::max(from_seconds(seconds(deadline_max_) * window), std::min(kSlackMin, deadline_max_));
}

void PairBlocks::keeps_pace(PairExchange& exchange, uint32_t blocks) const {
  if (exchange.slow_at == TimePoint::max()) return;
  const double part = static_cast<double>(blocks) / static_cast<double>(exchange.blocks.due_count());
  exchange.slow_at = std::min(exchange.slow_at + from_seconds(seconds(deadline_max_) * part), clock_.now() + slack());
}

// ---- from the peer ----

Duration PairBlocks::usual_gap(const PairExchange& exchange) const {
  const RobustWindow& gaps = gaps_[exchange.initiated];
  return gaps.size() == 0 ? kGapUnknown : std::max(from_seconds(gaps.median()), kGapMin);
}

void PairBlocks::watch(PairExchange& exchange) {
  exchange.last_block_at = clock_.now();
  exchange.ask_missing_at = clock_.now() + 2 * usual_gap(exchange);
}

// The longest gap of a stream is what its kind makes usual: blocks that wait for credit come in bursts. `continues`:
// this block was not overtaken by another.
void PairBlocks::came(PairExchange& exchange, bool continues) {
  if (!exchange.last_block_at) return;
  const TimePoint now = clock_.now();
  const Duration gap = now - *exchange.last_block_at;
  if (continues) exchange.longest_gap = std::max(exchange.longest_gap, gap);
  const bool ended = continues && exchange.blocks.last_arrived() && exchange.asked_last == 0;
  if (ended) gaps_[exchange.initiated].add(seconds(exchange.longest_gap));
  exchange.last_block_at = now;
  const bool asks = exchange.blocks.missing_count() > 0 && exchange.asked_missing < kMissingMax;
  exchange.ask_missing_at = asks ? std::max(exchange.missing_due_at, now + 2 * usual_gap(exchange)) : TimePoint::max();
}

bool PairBlocks::lacks(const PairExchange& exchange, size_t index) const {
  const bool wanted = !(exchange.initiated && exchange.vote) || test_bit(*exchange.vote, index);
  return wanted && exchange.blocks.verdict(index) == BlockVerdict::kMissing;
}

Bitmap PairBlocks::overtaken(const PairExchange& exchange) const {
  Bitmap blocks = make_bitmap(count());
  for (size_t i = 0; i < exchange.blocks.received_below(); ++i) {
    if (lacks(exchange, i)) set_bit(blocks, i);
  }
  return blocks;
}

// One at most, of those that the peer may have sent.
Bitmap PairBlocks::last_missing(const PairExchange& exchange) const {
  Bitmap blocks = make_bitmap(count());
  size_t index = exchange.blocks.credit();
  while (index > exchange.blocks.received_below() && !lacks(exchange, index - 1)) --index;
  if (index > exchange.blocks.received_below()) set_bit(blocks, index - 1);
  return blocks;
}

void PairBlocks::ask_missing(PairExchange& exchange) {
  const TimePoint now = clock_.now();
  Bitmap blocks = overtaken(exchange);
  if (count_bits(blocks) > 0) {
    exchange.missing_due_at = now + exchange.repeat_after;
    exchange.ask_missing_at = ++exchange.asked_missing < kMissingMax ? exchange.missing_due_at : TimePoint::max();
  } else {
    blocks = last_missing(exchange);
    exchange.ask_missing_at = now + exchange.repeat_after * (1 << std::min(exchange.asked_last++, kDoublingsMax));
  }
  if (count_bits(blocks) > 0) outbox_.send(exchange.peer, Missing{exchange.xid, std::move(blocks)});
}

bool PairBlocks::receive(PairExchange& exchange, const BlockPayload& block, const SharedBytes& payload) {
  const bool wanted = exchange.initiated || !exchange.vote;
  const bool expected = block.stage == 0 && block.index < exchange.blocks.count() && wanted &&
                        exchange.blocks.verdict(block.index) == BlockVerdict::kMissing;
  if (!expected) return false;
  exchange.bytes_received += payload.size;
  const bool continues = block.index >= exchange.blocks.received_below();
  exchange.blocks.arrived(block.index, payload);
  came(exchange, continues);
  keeps_pace(exchange, 1);
  if (payload.size > bytes_max(block.index)) {
    report(exchange.xid, exchange.peer, block.index, BlockVerdict::kRefused, {});
    return true;
  }
  judge(exchange, block.index);
  next_credit(exchange);
  return true;
}

void PairBlocks::next_credit(PairExchange& exchange) {
  const std::optional<uint32_t> credit = exchange.blocks.next_credit();
  if (credit) outbox_.send(exchange.peer, Credit{exchange.xid, *credit});
  const bool waiting = !exchange.blocks.all_judged() && exchange.blocks.due_count() > window_;
  exchange.credit_repeat_at = waiting ? clock_.now() + credit_repeat(exchange) : TimePoint::max();
}

Duration PairBlocks::credit_repeat(const PairExchange& exchange) {
  return std::min(exchange.deadline / kCreditRepeats, kCreditRepeatMax);
}

void PairBlocks::repeat_credit(PairExchange& exchange) {
  outbox_.send(exchange.peer, Credit{exchange.xid, exchange.blocks.credit()});
  exchange.credit_repeat_at = clock_.now() + credit_repeat(exchange);
}

void PairBlocks::judge(const PairExchange& exchange, uint32_t index) {
  auto job = std::make_shared<Judgement>(
      Judgement{index, layout_.blocks[index].element_count, exchange.own, exchange.blocks.payload(index)});
  auto done = [this, job, still_here = std::weak_ptr<int>(alive_), xid = exchange.xid, peer = exchange.peer, index] {
    if (!still_here.expired()) report(xid, peer, index, job->verdict, job->stats);
  };
  worker_.submit([job, &codec = codec_] { job->decide(codec); }, std::move(done));
}

void PairBlocks::report(const ExchangeId& xid, const PeerId& peer, uint32_t index, BlockVerdict verdict,
                        const PairStats& stats) {
  if (verdict == BlockVerdict::kRefused) ++counts_.refused;
  if (verdict == BlockVerdict::kLeftOut) ++counts_.left_out;
  on_judged_(xid, peer, index, verdict, stats);
}

void PairBlocks::fill(Delta& delta, PairExchange& exchange, const Bitmap& decided, bool keep) const {
  delta.own.resize(count());
  delta.peer.resize(count());
  delta.blocks = make_bitmap(count());
  for (size_t i = 0; i < count(); ++i) {
    if (!test_bit(decided, i) || exchange.blocks.stats(i).squared_distance == 0) continue;
    delta.own[i] = exchange.own->blocks[i];
    if (keep) delta.peer[i] = exchange.blocks.payload(i);
    set_bit(delta.blocks, i);
  }
  if (!keep) delta.peer = exchange.blocks.take(delta.blocks);
}

// ---- what came of it ----

double PairBlocks::distance(const PairExchange& exchange, const Bitmap& blocks, size_t param_blocks) const {
  double sum = 0;
  size_t elements = 0;
  for (size_t i = 0; i < exchange.blocks.count(); ++i) {
    if (!test_bit(blocks, i) || i >= param_blocks) continue;
    sum += exchange.blocks.stats(i).squared_distance;
    elements += layout_.blocks[i].element_count;
  }
  return elements > 0 ? std::sqrt(sum / static_cast<double>(elements)) : -1;
}

// Failed exchanges give lessons too: a block that wraps every time would otherwise never get a wider step. Most codecs
// learn from a few bytes of a payload or none; the rest is freed with the exchange.
std::vector<BlockLesson> PairBlocks::lessons(const PairExchange& exchange) const {
  const auto beginning = [&](const SharedBytes& payload) {
    const size_t size = std::min(payload.size, codec_.learnable_bytes(payload.size));
    return size == payload.size ? payload : SharedBytes::copy_of(payload.span().first(size));
  };
  std::vector<BlockLesson> found;
  for (size_t i = 0; i < exchange.blocks.count(); ++i) {
    const BlockVerdict verdict = exchange.blocks.verdict(i);
    if (verdict != BlockVerdict::kPassed && verdict != BlockVerdict::kLeftOut) continue;
    const SharedBytes& own = exchange.own->blocks[i];
    if (codec_.learnable_bytes(own.size) == 0) continue;
    found.push_back({static_cast<uint32_t>(i),
                     verdict == BlockVerdict::kPassed ? PairStatus::kOk : PairStatus::kLeftOut,
                     exchange.blocks.stats(i), beginning(own), beginning(exchange.blocks.payload(i))});
  }
  return found;
}

}  // namespace starling
