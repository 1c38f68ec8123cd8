#include "agent/run/ending.h"

#include <chrono>
#include <utility>

#include <spdlog/spdlog.h>

#include "agent/report/format.h"
#include "gossip/membership/taking_part.h"

namespace starling {
namespace {

constexpr Duration kStopPatience = std::chrono::milliseconds(300);  // for exchanges in doubt; Ctrl-C ends in 2 s
constexpr Duration kFinishPatience = std::chrono::seconds(2);
constexpr Duration kNewsPatience = std::chrono::seconds(1);

}  // namespace

void Ending::begin_settling(bool left_behind) {
  left_behind_ = left_behind;
  settling_.begin(clock_.now());
  began_ = clock_.now();
  replaced_ = {};
  settling_over_ = false;
  settled_.reset();
  far_.reset();
  patience_until_.reset();
}

bool Ending::resume_training() {
  if (patience_until_) return false;
  settling_.abandon();
  given_up_.forget();
  return true;
}

Counts Ending::counting() const { return starling::counting(began_, clock_.now()); }

std::optional<Agreement> Ending::agreement() const {
  if (!sharing_.projection() || sharing_.params_rms() <= 0) return std::nullopt;
  return look_at_agreement(membership_, *sharing_.projection(), sharing_.params_rms(), counting());
}

bool Ending::may_take_others() const {
  const bool none_left_out = !mixes_models_ || sharing_.alone() || sharing_.holds_replica();
  return !none_left_out && !settling_over_ && sharing_.projection() && sharing_.params_rms() > 0;
}

std::optional<OthersModel> Ending::model_of_most() const {
  if (!may_take_others()) return std::nullopt;
  const double rms = sharing_.params_rms(), near = settling_.ball() * rms;
  const double far = settling_.final_distance() * rms;  // the guards leave out at last what is farther
  return starling::model_of_most(membership_, *sharing_.projection(), near, far, counting());
}

std::optional<OthersModel> Ending::model_of_others() const {
  if (!may_take_others() || !others_finished()) return std::nullopt;
  const double near = settling_.ball() * sharing_.params_rms();
  return starling::model_of_others(membership_, *sharing_.projection(), near, counting());
}

std::optional<Far> Ending::far() {
  std::optional<Agreement> now = std::exchange(agreement_now_, std::nullopt);
  if (far_factor_ == 0) return far_;
  if (!now) now = agreement();
  if (!now) return far_;
  const double rms = sharing_.params_rms();
  if (!far_) {  // later, those that agree already would take one that comes late for far
    const std::optional<double> far = settling_.far(*now, far_factor_);
    if (far) far_ = {.first = *far * rms, .last = settling_.final_distance() * rms};
  }
  if (far_) {
    for (Apart& other : now->others) other.distance *= kMayBeFarther * rms;
    far_->others = std::make_shared<const std::vector<Apart>>(std::move(now->others));
  }
  return far_;
}

void Ending::on_member(const MemberEvent& event) {
  const SwarmClock::Tally others = swarm_clock_.tally();
  given_up_.look(event, settling_.active() || others.ended > others.to_train);
}

bool Ending::lies_near(const MemberMeta& meta) const {
  if (sharing_.holds_replica()) return true;  // who has finished held the log, which says more
  if (!sharing_.projection() || sharing_.params_rms() <= 0) return false;
  const std::optional<double> distance = distance_to(meta, *sharing_.projection(), sharing_.params_rms());
  return distance && settling_.near(*distance);
}

// One with a model of its own that does not answer, but may yet. It counts until it is given up; empty: there is none.
std::string Ending::one_suspected() const {
  const Counts counts = counting();
  const PeerRecord* suspected = nullptr;
  membership_.visit_all([&](const Member& member) {
    const MemberMeta& meta = member.record.meta;
    if (suspected || member.state != MemberState::kSuspect || !holds_model(meta) || !counts(member)) return;
    if (meta.pause != Pause::kNone || (has_finished(meta) && lies_near(meta))) return;
    suspected = &member.record;
  });
  return suspected ? print_name(*suspected) : "";
}

// Members that start together may be as far as this when the first of them ends.
bool Ending::others_join() const {
  if (clock_.now() >= began_ + kTimeToAnswer) return false;
  bool found = false;
  membership_.visit_alive([&](const Member& member) {
    const MemberMeta& meta = member.record.meta;
    found |= meta.role == Role::kAgent && meta.phase == Phase::kJoining;
  });
  return found;
}

bool Ending::agreed(const LostMembers::Missed& missed) {
  if (clock_.now() < replaced_ + kNewsPatience) return false;  // older records may tell of models before that
  const SwarmClock::Tally others = swarm_clock_.tally(counting());
  if (others.to_train > 0) return false;  // their steps move the mean
  if (sharing_.holds_replica()) {
    if (!sharing_.agreed(others.taking_part)) return false;
  } else {
    agreement_now_ = agreement();
    if (!agreement_now_ || !settling_.agreed(*agreement_now_)) return false;
  }
  return missed.joining + missed.unknown == 0 && one_suspected().empty();
}

bool Ending::settling_ended() {
  agreement_now_.reset();
  if (settling_over_ && !sharing_.holds_replica()) return true;  // a log may still grow by an entry of others
  const SwarmClock::Tally tally = swarm_clock_.tally(counting());
  const size_t others = tally.ended + tally.to_train;
  const LostMembers::Missed missed = given_up_.missed([this](const MemberMeta& meta) { return lies_near(meta); });
  if (!sharing_.alone() && others_join()) return false;
  const bool nobody = others + missed.dead + missed.joining == 0 && one_suspected().empty();
  const bool lone = sharing_.alone() || (nobody && !sharing_.holds_replica());
  const bool agrees = !lone && agreed(missed);
  if (!lone && !agrees && !settling_.overdue(clock_.now(), others)) return false;
  const bool before = std::exchange(settling_over_, true);
  if (took_final_) settled_ = true;
  if (lone || nobody) {
    if (left_behind_ && !settled_) settled_ = false;
    return true;
  }
  settled_ = agrees && missed.dead == 0;
  if (!*settled_ && !before) spdlog::warn("the models do not agree: {}", print_disagreement(missed));
  return true;
}

std::string Ending::print_disagreement(const LostMembers::Missed& missed) const {
  if (missed.dead > 0) {
    const std::string more = missed.dead > 1 ? fmt::format(" and {} more were", missed.dead - 1) : " was";
    return missed.name + more + " given up after the last step, before telling that all agree; look at " +
           (missed.dead > 1 ? "those agents" : "that agent");
  }
  if (const SwarmClock::Tally others = swarm_clock_.tally(counting()); others.to_train > 0) {
    return fmt::format(
        "{} had not ended its steps when swarm.consensus_timeout was over, {} among them: it stands still, or "
        "is slower than the others by more than that",
        print_count(others.to_train, "member"), others.one_to_train);
  }
  if (missed.joining > 0) {
    return missed.name +
           " was started again after the last step, and took no part yet when swarm.consensus_timeout was over; allow "
           "more time";
  }
  if (sharing_.holds_replica()) return "not all members hold one log after swarm.consensus_timeout; allow more time";
  const std::string suspected = one_suspected();
  if (!suspected.empty()) {
    return suspected +
           " did not answer, and was not given up yet when swarm.consensus_timeout was over; look at that agent";
  }
  const std::optional<Agreement> now = agreement();
  if (!now)
    return "this agent could not measure its own after swarm.consensus_timeout; take the model of another member";
  if (now->unknown > 0) {
    return fmt::format(
        "{} of {} members told nothing of their models, {} among them: it stands still, or is of an "
        "older version; look at it, or update it",
        now->unknown, now->members, now->unknown_name);
  }
  return fmt::format(
      "after swarm.consensus_timeout, {} is {:.2g} times their rms away from this one; allow more time, or "
      "look at that agent and the links to it",
      now->farthest_name, now->farthest.value_or(0));
}

bool Ending::exchanges_ended(Duration patience) {
  if (!patience_until_) {
    sharing_.publish_nothing();
    patience_until_ = clock_.now() + patience;
  }
  return sharing_.idle() || clock_.now() >= *patience_until_;
}

bool Ending::begin(Reason reason, const Progress& progress, std::function<void()> ended) {
  if (!exchanges_ended(reason == Reason::kFinished ? kFinishPatience : kStopPatience)) return false;
  sharing_.apply_decided_then([this, reason, &progress, ended = std::move(ended)] {
    if (reason == Reason::kStopped) {
      jobs_.save_then(progress, ended);
      return;
    }
    jobs_.evaluate_then(progress.steps, [this, &progress, ended] {
      finished_ = true;
      jobs_.save_then(progress, ended);
    });
  });
  return true;
}

}  // namespace starling
