#include "agent/observe/exchange_sums.h"

#include <algorithm>
#include <utility>

namespace starling {
namespace {

template <typename Counts>
void count(const std::string& outcome, Counts& counts) {
  if (outcome == "done") ++counts.done;
  if (outcome == "late") ++counts.late;
  if (outcome == "failed") ++counts.failed;
  if (outcome == "busy") ++counts.busy;
}

}  // namespace

void ExchangeSums::on(const Event& event) {
  const auto* exchange = std::get_if<ExchangeEnded>(&event);
  if (every_ <= Duration::zero()) return next_.on(event);
  const bool last = std::holds_alternative<Finished>(event);
  if (ended_ > 0 && (last || clock_.now() - began_ >= every_)) pass_on_sums();
  if (exchange == nullptr) return next_.on(event);
  add(*exchange);
}

void ExchangeSums::add(const ExchangeEnded& exchange) {
  if (ended_++ == 0) began_ = clock_.now();
  count(exchange.outcome, sums_);
  sums_.initiated += exchange.initiated;
  sums_.clipped += exchange.scale < 1;
  if (exchange.outcome == "done" || exchange.outcome == "late") {
    ++timed_;
    sums_.ms = sums_.ms.value_or(0) + exchange.ms;
    sums_.ms_max = std::max(sums_.ms_max.value_or(0), exchange.ms);
  }
  sums_.blocks += exchange.blocks;
  sums_.blocks_total += exchange.blocks_total;
  sums_.bytes_out += exchange.bytes_out;
  sums_.bytes_in += exchange.bytes_in;
  if (exchange.distance) {
    ++measured_;
    sums_.distance = sums_.distance.value_or(0) + *exchange.distance;
  }
  sums_.steps = exchange.steps;
  ExchangesWith& with = partners_[exchange.peer];
  with.peer = exchange.peer;
  count(exchange.outcome, with);
}

void ExchangeSums::pass_on_sums() {
  sums_.seconds = seconds(clock_.now() - began_);
  if (sums_.ms) *sums_.ms /= static_cast<double>(timed_);
  if (sums_.distance) *sums_.distance /= static_cast<double>(measured_);
  for (auto& [peer, with] : partners_) sums_.with.push_back(std::move(with));
  next_.on(sums_);
  sums_ = {};
  partners_.clear();
  ended_ = timed_ = measured_ = 0;
}

}  // namespace starling
