#include "agent/share/update_sharing.h"

#include <chrono>
#include <stdexcept>
#include <utility>

#include <spdlog/spdlog.h>

#include "gossip/updates/options.h"
#include "kernels/check.h"

namespace starling {
namespace {

constexpr Duration kGather = std::chrono::milliseconds(500);  // without another member
constexpr Duration kGatherMax = std::chrono::seconds(3);
constexpr Duration kCatchUpMax = std::chrono::seconds(10);  // then it trains on what it has
constexpr uint32_t kSilentRounds = 3;
constexpr Duration kAskAgain = std::chrono::milliseconds(250);  // how the logs of the others end
constexpr Duration kForgetsEnds = std::chrono::seconds(1);

}  // namespace

UpdateSharing::UpdateSharing(UpdateModel& model, UpdateExchange& exchange, PeerSampler& sampler, const PeerId& self,
                             Worker& worker, const Clock& clock, const SwarmConfig& swarm)
    : Sharing(&exchange, true),
      model_(model),
      group_(exchange.group()),
      sampler_(sampler),
      self_(self),
      worker_(worker),
      clock_(clock),
      several_steps_(swarm.local_steps > 1 || swarm.round > Duration::zero()) {
  const ExchangeConfig& settings = swarm.exchange;
  if (settings.update_pipeline) final_ = std::make_unique<FinalSlices>(model.slices());
  const bool merges = settings.update_merge && model.slices().size() > 1;
  if (merges) planner_ = std::make_unique<PlanMaker>(model.slices(), settings.update);
}

void UpdateSharing::share(uint64_t round, double mass, bool wait, Done done) {
  STARLING_CHECK(!done_);
  if (!began_) began_ = clock_.now();
  done_ = std::move(done);
  const bool waits = wait || catching_up_;
  // Never two in a row, or a member that is always late would be heard no more.
  const bool may_miss = waits && several_steps_ && !group_.missed() && !catching_up_;
  at_replica_ = false;
  late_ = Duration::zero();
  if (planner_ && planned_) look_at_step();
  worker_.submit([this] { model_.fill_x(); },
                 [this, round, mass, waits, may_miss] {
                   const bool begun =
                       group_.begin(model_.x(), mass, round, [this, waits] { shared(waits); }, !waits, may_miss);
                   if (!begun) finish();  // the drift stays in the params until the next boundary
                 });
}

std::function<bool(const FinalPart&)> UpdateSharing::begin_steps() {
  if (!final_) return {};
  planned_ = planner_ != nullptr && !catching_up_;
  if (planned_) {
    planner_->begin_round();
    group_.plans().try_out(planner_->trial_ends());
    step_began_ = clock_.now();
  }
  final_->begin_step(group_.buckets());
  return [this](const FinalPart& part) { return final_->add(part); };
}

// What becomes final while the worker still codes goes together next: the busier it is, the larger the buckets.
void UpdateSharing::send_final(uint64_t round, double mass) {
  if (!final_ || sending_ || !group_.may_hand_in()) return;
  std::vector<uint32_t> slices = final_->take(clock_.now());
  if (planned_) std::erase_if(slices, [&](uint32_t slice) { return slice < planner_->held_back(); });
  if (slices.empty()) return;
  sending_ = group_.submit(slices, model_.x(), mass, round, [this] { sending_ = false; });
}

// The worker's end wakes this thread.
TimePoint UpdateSharing::next_final() const {
  return final_ && !sending_ && group_.may_hand_in() ? final_->next() : TimePoint::max();
}

void UpdateSharing::shared(bool waits) {
  select_time_ += group_.take_select_time();
  encode_time_ += group_.take_encode_time();
  if (waits) {
    waiting_ = true;
  } else {
    worker_.submit([this] { model_.show_x(); }, [this] { finish(); });
  }
}

void UpdateSharing::tick() {
  if (!waiting_) return;
  if (group_.under_way() && !stopped_) return group_.keep_up(model_.x());
  waiting_ = stopped_ = false;
  if (!group_.missed()) look_at_progress();
  if (std::exchange(planned_, false)) think();
  at_replica_ = true;
  group_.catch_up(model_.x(), [this] { worker_.submit([this] { model_.show_x(); }, [this] { finish(); }); });
}

void UpdateSharing::stop_waiting() {
  if (!waiting_) return;
  planned_ = false;  // the round tells nothing of the plan
  stopped_ = true;
}

// What is evaluated and saved before the steps is the replica. Where a round has one step, its gradient belongs to R.
void UpdateSharing::begin_round_then(Next next) {
  const bool may = std::exchange(at_replica_, false) && several_steps_;
  const auto show = [this, next] { worker_.submit([this] { model_.show_x(); }, next); };
  if (!may || !group_.resume_with_residual(model_.x(), show)) next();
}

void UpdateSharing::look_at_step() {
  std::vector<Duration> final_after;
  for (const TimePoint at : final_->final_at()) {
    if (at == TimePoint::min()) return;  // backward did not reach all of the model
    final_after.push_back(at - step_began_);
  }
  planner_->add_step(final_after);
}

// A round has ended. One that others were late for says nothing of links.
void UpdateSharing::think() {
  for (const UpdateSelection& selection : group_.take_selections()) {
    planner_->add_selection(selection.elements, selection.took);
  }
  const UpdateReport& round = group_.last_report();
  if (round.entries == round.slices) planner_->add_exchange(round.frames_after, round.bytes_after, round.duration);
  group_.plans().try_out({});
  planner_->add_round(group_.plans().ends(round.round), clock_.now() - step_began_);
  const TimePoint began = clock_.now();
  const auto thought = planner_->think(round.members, group_.plans().ends(round.round + 1));
  if (!thought) return;
  const auto took = std::make_shared<Duration>(clock_.now() - began);
  const auto run = [thought, took, &clock = clock_] {
    const TimePoint begin = clock.now();
    thought->run();
    *took += clock.now() - begin;
  };
  worker_.submit(run, [this, thought, took] {
    planner_->add_thought(*took);
    const std::vector<uint32_t> ends = planner_->choose(*thought);
    group_.plans().propose(ends);
    const std::string text = thought->describe();
    if (ends.empty())
      spdlog::debug("merge plan: {}", text);
    else if (ends == thought->best)
      spdlog::info("merge plan: {}", text);
    else
      spdlog::info("merge plan: rounds of {} buckets proved slower than each slice alone", thought->now.size());
  });
}

// A replica that is still old is brought up to date first: steps from it would be lost.
void UpdateSharing::look_at_progress() {
  const uint64_t length = log_length();
  silent_rounds_ = length == std::exchange(log_length_, length) ? silent_rounds_ + 1 : 0;
  if (!catching_up_) return;
  const bool late = clock_.now() - *began_ > kCatchUpMax;
  catching_up_ = !late && !(group_.heard() && group_.behind() == 0);
  if (late) spdlog::warn("some slices got no entry in {} s; training continues with the others", seconds(kCatchUpMax));
}

// Who takes steps alone, or with some of those that start with it, makes a log of its own, and one of two logs gives
// way: its holders take whole slices from the others, though all began from one genesis.
bool UpdateSharing::gathering() {
  const TimePoint now = clock_.now();
  if (!gathers_since_) gathers_since_ = now;
  const auto members = update_members(sampler_, self_);
  const uint64_t roster = members ? members->group : 0;
  if (roster != std::exchange(roster_, roster)) roster_since_ = now;
  return now - *gathers_since_ < kGatherMax && now - roster_since_ < kGather;
}

bool UpdateSharing::others_have_begun() const { return log_length() > 0 || group_.behind() > 0; }

uint64_t UpdateSharing::log_length() const {
  uint64_t length = 0;
  for (uint32_t i = 0; i < model_.slices().size(); ++i) length += group_.log(i).head().length;
  return length;
}

bool UpdateSharing::holds_end_of_log() {
  const TimePoint now = clock_.now();
  if (now - asked_ >= kForgetsEnds) group_.forget_ends();  // nobody asked meanwhile, as the others had not ended
  if (now - asked_ >= kAskAgain) {
    asked_ = now;
    group_.ask_for_ends();
  }
  return group_.ends_as_others();
}

void UpdateSharing::apply_decided_then(Next next) {
  worker_.submit([this] { model_.fill_x(); },
                 [this, next = std::move(next)] {
                   group_.catch_up(model_.x(), [this, next] { worker_.submit([this] { model_.show_x(); }, next); });
                 });
}

// Who missed a round takes what is left of the steps, so that it comes to the next boundary with the others, if it is
// as fast as they are. A slower member misses every second round, and submits the work of two with the next.
void UpdateSharing::finish() {
  if (const auto since = group_.missed()) late_ = clock_.now() - *since;
  std::exchange(done_, nullptr)(!group_.sick());
}

// Who is left when all others have ended hears of no more entries: its log is as long as theirs.
bool UpdateSharing::agreed(size_t others) const {
  return group_.agreed() || (others == 0 && group_.drained() && silent_rounds_ >= kSilentRounds);
}

}  // namespace starling
