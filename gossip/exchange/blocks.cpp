// The payloads of an exchange: sent under credits, checked on arrival, judged by the worker.
#include <algorithm>
#include <cmath>
#include <utility>

#include "gossip/exchange/bitmap.h"
#include "gossip/exchange/pairwise_impl.h"
#include "kernels/check.h"

namespace starling {

void Pairwise::Impl::send_blocks(PairExchange& exchange) {
  if (exchange.initiated && decider.vote(exchange.xid.counter) != nullptr) return;   // it has chosen already
  const size_t limit = std::min<size_t>(exchange.send_credit, exchange.blocks.count());
  for (; exchange.send_next < limit; ++exchange.send_next) {
    const uint32_t index = exchange.send_next;
    if (exchange.vote && !test_bit(*exchange.vote, index)) continue;   // it cannot be in K any more
    outbox.send(exchange.peer, BlockPayload{exchange.xid, index, 0}, exchange.own->blocks[index]);
    exchange.bytes_sent += exchange.own->blocks[index].size;
  }
}

void Pairwise::Impl::on_credit(const PeerId& from, const Credit& credit) {
  PairExchange* exchange = find(credit.xid, from);
  if (exchange == nullptr) return ignore();
  exchange->send_credit = std::max(exchange->send_credit, credit.credit);
  if (exchange->agreed) send_blocks(*exchange);
}

void Pairwise::Impl::grant_credit(PairExchange& exchange) {
  if (exchange.vote) return;
  const std::optional<uint32_t> credit = exchange.blocks.next_credit();
  if (credit) outbox.send(exchange.peer, Credit{exchange.xid, *credit});
  const bool waiting = !exchange.blocks.all_judged() && exchange.blocks.count() > window;
  exchange.credit_repeat_at = waiting ? clock.now() + exchange.deadline / kCreditRepeats : TimePoint::max();
}

void Pairwise::Impl::on_block(const PeerId& from, const BlockPayload& block, const SharedBytes& payload) {
  if (PairExchange* exchange = find(block.xid, from)) return receive(*exchange, block, payload);
  for (Late& entry : late) {
    if (entry.xid == block.xid && entry.peer == from) entry.last_arrival = clock.now();
  }
  const bool early = block.xid.proposer == from && !voter.seen(block.xid) &&
                     payload_bytes_total <= kEagerBytesMax;
  const bool stashed = early && stash.add(block, payload, clock.now() + options.deadline_max);
  if (!stashed) ignore();
}

void Pairwise::Impl::receive(PairExchange& exchange, const BlockPayload& block, const SharedBytes& payload) {
  const bool expected = block.stage == 0 && block.index < exchange.blocks.count() && !exchange.vote &&
                        exchange.blocks.verdict(block.index) == BlockVerdict::kMissing;
  if (!expected) return ignore();
  if (exchange.initiated) exchange.last_arrival = clock.now();
  exchange.bytes_received += payload.size;
  exchange.blocks.arrived(block.index, payload);
  if (payload.size > payload_bytes_max[block.index]) {   // this may end the exchange
    return on_judged(exchange.xid, block.index, BlockVerdict::kRefused, {});
  }
  judge(exchange, block.index);
  grant_credit(exchange);
}

// The job owns all it reads: the exchange may end, and this object die, before it runs. The codec may not.
void Pairwise::Impl::judge(PairExchange& exchange, uint32_t index) {
  struct Job {
    std::shared_ptr<const Snapshot> own;
    SharedBytes payload;
    BlockVerdict verdict = BlockVerdict::kRefused;
    PairStats stats;
  };
  auto job = std::make_shared<Job>(Job{exchange.own, exchange.blocks.payload(index)});
  auto run = [job, &codec = codec, index, element_count = layout.blocks[index].element_count] {
    const Bytes own = job->own->blocks[index].span();
    switch (codec.pair(own, job->payload.span(), element_count, &job->stats)) {
      case PairStatus::kOk: job->verdict = BlockVerdict::kPassed; break;
      case PairStatus::kLeftOut: job->verdict = BlockVerdict::kLeftOut; break;
      case PairStatus::kRefused: break;
    }
  };
  auto done = [this, job, still_here = std::weak_ptr<int>(alive), xid = exchange.xid, index] {
    if (!still_here.expired()) on_judged(xid, index, job->verdict, job->stats);
  };
  worker.submit(std::move(run), std::move(done));
}

void Pairwise::Impl::on_judged(const ExchangeId& xid, uint32_t index, BlockVerdict verdict,
                               const PairStats& stats) {
  if (verdict == BlockVerdict::kRefused) ++counters.blocks_refused;
  if (verdict == BlockVerdict::kLeftOut) ++counters.blocks_left_out;
  const auto it = exchanges.find(xid);
  if (it == exchanges.end()) return;
  PairExchange& exchange = it->second;
  exchange.blocks.judged(index, verdict, stats);
  if (exchange.initiated) {
    try_decide(exchange);
  } else {
    try_vote(exchange);
  }
}

// rms over the params' elements in `blocks`; negative where these hold no params.
double Pairwise::Impl::distance(const PairExchange& exchange, const Bitmap& blocks) const {
  double sum = 0;
  size_t elements = 0;
  for (size_t i = 0; i < std::min(options.param_blocks, exchange.blocks.count()); ++i) {
    if (!test_bit(blocks, i)) continue;
    sum += exchange.blocks.stats(i).squared_distance;
    elements += layout.blocks[i].element_count;
  }
  return elements > 0 ? std::sqrt(sum / static_cast<double>(elements)) : -1;
}

bool Pairwise::Impl::pass_guard(PairExchange& exchange, const Bitmap& blocks) {
  exchange.distance = distance(exchange, blocks);
  if (exchange.distance < 0) return true;   // NaN is not
  exchange.scale = guard.scale(exchange.distance);
  if (!exchange.guard_fed) guard.record(exchange.distance);
  exchange.guard_fed = true;
  return exchange.scale >= ClipGuard::kScaleMin;
}

// Whatever became of the exchange: a block that wraps again and again would otherwise never get the step it needs. Most
// codecs learn from a few bytes of a payload, or from none; the rest of it is freed here.
void Pairwise::Impl::keep_lessons(const PairExchange& exchange) {
  const auto beginning = [&](const SharedBytes& payload) {
    const size_t size = std::min(payload.size, codec.learnable_bytes(payload.size));
    return size == payload.size ? payload : SharedBytes::copy_of(payload.span().first(size));
  };
  std::vector<BlockLesson> found;
  for (size_t i = 0; i < exchange.blocks.count(); ++i) {
    const BlockVerdict verdict = exchange.blocks.verdict(i);
    if (verdict != BlockVerdict::kPassed && verdict != BlockVerdict::kLeftOut) continue;
    const SharedBytes& own = exchange.own->blocks[i];
    if (codec.learnable_bytes(own.size) == 0) continue;
    found.push_back({static_cast<uint32_t>(i),
                     verdict == BlockVerdict::kPassed ? PairStatus::kOk : PairStatus::kLeftOut,
                     exchange.blocks.stats(i), beginning(own), beginning(exchange.blocks.payload(i))});
  }
  if (found.empty()) return;
  if (lessons.size() >= kLessonsMax) lessons.pop_front();
  lessons.push_back(std::move(found));
}

}  // namespace starling
