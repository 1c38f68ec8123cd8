#include "gossip/pairs/pair_admission.h"

#include <utility>

#include "gossip/exchange/coefficients.h"

namespace starling {

// False: the PROPOSE is malformed, or its exchange was seen before.
bool PairAdmission::is_news(const PeerId& from, uint64_t generation, const Propose& propose) const {
  const ExchangeId& xid = propose.xid;
  const bool sane = xid.proposer == from && xid.generation == generation && offer_is_sane(propose.offer) &&
                    propose.fragment < blocks_.fragments();
  return sane && !acceptor_.seen(xid);
}

void PairAdmission::on_propose(const PeerId& from, uint64_t generation, const Propose& propose) {
  if (!is_news(from, generation, propose)) return ledger_.ignore();
  if (ledger_.retracted() && waiting_.size() < kWaitingMax) {
    std::erase_if(waiting_, [&](const Waiting& one) { return one.from == from; });
    waiting_.push_back({from, generation, propose});
    return;
  }
  acceptor_.supersede(from);
  if (proposer_.open_with(from)) {  // both proposed at once: the proposal of the smaller id stands
    if (options_.self < from) return acceptor_.refuse(propose.xid, Duration::zero());
    proposer_.give_up(from, ExchangeOutcome::kBusy);
  }
  answer(from, propose);
}

void PairAdmission::answer_waiting() {
  for (const Waiting& one : std::exchange(waiting_, {})) on_propose(one.from, one.generation, one.propose);
}

void PairAdmission::answer(const PeerId& from, const Propose& propose) {
  if (const std::optional<Duration> free_in = busy_for(from, propose)) {
    early_.forget(from);
    return acceptor_.refuse(propose.xid, *free_in);
  }
  const Duration left = std::chrono::milliseconds(propose.deadline_ms);
  acceptor_.accept(from, propose, {ledger_.snapshot(), left, false});
  for (EarlyPairBlocks::Item& item : early_.take(propose.xid)) on_block(from, item.block, item.payload);
}

// nullopt: the proposal can be accepted. Otherwise how long the proposer should wait.
std::optional<Duration> PairAdmission::busy_for(const PeerId& from, const Propose& propose) {
  if (ledger_.snapshot() == nullptr || !mass_is_sane(propose.mass)) return options_.soon();
  if (ledger_.spent()) return ledger_.until_next_snapshot();
  if (acceptor_.votes_again(from)) return Duration::zero();
  return acceptor_.has_room() ? std::nullopt : std::optional(proposer_.deadline().current());
}

void PairAdmission::on_block(const PeerId& from, const BlockPayload& block, const SharedBytes& payload) {
  if (acceptor_.on_block(from, block, payload)) return;
  const bool early = block.xid.proposer == from && !acceptor_.seen(block.xid) && blocks_.may_come_early();
  const bool held = early && early_.add(block, payload, clock_.now() + options_.deadline_max);
  if (!held) ledger_.ignore();
}

void PairAdmission::forget(const PeerId& peer, uint64_t generation) {
  std::erase_if(waiting_, [&](const Waiting& one) { return one.from == peer && one.generation < generation; });
  early_.forget(peer);
}

}  // namespace starling
