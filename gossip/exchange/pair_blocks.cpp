#include "gossip/exchange/pair_blocks.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "gossip/exchange/fragments.h"
#include "gossip/exchange/round_stream.h"
#include "gossip/limits.h"
#include "kernels/check.h"

namespace starling {

PairBlocks::PairBlocks(const Layout& layout, const Codec& codec, Worker& worker, const Clock& clock, Outbox& outbox,
                       OnJudged on_judged, uint32_t fragments, size_t eager_bytes_max)
    : layout_(layout), codec_(codec), worker_(worker), clock_(clock), outbox_(outbox),
      on_judged_(std::move(on_judged)), parts_(layout, codec), fragments_(cut_fragments(layout, fragments)),
      eager_bytes_max_(eager_bytes_max) {
  STARLING_CHECK(!layout.blocks.empty() && count() <= kBlocksMax);
  if (in_halves()) {
    STARLING_CHECK(fragments == 1);
    fragments_[0] = make_bitmap(count());
    for (size_t i = 0; i < count(); ++i) set_bit(fragments_[0], i);
  }
  size_t largest = 1;
  for (size_t i = 0; i < count(); ++i) {
    payload_bytes_total_ += parts_[i].bytes_max;
    largest = std::max(largest, parts_[i].bytes_max);
  }
  window_ = stream_window(largest);
  for (const Bitmap& fragment : fragments_) {
    size_t bytes = 0;
    for (size_t i = 0; i < count(); ++i) bytes += test_bit(fragment, i) ? parts_[i].bytes_max : 0;
    STARLING_CHECK(count_bits(fragment) > 0);
    exchange_bytes_ = std::max(exchange_bytes_, bytes);
  }
}

// ---- to the peer ----

void PairBlocks::send(PairExchange& exchange) {
  if (exchange.initiated && exchange.vote) return;   // the acceptor has voted and uses no further block
  const size_t limit = std::min<size_t>(exchange.send_credit, exchange.blocks.count());
  if (exchange.halves) {
    for (uint32_t index = 0; index < limit; ++index) {
      if (!test_bit(exchange.halves->made, index) || test_bit(exchange.halves->sent, index)) continue;
      set_bit(exchange.halves->sent, index);
      if (to_send(exchange, index)) send_one(exchange, index);
    }
    return;
  }
  for (; exchange.send_next < limit; ++exchange.send_next) {
    if (to_send(exchange, exchange.send_next)) send_one(exchange, exchange.send_next);
  }
}

bool PairBlocks::to_send(const PairExchange& exchange, uint32_t index) const {
  return test_bit(fragments_[exchange.fragment], index) && (!exchange.vote || test_bit(*exchange.vote, index));
}

const SharedBytes& PairBlocks::own(const PairExchange& exchange, uint32_t index) const {
  return parts_[index].kind == PartKind::kWhole ? exchange.own->blocks[index] : exchange.halves->payloads[index];
}

void PairBlocks::send_one(PairExchange& exchange, uint32_t index) {
  outbox_.send(exchange.peer, BlockPayload{exchange.xid, index, 0}, own(exchange, index));
  exchange.bytes_sent += own(exchange, index).size;
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
  exchange.send_credit = std::max(exchange.send_credit, credit);
  if (exchange.agreed) send(exchange);
}

bool PairBlocks::send_missing(PairExchange& exchange, const Bitmap& blocks) {
  const bool of_use = !(exchange.initiated && exchange.vote);   // after its vote the acceptor uses no further block
  const size_t limit = kMissingMax * exchange.blocks.due_count();
  if (exchange.sent_again >= limit || !of_use || !fits(blocks, count())) return false;
  const size_t end = exchange.halves ? count() : exchange.send_next;
  for (uint32_t index = 0; index < end && exchange.sent_again < limit; ++index) {
    if (!test_bit(blocks, index) || !test_bit(fragments_[exchange.fragment], index)) continue;
    if (exchange.halves && !test_bit(exchange.halves->sent, index)) continue;
    ++exchange.sent_again;
    send_one(exchange, index);
  }
  return true;
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

// The proposer's second halves cannot come before a round trip.
bool PairBlocks::between_turns(const PairExchange& exchange) const {
  if (!exchange.halves || exchange.initiated || exchange.second_turn) return false;
  for (size_t i = 0; i < layout_.blocks.size(); ++i) {
    if (exchange.blocks.verdict(i) == BlockVerdict::kMissing) return false;
  }
  return true;
}

// The longest gap of a stream is what its kind makes usual: blocks that wait for credit come in bursts. `continues`:
// this block was not overtaken by another.
void PairBlocks::came(PairExchange& exchange, uint32_t index, bool continues) {
  if (!exchange.last_block_at) return;
  const TimePoint now = clock_.now();
  const bool waited_for_turn = !exchange.initiated && parts_[index].kind == PartKind::kSecond && !exchange.second_turn;
  exchange.second_turn |= waited_for_turn;
  const Duration gap = now - *exchange.last_block_at;
  if (continues && !waited_for_turn) exchange.longest_gap = std::max(exchange.longest_gap, gap);
  const bool ended = continues && exchange.blocks.last_arrived() && exchange.asked_last == 0;
  if (ended) gaps_[exchange.initiated].add(seconds(exchange.longest_gap));
  exchange.last_block_at = now;
  const bool asks = exchange.blocks.missing_count() > 0 && exchange.asked_missing < kMissingMax;
  const Duration wait = between_turns(exchange) ? exchange.repeat_after : 2 * usual_gap(exchange);
  exchange.ask_missing_at = asks ? std::max(exchange.missing_due_at, now + wait) : TimePoint::max();
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
  came(exchange, block.index, continues);
  if (payload.size > parts_[block.index].bytes_max) {
    report(exchange.xid, exchange.peer, block.index, BlockVerdict::kRefused, {});
    return true;
  }
  if (!waits_for_first(exchange, block.index)) judge(exchange, block.index);
  next_credit(exchange);
  return true;
}

void PairBlocks::next_credit(PairExchange& exchange) {
  const std::optional<uint32_t> credit = exchange.blocks.next_credit();
  if (credit) outbox_.send(exchange.peer, Credit{exchange.xid, *credit});
  const bool waiting = !exchange.blocks.all_judged() && exchange.blocks.due_count() > window_;
  exchange.credit_repeat_at = waiting ? clock_.now() + exchange.deadline / kCreditRepeats : TimePoint::max();
}

void PairBlocks::repeat_credit(PairExchange& exchange) {
  outbox_.send(exchange.peer, Credit{exchange.xid, exchange.blocks.credit()});
  exchange.credit_repeat_at = clock_.now() + exchange.deadline / kCreditRepeats;
}

void PairBlocks::judge(const PairExchange& exchange, uint32_t index) {
  const PairPart& part = parts_[index];
  auto job = std::make_shared<PairJudgement>(PairJudgement{part, layout_.blocks[part.block], exchange.own,
                                                           exchange.halves, index, exchange.blocks.payload(index)});
  auto done = [this, job, still_here = std::weak_ptr<int>(alive_), xid = exchange.xid,
               peer = exchange.peer, index] {
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

// ---- halves ----

void PairBlocks::begin(PairExchange& exchange) {
  if (!in_halves()) return;
  exchange.halves = std::make_shared<OwnHalves>(count());
  for (size_t i = 0; i < count(); ++i) {
    if (parts_[i].kind == PartKind::kWhole) set_bit(exchange.halves->made, i);
  }
  auto done = [this, still_here = std::weak_ptr<int>(alive_), halves = exchange.halves, xid = exchange.xid,
               peer = exchange.peer] {
    if (still_here.expired()) return;
    for (size_t i = 0; i < count(); ++i) {
      if (parts_[i].kind == PartKind::kFirst) set_bit(halves->made, i);
    }
    on_made(xid, peer);
  };
  const FirstHalves firsts{layout_.blocks, exchange.xid, exchange.own, exchange.halves};
  worker_.submit([firsts] { firsts.make(); }, std::move(done));
}

// A second half that overtook its first.
bool PairBlocks::waits_for_first(const PairExchange& exchange, uint32_t index) const {
  if (parts_[index].kind != PartKind::kSecond) return false;
  const BlockVerdict first = exchange.blocks.verdict(parts_[index].other);
  return first == BlockVerdict::kMissing || first == BlockVerdict::kJudging;
}

void PairBlocks::judged(PairExchange& exchange, uint32_t index, BlockVerdict verdict, const PairStats& stats) {
  exchange.blocks.judged(index, verdict, stats);
  if (parts_[index].kind != PartKind::kFirst) return;
  const uint32_t second = parts_[index].other;
  const BlockVerdict state = exchange.blocks.verdict(second);
  if (verdict != BlockVerdict::kPassed) {   // neither end can make anything of the other half
    if (state == BlockVerdict::kMissing) exchange.blocks.not_coming(second);
    if (state == BlockVerdict::kJudging) exchange.blocks.judged(second, BlockVerdict::kLeftOut, {});
    return;
  }
  set_bit(exchange.halves->made, second);
  if (state == BlockVerdict::kJudging) judge(exchange, second);
  send(exchange);
}

Bitmap PairBlocks::passed(const PairExchange& exchange) const {
  return parts_.without_lone_halves(exchange.blocks.passed());
}

void PairBlocks::release_matrices(PairExchange& exchange) const {
  if (!exchange.halves) return;
  auto rest = std::make_shared<Snapshot>(*exchange.own);
  for (size_t i = 0; i < rest->blocks.size(); ++i) {
    if (parts_[i].kind != PartKind::kWhole) rest->blocks[i] = {};
  }
  exchange.own = std::move(rest);
}

void PairBlocks::fill(Delta& delta, PairExchange& exchange, const Bitmap& decided, bool keep) const {
  const size_t blocks = layout_.blocks.size();
  const auto joined = [](const SharedBytes& first, const SharedBytes& second) {
    std::vector<std::byte> both(first.span().begin(), first.span().end());
    both.insert(both.end(), second.span().begin(), second.span().end());
    return SharedBytes::take(std::move(both));
  };
  delta.own.resize(blocks);
  delta.peer.resize(blocks);
  delta.blocks = make_bitmap(blocks);
  for (size_t i = 0; i < blocks; ++i) {
    const PairPart& part = parts_[i];
    if (!test_bit(decided, i)) continue;
    if (part.kind == PartKind::kWhole) {
      if (exchange.blocks.stats(i).squared_distance == 0) continue;
      delta.own[i] = exchange.own->blocks[i];
      if (keep) delta.peer[i] = exchange.blocks.payload(i);
    } else if (test_bit(decided, part.other)) {
      delta.own[i] = joined(own(exchange, i), own(exchange, part.other));
      delta.peer[i] = joined(exchange.blocks.payload(i), exchange.blocks.payload(part.other));
    } else {
      continue;
    }
    set_bit(delta.blocks, i);
  }
  if (keep) return;
  std::vector<SharedBytes> taken = exchange.blocks.take(decided);
  for (size_t i = 0; i < blocks; ++i) {
    if (parts_[i].kind == PartKind::kWhole && test_bit(delta.blocks, i)) delta.peer[i] = std::move(taken[i]);
  }
}

// ---- what came of it ----

double PairBlocks::distance(const PairExchange& exchange, const Bitmap& blocks, size_t param_blocks) const {
  double sum = 0;
  size_t elements = 0;
  for (size_t i = 0; i < exchange.blocks.count(); ++i) {
    const bool counts = test_bit(blocks, i) && parts_[i].block < param_blocks && parts_[i].kind != PartKind::kFirst;
    if (!counts) continue;
    sum += exchange.blocks.stats(i).squared_distance;
    elements += layout_.blocks[parts_[i].block].element_count;
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
    if (parts_[i].kind != PartKind::kWhole) continue;
    const SharedBytes& own = exchange.own->blocks[i];
    if (codec_.learnable_bytes(own.size) == 0) continue;
    found.push_back({static_cast<uint32_t>(i),
                     verdict == BlockVerdict::kPassed ? PairStatus::kOk : PairStatus::kLeftOut,
                     exchange.blocks.stats(i), beginning(own), beginning(exchange.blocks.payload(i))});
  }
  return found;
}

}  // namespace starling
