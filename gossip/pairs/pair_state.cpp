#include "gossip/pairs/pair_state.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "gossip/exchange/bitmap.h"
#include "gossip/exchange/coefficients.h"
#include "kernels/check.h"

namespace starling {

PairState::PairState(const PairwiseOptions& options, const Layout& layout, const PairBlocks& blocks, const Clock& clock)
    : layout_(layout),
      blocks_(blocks),
      clock_(clock),
      param_blocks_(options.param_blocks),
      by_turns_(options.by_turns),
      guarded_(options.clip > 0),
      fragments_(options.self, options.fragments),
      guards_(options.fragments, ClipGuard(options.clip)),
      settling_guards_(options.fragments, SettlingGuard(options.fragments)) {}

// ---- the snapshot ----

void PairState::retract() {
  retracted_ = snapshot_ != nullptr || (by_turns_ && retracted_);
  snapshot_ = nullptr;
}

void PairState::withdraw() {
  next_at_.reset();
  steps_time_ = {};
  retracted_ = false;
  snapshot_ = nullptr;
}

void PairState::adopt(std::shared_ptr<const Snapshot> next, const SnapshotBudget& budget) {
  STARLING_CHECK(next->blocks.size() == layout_.blocks.size());
  STARLING_CHECK(mass_is_sane(next->mass));
  const TimePoint now = clock_.now();
  if (snapshot_ != nullptr || retracted_) publish_interval_ = now - published_at_;
  published_at_ = now;
  next_at_ = next->next_at;
  steps_time_ = next_at_ ? *next_at_ - now - next->job : Duration::zero();
  boundary_ = next->boundary;
  if (!next->settling) {
    for (SettlingGuard& guard : settling_guards_) guard.begin_anew();
  }
  retracted_ = outdated_ = false;
  snapshot_ = std::move(next);
  budget_ = budget;
  for (double offer : decided_offers_) budget_.hold(offer);
}

std::optional<TimePoint> PairState::next_at() const {
  return next_at_ && *next_at_ > clock_.now() ? next_at_ : std::nullopt;
}

void PairState::tell_steps(Duration between_boundaries) {
  const auto us = std::chrono::ceil<std::chrono::microseconds>(between_boundaries).count();
  steps_us_ = static_cast<uint32_t>(std::clamp<int64_t>(us, 0, UINT32_MAX));
}

Duration PairState::until_next_snapshot() const { return published_at_ + publish_interval_ - clock_.now(); }

// ---- the end of an exchange ----

bool PairState::pass_guard(PairExchange& exchange, const Bitmap& blocks) {
  exchange.distance = blocks_.distance(exchange, blocks, param_blocks_);
  if (exchange.distance < 0) return true;  // no params among the blocks
  // Until it knows who is far, it would have to clip, and the mean of models that agree would be another.
  if (guarded_ && exchange.own->settling && !exchange.own->far) return false;
  if (!std::isfinite(exchange.distance) || (!guarded_ && is_far(exchange, exchange.distance))) {
    exchange.scale = 0;
    ++counters_.guard_refused;
    return false;
  }
  if (exchange.scale > 0) exchange.scale = judge(exchange);
  return true;
}

bool PairState::is_far(const PairExchange& exchange, double distance) const {
  const std::optional<Far>& far = exchange.own->far;
  return far && settling_guards_[exchange.fragment].is_far(exchange.peer, distance, *far);
}

double PairState::judge(PairExchange& exchange) {
  const Snapshot& own = *exchange.own;
  if (own.far) return is_far(exchange, exchange.distance) ? 0 : 1;
  ClipGuard& guard = guards_[exchange.fragment];
  const bool again = std::exchange(exchange.judged, true);
  return again ? guard.scale(exchange.distance, own.drift)
               : guard.judge(exchange.peer, exchange.distance, own.drift, !own.settling);
}

void PairState::forget(const PeerId& peer) {
  fragments_.forget(peer);
  for (ClipGuard& guard : guards_) guard.forget(peer);
  for (SettlingGuard& guard : settling_guards_) guard.forget(peer);
  coarse_steps_.forget(peer);
}

float PairState::coefficient(const PairExchange& exchange) const {
  const double offer = exchange.scale * std::min(exchange.own_offer, exchange.peer_offer);
  const double proposer_mass = exchange.initiated ? exchange.own->mass : exchange.peer_mass;
  const double acceptor_mass = exchange.initiated ? exchange.peer_mass : exchange.own->mass;
  const PairCoefficients both = pair_coefficients(offer, proposer_mass, acceptor_mass);
  return exchange.initiated ? both.proposer : both.acceptor;
}

// `keep`: the exchange may need the payloads again.
void PairState::queue(PairExchange& exchange, const Bitmap& blocks, float coefficient, bool keep) {
  Delta& delta = decided_.emplace_back();
  blocks_.fill(delta, exchange, blocks, keep);
  delta.coefficient = coefficient;
}

void PairState::state_moved() {
  if (by_turns_) retract();
}

void PairState::apply_early(PairExchange& exchange, const Bitmap& blocks) {
  if (exchange.scale == 0) return;
  exchange.early_coefficient = coefficient(exchange);
  exchange.early_blocks = blocks;
  queue(exchange, blocks, exchange.early_coefficient, true);
  decided_.back().early = exchange.early_number = ++early_deltas_;
  fragments_.mixed(exchange.peer, exchange.fragment);
  if (on_met) on_met(exchange, true);
  state_moved();
}

void PairState::take_back(PairExchange& exchange) {
  queue(exchange, exchange.early_blocks, -exchange.early_coefficient, true);
  decided_.back().taken_back = exchange.early_number;
  exchange.early_coefficient = 0;
  fragments_.taken_back(exchange.peer, exchange.fragment);
  ++counters_.taken_back;
  state_moved();
}

void PairState::applied(PairExchange& exchange, const CommitTerms& terms) {
  keep_lessons(exchange);
  exchange.distance = blocks_.distance(exchange, terms.blocks, param_blocks_);
  if (exchange.scale == 0) return refused(exchange);
  const float decided = coefficient(exchange);
  const bool early = exchange.early_coefficient != 0;
  const bool as_decided = exchange.early_blocks == terms.blocks;
  count_blocks(exchange.blocks, terms.blocks);
  const bool late_blocks = exchange.blocks.late_outside(terms.blocks);
  if (early && !as_decided) take_back(exchange);
  if (!early || !as_decided) {
    queue(exchange, terms.blocks, decided, false);
    fragments_.mixed(exchange.peer, exchange.fragment);
    state_moved();
  }
  if (!early && on_met) on_met(exchange, true);
  if (on_ended) on_ended(exchange, true);
  if (exchange.holds_offer) decided_offers_.push_back(exchange.own_offer);
  report(exchange, late_blocks ? ExchangeOutcome::kLate : ExchangeOutcome::kDone,
         static_cast<uint32_t>(count_bits(terms.blocks)), Duration::zero());
  ++(late_blocks ? counters_.late : counters_.done);
  const double gain = exchange.scale * std::min(exchange.own_offer, exchange.peer_offer);
  counters_.gain_permille += static_cast<uint64_t>(std::lround(1000 * gain));
  if (exchange.own->settling && guarded_) {
    const double mixed = static_cast<double>(count_bits(terms.blocks));
    const double whole = static_cast<double>(exchange.blocks.due_count());
    const double part = mixed / whole * static_cast<double>(decided);
    SettlingGuard& guard = settling_guards_[exchange.fragment];
    const std::optional<Far>& far = exchange.own->far;
    guard.drawn(exchange.peer, part, far && guard.is_beyond_own(exchange.peer, exchange.distance, *far));
  }
  if (exchange.scale == 1) return;
  ++counters_.clipped;
  guards_[exchange.fragment].drawn(exchange.peer, exchange.distance, gain / 2, momentum_mixed(exchange, terms.blocks));
}

// Where those of two agents differ too much, a codec of differences cannot tell them, and each goes on as before.
bool PairState::momentum_mixed(const PairExchange& exchange, const Bitmap& mixed) const {
  for (size_t i = 0; i < exchange.blocks.count(); ++i) {
    const bool due = i >= param_blocks_ && exchange.blocks.verdict(i) != BlockVerdict::kNotDue;
    if (due && !test_bit(mixed, i)) return false;
  }
  return true;
}

// The peer may have moved all the same.
void PairState::refused(PairExchange& exchange) {
  ++counters_.guard_refused;
  ++counters_.failed;
  if (exchange.early_coefficient != 0) {  // all of its blocks were near; those that both have alone are not
    take_back(exchange);
  } else if (exchange.initiated && on_met) {
    on_met(exchange, false);
  }
  if (on_ended) on_ended(exchange, true);
  if (exchange.holds_offer) budget_.give_back(exchange.own_offer);
  report(exchange, ExchangeOutcome::kFailed, 0, Duration::zero());
}

void PairState::failed(PairExchange& exchange, ExchangeOutcome outcome, Duration free_in) {
  const bool learned = keep_lessons(exchange);
  const bool wrapped = learned && count_bits(exchange.blocks.passed()) == 0;
  // Of agents that settle, two must not agree long before the others do: these would be far from them.
  if (wrapped && exchange.own == snapshot_ && !snapshot_->settling) outdated_ = true;
  if (exchange.early_coefficient != 0) {
    take_back(exchange);
  } else if ((exchange.initiated || exchange.undecided) && on_met) {
    on_met(exchange, false);
  }
  if (exchange.undecided) in_vain(exchange);
  if (exchange.holds_offer) budget_.give_back(exchange.own_offer);
  report(exchange, outcome, 0, free_in);
  if (outcome != ExchangeOutcome::kFailed) return;
  ++counters_.failed;
  if (exchange.undecided) ++(exchange.agreed ? counters_.undecided : counters_.unanswered);
}

void PairState::in_vain(PairExchange& exchange) {
  if (!std::exchange(exchange.in_vain, true) && on_ended) on_ended(exchange, false);
}

// Many answers include a wait for the other's turn, so the shortest counts. It rises slowly: the link may have changed.
void PairState::answered_after(Duration duration) {
  const bool first = round_trip_ == Duration::zero();
  if (answers_wait_ && !first) return;
  round_trip_ = first ? duration : std::min(duration, round_trip_ + round_trip_ / 16);
}

void PairState::count_blocks(const PeerBlocks& blocks, const Bitmap& mixed) {
  for (size_t i = 0; i < blocks.count(); ++i) {
    const BlockVerdict verdict = blocks.verdict(i);
    if (verdict == BlockVerdict::kNotDue) continue;
    const bool refused = verdict == BlockVerdict::kRefused || verdict == BlockVerdict::kLeftOut;
    ++tally_.due;
    ++(test_bit(mixed, i) ? tally_.counted : refused ? tally_.refused : tally_.missing);
  }
}

void PairState::report(const PairExchange& exchange, ExchangeOutcome outcome, uint32_t blocks_mixed, Duration free_in) {
  if (reports_.size() >= kReportsMax) reports_.erase(reports_.begin());
  ExchangeReport& report = reports_.emplace_back();
  report.peer = exchange.peer;
  report.initiated = exchange.initiated;
  report.outcome = outcome;
  report.duration = clock_.now() - exchange.started_at;
  report.blocks_mixed = blocks_mixed;
  report.blocks_total = static_cast<uint32_t>(exchange.blocks.due_count());
  report.payload_bytes_sent = exchange.bytes_sent;
  report.payload_bytes_received = exchange.bytes_received;
  report.distance = exchange.distance;
  report.scale = exchange.scale;
  report.peer_round = exchange.peer_round;
  report.free_in = free_in;
  if (outcome == ExchangeOutcome::kFailed && exchange.scale == 0) report.left_out = {exchange.peer};
}

// A far model would make the steps coarse with which all others are met. The peer may have refused first.
bool PairState::teaches(const PairExchange& exchange) const {
  if (exchange.scale == 0) return false;
  const double distance = blocks_.distance(exchange, exchange.blocks.passed(), param_blocks_);
  return distance < 0 || !is_far(exchange, distance);
}

bool PairState::keep_lessons(const PairExchange& exchange) {
  if (!teaches(exchange)) return false;
  std::vector<BlockLesson> found = blocks_.lessons(exchange);
  if (found.empty()) return false;
  const auto comparable = [&](const BlockLesson& lesson) { return blocks_.comparable(lesson); };
  if (!coarse_steps_.follow(exchange.peer, std::all_of(found.begin(), found.end(), comparable))) {
    std::erase_if(found, std::not_fn(comparable));
  }
  if (lessons_.size() >= kLessonsMax) lessons_.pop_front();
  lessons_.push_back(std::move(found));
  return !lessons_.back().empty();
}

Decided PairState::take_decided() {
  decided_offers_.clear();  // the next snapshot will contain these deltas
  Decided taken{std::exchange(decided_, {}), {}};
  for (std::vector<BlockLesson>& of_one : std::exchange(lessons_, {})) {
    std::move(of_one.begin(), of_one.end(), std::back_inserter(taken.lessons));
  }
  return taken;
}

}  // namespace starling
