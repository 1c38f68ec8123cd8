#include "agent/share/update_sharing.h"

#include <chrono>
#include <stdexcept>
#include <utility>

#include <spdlog/spdlog.h>

#include "gossip/exchange/update_options.h"
#include "kernels/check.h"

namespace starling {
namespace {

constexpr Duration kOutsideMax = std::chrono::seconds(3);      // views of the members differ for a while
constexpr Duration kCatchUpMax = std::chrono::seconds(10);     // then it trains on what it has
constexpr uint32_t kSilentRounds = 3;

}  // namespace

UpdateSharing::UpdateSharing(UpdateModel& model, UpdateExchange& exchange, PeerSampler& sampler, const PeerId& self,
                             Worker& worker, const Clock& clock, bool pipeline)
    : Sharing(&exchange, true), model_(model), group_(exchange.group()), sampler_(sampler), self_(self),
      worker_(worker), clock_(clock), began_(clock.now()) {
  if (pipeline) final_ = std::make_unique<FinalSlices>(model.slices());
}

void UpdateSharing::share(uint64_t round, double mass, bool wait, Done done) {
  STARLING_CHECK(!done_);
  done_ = std::move(done);
  refuse_outsider();
  const bool waits = wait || catching_up_;
  worker_.submit([this] { model_.fill_x(); },
                 [this, round, mass, waits] {
                   const bool begun =
                       group_.begin(model_.x(), mass, round, [this, waits] { shared(waits); }, !waits);
                   if (!begun) finish();   // the drift stays in the params until the next boundary
                 });
}

std::function<void(const FinalPart&)> UpdateSharing::begin_steps() {
  if (!final_) return {};
  final_->begin_step(group_.buckets());
  return [this](const FinalPart& part) { final_->add(part); };
}

// What becomes final while the worker still codes goes together next: the busier it is, the larger the buckets.
void UpdateSharing::send_final(uint64_t round, double mass) {
  if (!final_ || sending_ || !group_.may_hand_in()) return;
  const std::vector<uint32_t> slices = final_->take(clock_.now());
  if (slices.empty()) return;
  const size_t elements = model_.memory().params.size();
  sending_ = group_.hand_in(slices, {final_->params(), elements}, mass, round, [this] { sending_ = false; });
}

// The worker's end wakes this thread.
TimePoint UpdateSharing::next_final() const {
  return final_ && !sending_ && group_.may_hand_in() ? final_->next() : TimePoint::max();
}

void UpdateSharing::shared(bool waits) {
  encode_time_ += group_.take_encode_time();
  if (waits) {
    waiting_ = true;
  } else {
    worker_.submit([this] { model_.show_x(); }, [this] { finish(); });
  }
}

void UpdateSharing::tick() {
  if (!waiting_ || group_.under_way()) return;
  waiting_ = false;
  look_at_progress();
  group_.catch_up(model_.x(), [this] { worker_.submit([this] { model_.show_x(); }, [this] { finish(); }); });
}

// A replica that is still old is brought up to date first: steps from it would be lost.
void UpdateSharing::look_at_progress() {
  uint64_t length = 0;
  for (uint32_t i = 0; i < model_.slices().size(); ++i) length += group_.log(i).head().length;
  silent_rounds_ = length == std::exchange(log_length_, length) ? silent_rounds_ + 1 : 0;
  if (!catching_up_) return;
  const bool late = clock_.now() - began_ > kCatchUpMax;
  catching_up_ = !late && !(group_.heard() && group_.behind() == 0);
  if (late) spdlog::warn("no entry of every slice came in {} s; it trains on what is here", seconds(kCatchUpMax));
}

void UpdateSharing::apply_decided_then(Next next) {
  worker_.submit([this] { model_.fill_x(); },
                 [this, next = std::move(next)] {
                   group_.catch_up(model_.x(), [this, next] { worker_.submit([this] { model_.show_x(); }, next); });
                 });
}

void UpdateSharing::finish() { std::exchange(done_, nullptr)(!group_.sick()); }

// Who is left when all others have ended hears of no more entries: its log is as long as theirs.
bool UpdateSharing::agreed(size_t others) const {
  return group_.agreed() || (others == 0 && group_.drained() && silent_rounds_ >= kSilentRounds);
}

// Two members may let in one newcomer each at the same time: then the newest one leaves.
void UpdateSharing::refuse_outsider() {
  if (update_members(sampler_, self_)) return outside_since_.reset();
  if (!outside_since_) outside_since_ = clock_.now();
  if (clock_.now() - *outside_since_ < kOutsideMax) return;
  throw std::runtime_error("the swarm shares updates, which at most " + std::to_string(kUpdateMembersMax) +
                           " members can, and this agent came after them; start it when one has left, or begin a swarm "
                           "with swarm.exchange.source: params and kind: pairwise");
}

}  // namespace starling
