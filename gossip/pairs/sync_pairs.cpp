#include "gossip/pairs/sync_pairs.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "kernels/check.h"

namespace starling {
namespace {

constexpr Duration kWaitMax = std::chrono::milliseconds(250);
constexpr size_t kFew = 4;                               // agents
constexpr int kWaitRoundTrips = 2, kWaitForTheSlow = 1;  // round trips

PairwiseOptions by_turns(PairwiseOptions options) {
  options.by_turns = true;
  return options;
}

}  // namespace

SyncPairs::SyncPairs(const PairwiseOptions& options, const Layout& layout, const Codec& codec, Worker& worker,
                     const Clock& clock, Outbox& outbox, PeerSampler* sampler)
    : self_(options.self),
      sampler_(sampler),
      blocks_(
          layout, codec, worker, clock, outbox,
          [this](const ExchangeId& xid, const PeerId& peer, uint32_t index, BlockVerdict verdict,
                 const PairStats& stats) {
            routes_.on_judged(xid, peer, index, verdict, stats);
            times_.is(part());
          },
          options, TurnAdmission::kEagerBytesMax),
      ledger_(by_turns(options), layout, blocks_, clock),
      proposer_(options, ledger_, blocks_, clock, outbox),
      acceptor_(options, ledger_, blocks_, clock, outbox),
      schedule_(options.self),
      admission_(options, ledger_, blocks_, proposer_, acceptor_, schedule_, clock, outbox, sampler),
      routes_(self_, ledger_, proposer_, acceptor_, admission_),
      turns_due_(options.turns),
      turns_of_many_(options.turns_of_many),
      clock_(clock),
      wait_max_(std::min(options.deadline_max / 2, kWaitMax)),
      times_(clock) {
  STARLING_CHECK(options.deadline_min.count() > 0 && options.deadline_min <= options.deadline_max);
  ledger_.on_busy_for = [this](const PeerId& peer, Duration free_in, bool unasked) {
    admission_.ask_later(peer, free_in, unasked);
  };
  ledger_.on_met = [this](const PairExchange& exchange, bool mixed) {
    const PeerId& peer = exchange.peer;
    if (mixed) {
      ++turns_;
      schedule_.mixed(peer, exchange.initiated ? exchange.own_slot : exchange.peer_slot);
      schedule_.heard(peer, exchange.peer_slot);
    }
    if (asked_ && asked_->peer == peer) partner_answered(mixed);
    if (sampler_ != nullptr) sampler_->met(peer);
  };
  ledger_.on_ended = [this](const PairExchange& exchange, bool decided) {
    admission_.ended(exchange, decided);
    if (!decided && !exchange.agreed) return;
    schedule_.ended(exchange.peer, exchange.initiated, decided, admission_.untried(exchange.peer, exchange.initiated));
  };
}

// ---- turns ----

// Who is slow is asked last: it proposes, and says then if it is not slow any more. So a pace is heard before any turn.
void SyncPairs::handle(const PeerId& from, uint64_t generation, const ExchangeMessage& message,
                       const SharedBytes& payload) {
  if (const Propose* propose = std::get_if<Propose>(&message)) hear_pace(from, propose->steps_us);
  if (const Accept* accept = std::get_if<Accept>(&message)) hear_pace(from, accept->steps_us);
  routes_.handle(from, generation, message, payload);
  times_.is(part());
}

// Who waits is served first: with an own proposal open, a larger id in the queue could close a ring.
bool SyncPairs::propose(const PeerId& peer) {
  if (peer == self_ || !free() || waiting() > 0) return false;
  return propose({.peer = peer,
                  .patience = proposer_.patience(),
                  .slot = schedule_.slot(),
                  .brief = admission_.untried(peer, true),
                  .blocks_first = thin_});
}

bool SyncPairs::propose(const PairProposer::Asked& asked) {
  acceptor_.answer_again(asked.peer);  // who lacks the vote on its proposal takes this one for one that crosses it
  const bool begun = proposer_.propose(asked);
  admission_.asked();
  times_.is(part());
  return begun;
}

bool SyncPairs::serve() {
  const bool begun = free() && admission_.serve_next();
  times_.is(part());
  return begun;
}

Due SyncPairs::next(const Boundary& boundary) {
  if (loop_.begins(boundary) && !boundary.published) retract();
  if (loop_.ended()) {
    if (!boundary.closing) serve();  // a peer that asked while the payload of the steps was encoded
    return Due::kSteps;
  }
  while (!under_way()) {
    if (!loop_.goes_on(boundary, facts())) return end_turns(boundary);
    if (ledger_.outdated()) retract();
    if (!fresh()) return Due::kPublish;
    loop_.tried();
    if (!begin()) return end_turns(boundary);
  }
  return Due::kWait;
}

// The state moves from now on, so proposals wait.
Due SyncPairs::end_turns(const Boundary& boundary) {
  retract();
  return loop_.end(boundary, facts());
}

bool SyncPairs::begin() {
  STARLING_CHECK(sampler_ != nullptr);
  const bool begun = next_turn();
  times_.is(part());
  return begun;
}

bool SyncPairs::next_turn() {
  if (!free()) return false;
  // Whose earlier exchange is not settled yet is asked only if there is nobody else, and who said that it is busy for
  // longer only after those.
  std::vector<PeerId> not_asked = admission_.not_asked();
  proposer_.add_owing(not_asked);
  std::vector<PeerId> later = not_asked;
  admission_.add_asked_later(later);
  if (!paces_.slow() || thin_) paces_.add_slow(later);
  if (const auto begun = scheduled_turn(later)) return *begun;
  if (admission_.serve_next()) return true;
  std::vector<PeerId> unsettled = later;
  for (const PeerId& peer : proposer_.peers()) unsettled.push_back(peer);
  for (const PeerId& peer : acceptor_.peers()) unsettled.push_back(peer);
  std::optional<PeerId> partner = sampler_->choose(unsettled);
  if (!partner && unsettled.size() > later.size()) partner = sampler_->choose(later);
  if (!partner && later.size() > not_asked.size()) partner = sampler_->choose(not_asked);
  return partner && propose(*partner);
}

// With the partner of this agent's slot, before all who wait. A partner that is not to be asked now is let out: whom it
// would ask instead has a partner of its own. nullopt: no slot is open.
std::optional<bool> SyncPairs::scheduled_turn(const std::vector<PeerId>& not_now) {
  bool rested = false;
  while (const std::optional<PeerId> partner = schedule_.partner()) {
    const uint64_t slot = schedule_.slot();
    asked_ = {*partner, clock_.now()};
    if (admission_.serve(*partner)) {
      schedule_.tried();
      return true;
    }
    if (may_be_asked(*partner, not_now)) {
      schedule_.tried();
      return propose({*partner, proposer_.patience(), slot, true, admission_.untried(*partner, true)});
    }
    asked_.reset();
    schedule_.rest();
    rested = true;
  }
  return rested ? std::optional(admission_.serve_next()) : std::nullopt;
}

bool SyncPairs::may_be_asked(const PeerId& peer, const std::vector<PeerId>& not_now) {
  if (std::find(not_now.begin(), not_now.end(), peer) != not_now.end() || admission_.bars(peer)) return false;
  std::vector<PeerId> others = sampler_->candidates();
  std::erase(others, peer);
  return sampler_->choose(others).has_value();  // else it failed a short while ago, or has left
}

// In time: soon for this link, this payload and these steps. The round trip is the shortest of the last ones.
void SyncPairs::partner_answered(bool mixed) {
  const Duration round_trip = ledger_.round_trip(), waited = clock_.now() - std::exchange(asked_, {})->at;
  const Duration at_once = proposer_.link_is_thin() ? *proposer_.usual_turn() : round_trip;
  if (!mixed) schedule_.came_to_nothing();
  schedule_.answered(mixed && (round_trip == Duration::zero() || waited < at_once + (round_trip + steps_) / 2));
}

// Few find each other without a schedule, and meet more partners so, unless the exchanges of one boundary bring all to
// their mean. Where nobody waits for another's steps, because they are long, asking costs little. On a thin link four
// that wait for each other's exchanges take turns one after the other, 1.7 times as long as two.
void SyncPairs::begin_boundary(const Snapshot& snapshot) {
  const Duration without_steps = times_.all();
  steps_ = clock_.now() - began_ - (without_steps - without_steps_);
  began_ = clock_.now();
  without_steps_ = without_steps;
  std::vector<PeerId> others;
  if (sampler_ != nullptr) others = sampler_->candidates();
  std::erase(others, self_);
  admission_.set_candidates(others.size());
  if (!std::is_sorted(others.begin(), others.end())) std::sort(others.begin(), others.end());
  const uint64_t boundaries = snapshot.boundary - ledger_.boundary();  // without an exchange nothing is published
  compare_paces(others, boundaries, snapshot.settling);
  const bool pays = turns_due_ > 1 || (turns_ > 0 && steps_ <= steps_waited_for());
  // While settling nobody waits for steps, and by a schedule of an even number half of the others are never met.
  if (snapshot.settling || !pays || paces_.slow() || sampler_ == nullptr || !sampler_->anyone()) others.clear();
  const size_t agents = others.size() + 1;
  const uint64_t due = agents > kFew ? std::max(turns_due_, turns_of_many_) : turns_due_;
  const uint64_t slots = std::min(due, TurnSchedule::slots_to_mix(agents));
  if (agents < kFew || (agents == kFew && slots == 1 && !proposer_.link_is_thin())) others.clear();
  schedule_.begin(boundaries, slots, std::move(others));
}

// No steps follow while settling, so nobody is slow.
void SyncPairs::compare_paces(const std::vector<PeerId>& others, uint64_t boundaries, bool settling) {
  if (ledger_.boundary() > 0 && !settling) paces_.stepped(steps_ / static_cast<int64_t>(boundaries));
  const std::optional<Duration> upload = proposer_.upload();  // shorter than a round trip, it is part of that
  paces_.sends_in(upload && *upload > ledger_.round_trip() ? *upload : Duration::zero());
  ledger_.tell_steps(settling || !upload ? Duration::zero() : paces_.own());
  paces_.compare_with(settling ? std::vector<PeerId>() : others);
  if (!settling) {
    thin_ = paces_.thin();
    ledger_.counters().thin_uplink += thin_;
  }
  ledger_.answers_wait(thin_);
  admission_.only_asks(thin_ && others.size() > 2);  // two others would have nobody but each other to ask
}

void SyncPairs::hear_pace(const PeerId& peer, uint32_t steps_us) {
  paces_.heard(peer, std::chrono::microseconds(steps_us));
}

void SyncPairs::publish(std::shared_ptr<const Snapshot> snapshot) {
  if (snapshot != nullptr) {
    if (snapshot->boundary > ledger_.boundary()) begin_boundary(*snapshot);
    ledger_.adopt(std::move(snapshot), SnapshotBudget(1));
  } else {
    ledger_.withdraw();
    routes_.repeat_sooner(nullptr);
    admission_.refuse_waiting();
  }
  times_.is(part());
}

// ---- time ----

TimePoint SyncPairs::next_deadline() const { return std::min(routes_.next_deadline(), acceptor_.free_at()); }

// By a schedule all come at about the same time. After several steps, what they were before is too old.
Duration SyncPairs::wait_max() const { return schedule_.on() && turns_due_ > 1 ? Duration::max() : steps_waited_for(); }

// Waiting for another's steps pays while it costs no more than the exchange itself. For longer steps than those of most
// others it pays less: those who wait would be kept from the others too.
Duration SyncPairs::steps_waited_for() const {
  const Duration round_trip = ledger_.round_trip();
  const int round_trips = paces_.slow() ? kWaitForTheSlow : kWaitRoundTrips;
  return round_trip == Duration::zero() ? wait_max_ : std::min(wait_max_, round_trips * round_trip);
}

// Without a schedule, a second exchange with the only partner mixes nothing new.
uint64_t SyncPairs::turns_due() const {
  if (schedule_.on()) return schedule_.slots();
  if (turns_due_ == 1 || sampler_ == nullptr) return turns_due_;
  return std::clamp<uint64_t>(sampler_->candidates().size(), 1, turns_due_);
}

// ---- counts ----

// A payload left behind is served during the steps, which costs no time.
TurnTimes::Part SyncPairs::part() {
  if (const ProposedExchange* own = proposer_.asking()) {
    return own->agreed || own->crossed ? TurnTimes::Part::kOwn : TurnTimes::Part::kAsking;
  }
  return acceptor_.in_turn() && !ledger_.next_at() ? TurnTimes::Part::kServing : TurnTimes::Part::kNone;
}

ExchangeStatus SyncPairs::status() const {
  return {.under_way = under_way(),
          .idle = idle(),
          .latencies = 1,
          .usual_duration = proposer_.deadline().usual(),
          .block_tally = block_tally()};
}

PairsStatus SyncPairs::pairs_status() const {
  return {.counters = counters(), .doubts_parked = acceptor_.parked_doubts(), .turns = turns_};
}

TurnFacts SyncPairs::facts() const {
  return {.turns = turns_,
          .due = turns_due(),
          .waiting = admission_.may_be_served(),
          .slots_open = schedule_.open(),
          .rested = schedule_.rests(),
          .ahead = schedule_.on() ? std::optional(schedule_.ahead()) : std::nullopt,
          .wait_max = wait_max()};
}

PairwiseCounters SyncPairs::counters() const {
  PairwiseCounters counters = ledger_.counters();
  counters.blocks_refused = blocks_.counts().refused;
  counters.blocks_left_out = blocks_.counts().left_out;
  counters.asking_us = times_.us(TurnTimes::Part::kAsking);
  counters.own_us = times_.us(TurnTimes::Part::kOwn);
  counters.serving_us = times_.us(TurnTimes::Part::kServing);
  return counters;
}

}  // namespace starling
