// The open exchanges of one role (proposer, acceptor, or in doubt), by id.
#pragma once

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "gossip/pairs/pair_blocks.h"
#include "gossip/pairs/pair_exchange.h"
#include "gossip/pairs/pair_state.h"

namespace starling {

template <class Exchange>
class ExchangeTable {
 public:
  Exchange& add(Exchange exchange) {
    const ExchangeId xid = exchange.xid;
    return rows_.emplace(xid, std::move(exchange)).first->second;
  }
  void erase(const ExchangeId& xid) { rows_.erase(ExchangeId(xid)); }  // xid may be the row's own

  Exchange& at(const ExchangeId& xid) { return rows_.at(xid); }
  Exchange* find(const ExchangeId& xid, const PeerId& with) {  // nullptr: none, or with another peer
    const auto it = rows_.find(xid);
    return it != rows_.end() && it->second.peer == with ? &it->second : nullptr;
  }
  bool empty() const { return rows_.empty(); }
  auto begin() { return rows_.begin(); }
  auto begin() const { return rows_.begin(); }
  auto end() { return rows_.end(); }
  auto end() const { return rows_.end(); }

  // The ids of the wanted exchanges. The caller may erase exchanges while it walks over them.
  template <typename Wanted>
  std::vector<ExchangeId> ids(const Wanted& wanted) const {
    std::vector<ExchangeId> ids;
    for (const auto& [xid, exchange] : rows_) {
      if (wanted(exchange)) ids.push_back(xid);
    }
    return ids;
  }
  std::vector<ExchangeId> with(const PeerId& peer) const {
    return ids([&](const Exchange& exchange) { return exchange.peer == peer; });
  }
  // Exchanges with processes of the peer before `generation`, or with a process not known yet.
  std::vector<ExchangeId> with_life_before(const PeerId& peer, uint64_t generation) const {
    return ids([&](const Exchange& e) { return e.peer == peer && e.peer_generation < generation; });
  }
  uint64_t generation_of(const PeerId& peer) const {  // 0: none, or not known
    uint64_t known = 0;
    for (const auto& [xid, exchange] : rows_) {
      if (exchange.peer == peer) known = std::max(known, exchange.peer_generation);
    }
    return known;
  }
  // When tick() is needed next: for the earliest of `due` of an exchange and the repeats of its credit.
  TimePoint next_deadline(TimePoint Exchange::* due) const {
    TimePoint next = TimePoint::max();
    for (const auto& [xid, exchange] : rows_) {
      next = std::min({next, exchange.*due, exchange.slow_at, exchange.credit_repeat_at, exchange.ask_missing_at});
    }
    return next;
  }
  // Repeats the credits and asks for the missing blocks that are due. Then calls act(exchange) for each exchange that
  // has reached its `due`, or is too slow: act may erase.
  template <typename Act>
  void tick(TimePoint now, PairBlocks& blocks, TimePoint Exchange::* due, const Act& act) {
    for (auto& [xid, exchange] : rows_) {
      if (exchange.credit_repeat_at <= now) blocks.repeat_credit(exchange);
      if (exchange.ask_missing_at <= now) blocks.ask_missing(exchange);
    }
    const auto is_due = [&](const Exchange& exchange) { return std::min(exchange.*due, exchange.slow_at) <= now; };
    for (const ExchangeId& xid : ids(is_due)) act(at(xid));
  }
  void hold_offers(PairState& ledger) const {
    for (const auto& [xid, exchange] : rows_) {
      if (exchange.holds_offer) ledger.hold_offer(exchange.own_offer);
    }
  }

 private:
  std::map<ExchangeId, Exchange> rows_;
};

}  // namespace starling
