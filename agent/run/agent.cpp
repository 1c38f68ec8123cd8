#include "agent/run/agent.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "agent/config/settings.h"
#include "agent/observe/member_report.h"
#include "agent/report/format.h"
#include "agent/run/status_report.h"
#include "agent/share/delta_sharing.h"
#include "agent/share/make_exchange.h"
#include "agent/share/update_sharing.h"
#include "agent/train/model_kinds.h"
#include "bootstrap/peer_troubles.h"
#include "gossip/net/text.h"

namespace starling {
namespace {

constexpr Duration kStatusEvery = std::chrono::seconds(1);
constexpr Duration kPartPatience = std::chrono::seconds(5);           // for the others to finish as well
constexpr Duration kLeavePatience = std::chrono::milliseconds(1500);  // for an exchange to end
constexpr Duration kLeaveAgain = std::chrono::milliseconds(250);
constexpr Duration kAllSilent = std::chrono::seconds(6);
constexpr uint64_t kSamplerStream = 0x5061727473ull, kAdoptionStream = 0x41646f7074ull;

PeerRecord own_record(const AgentOptions& options) {
  PeerRecord record{options.self, {options.generation, 0}, options.advertise, {}};
  record.meta = agent_meta(options.config.agent.name, Phase::kJoining, nullptr);
  return record;
}

}  // namespace

Agent::Agent(const AgentOptions& options, const AgentParts& parts)
    : options_(options),
      parts_(parts),
      clocks_(parts.clock),
      router_({own_record(options), options.config.swarm.membership, options.config.agent.bootstrap, options.rng_seed,
               describe_difference, options.secret, options.sign, options.revocations.get(), options.keys.get(),
               options.revocations ? &clocks_ : nullptr},
              parts.transport, parts.clock),
      swarm_clock_(router_.membership(), parts.clock),
      entry_(
          options, parts, router_,
          {[this] { prepare_exchange(); }, [this](const Progress& from, const char* how) { begin_rounds(from, how); },
           [this] { return rounds_ && rounds_->tally().completed() > 0; }}),
      farewell_(router_, swarm_clock_, parts.clock),
      twin_notice_(parts.clock),
      clock_notice_(parts.clock),
      unreached_(router_.membership(), parts.clock, parts.find_path,
                 [this](const PeerId& member) { return router_.has_ended(member); }) {
  router_.want_swarm(options.config.agent.swarm_id);
  if (parts.keep_members) {
    member_notes_ = std::make_unique<MemberNotes>(options.known, parts.keep_members, router_.membership(), parts.worker,
                                                  parts.clock);
  }
  if (options.last_address) router_.twins().ask(*options.last_address);
  born_ = next_status_ = parts_.clock.now();
  entry_.start();
}

Agent::~Agent() = default;

void Agent::prepare_exchange() {
  const SwarmConfig& swarm = entry_.swarm();
  TrainerData data = entry_.trainer()->data();
  data.adaptive &= swarm.exchange.source != SourceKind::kGradients;  // then Adam takes the mean of all gradients
  classes_.emplace(std::move(data), router_.membership(), born_);
  sampler_ =
      std::make_unique<SwarmSampler>(swarm_sampler_options(swarm, options_.config.agent.name), router_.membership(),
                                     swarm_clock_, parts_.clock, options_.rng_seed ^ kSamplerStream);
  if (entry_.updates()) return;  // their exchange begins from the restored replica
  exchange_ = make_exchange({swarm, options_.self, options_.generation, entry_.model()->encoder(),
                             entry_.trainer()->params().space, parts_.worker, parts_.clock, router_, *sampler_});
  machine_ = exchange_.exchange.get();
}

void Agent::make_sharing() {
  UpdateModel* const updates = entry_.updates();
  if (!updates) {
    sharing_ = std::make_unique<DeltaSharing>(*entry_.model(), exchange_.exchange.get(), parts_.worker, parts_.clock,
                                              guards_by_drift(entry_.swarm()));
    return;
  }
  updates->replica_to_trainer();
  updates_ = make_update_exchange(
      {entry_.swarm(), options_.self, options_.generation, *updates, parts_.worker, parts_.clock, router_, *sampler_});
  machine_ = updates_.get();
  sharing_ = std::make_unique<UpdateSharing>(*updates, *updates_, *sampler_, options_.self, parts_.worker, parts_.clock,
                                             entry_.swarm());
}

void Agent::begin_rounds(const Progress& from, const char* how) {
  RoundsOptions options;
  options.swarm = entry_.swarm();
  options.checkpoint_every = options_.config.agent.checkpoint_every;
  options.evaluate_every = options_.config.agent.evaluate_every;
  options.on_saved = [this] { router_.donor().set_model(entry_.keeper()->model()); };
  options.find_path = parts_.find_path;
  const Duration return_wait = options_.config.agent.return_wait;
  const bool knows_peers = !options_.known.members.empty();
  if (std::string_view(how) == "resumed" && (knows_peers || return_wait == Duration::zero())) {
    options.gather_at_most = return_wait;
  }
  if (std::string_view(how) == "resumed") options.ended_at = options_.known.finished_at;
  make_sharing();
  stop_.emplace(options.swarm.stop_after, options_.raised_stop);
  look_at_stops(from.steps);
  rounds_ = std::make_unique<Rounds>(options, *entry_.trainer(), entry_.memory(), *sharing_, *sampler_,
                                     router_.membership(), swarm_clock_, *entry_.keeper(), parts_.worker, parts_.writer,
                                     parts_.clock, parts_.observer);
  (void)rounds_->prolong(stop_->steps());
  const View params = entry_.trainer()->params();
  adoption_.emplace(params, entry_.updates() ? params.count : entry_.model()->params().count, *rounds_, router_,
                    parts_.worker, parts_.clock, options_.rng_seed ^ kAdoptionStream);
  rounds_->start(from, std::string_view(how) == "fetched" && from.steps > 0);
  joined_ = {how, from.steps, from.round, seconds(parts_.clock.now() - born_)};
  joined_->params = count_elements(options.swarm.model);
  joined_->data = entry_.trainer()->data().summary;
  tell_joined();
  const std::string trouble = foreseen_trouble(options.swarm, options_.config.agent.data);
  if (!trouble.empty()) spdlog::warn("{}", trouble);
  const uint64_t stop = stop_->steps();
  if (stop > 0 && std::max(from.steps, options.ended_at) >= stop) {
    spdlog::warn(
        "{} (swarm.stop_after): this agent agrees with its peers and ends; to go on, start it with "
        "--set swarm.stop_after=STEPS; to begin anew, name a new folder with --state",
        from.steps >= stop
            ? fmt::format("{} of {} steps are taken already", from.steps, stop)
            : fmt::format("the run ended at step {} of the swarm, and this agent's at step {}", stop, from.steps));
  }
}

// Once no other agent is missing for the first step.
void Agent::tell_joined() {
  if (!joined_ || rounds_->waits_for_others()) return;
  joined_->peers = peer_count(router_.membership());
  parts_.observer.on(*std::exchange(joined_, std::nullopt));
}

// Before it has taken a step; then now and then.
void Agent::look_at_classes() {
  const TimePoint now = parts_.clock.now();
  const bool may_refuse = !rounds_ || rounds_->steps().taken() == 0;
  if (!classes_ || farewell_.begun() || (!may_refuse && now < next_status_)) return;
  classes_->look(rounds_ ? rounds_->progress().steps : 0, may_refuse, now);
}

// Members repeat it. A stop is raised by a start, so of those that tell it the author is the one that began last.
std::string Agent::author_of_stop(const Counts& counts) const {
  const PeerRecord* author = nullptr;
  router_.membership().visit_alive([&](const Member& member) {
    const MemberMeta& meta = member.record.meta;
    if (meta.role != Role::kAgent || !counts(member) || meta.stop_after < stop_->steps()) return;
    if (!author || member.record.version.generation > author->version.generation) author = &member.record;
  });
  return author ? print_name(*author) : "";
}

// Any member may have raised the stop, and each tells it in its record.
void Agent::look_at_stops(uint64_t own_steps) {
  const TimePoint now = parts_.clock.now();
  const Counts counts = counting(born_, now);
  bool raised = false;
  router_.membership().visit_alive([&](const Member& member) {
    const MemberMeta& meta = member.record.meta;
    raised |= meta.role == Role::kAgent && counts(member) && stop_->hear(meta.stop_after, own_steps, now);
  });
  if (!raised) return;
  const std::string author = author_of_stop(counts);
  if (rounds_ && !rounds_->prolong(stop_->steps())) {
    spdlog::warn(
        "{} prolongs the run to step {} (swarm.stop_after), but the models agree and this agent ends; start it again "
        "to go on",
        author, stop_->steps());
  } else {
    spdlog::info("{} prolongs the run to step {} (swarm.stop_after)", author, stop_->steps());
  }
  if (!parts_.keep_stop) return;
  parts_.worker.submit(
      [keep = parts_.keep_stop, steps = stop_->steps()] {
        try {
          keep(steps);
        } catch (const std::exception& error) {
          spdlog::warn(
              "a restart of this agent would not know that the run is longer ({}); start with --set "
              "swarm.stop_after={}",
              error.what(), steps);
        }
      },
      [] {});
}

void Agent::tick() {
  if (finished()) return;
  if (abandoned_) {
    router_.tick(*this);
    farewell_.tick();
    return;
  }
  parts_.worker.run_completions();
  parts_.writer.run_completions();
  router_.tick(*this);
  look_at_twin();
  const TimePoint now = parts_.clock.now();
  entry_.tick();
  look_at_classes();
  if (machine_ && rounds_) machine_->tick();
  watch_telling();
  if (rounds_) {
    if (rounds_->waits_for_model()) adoption_->look();
    adoption_->tick();
    rounds_->tick();
    count_pairs();
    tell_joined();
    if (member_notes_) member_notes_->tick(rounds_->progress().round);
    count_bytes();
    router_.donor().set_steps(rounds_->progress().steps);
    if (router_.donor().wants_newer(now)) rounds_->save_soon();
  }
  if (rounds_ && rounds_->ended() && !farewell_.begun()) part(leaving_ ? "signal" : "stop_after");
  if (leaving_ && !farewell_.begun() && now >= leave_deadline_) {
    leave_deadline_ = now + kLeaveAgain;  // a boundary that still encoded may wait only after that
    rounds_->stop_waiting();
  }
  farewell_.tick();
  router_.membership().update_self(meta(), rounds_ ? rounds_->steps().stop_after() : 0);
  if (now >= next_status_ && !finished()) {
    next_status_ = now + kStatusEvery;
    if (rounds_) look_at_stops(rounds_->progress().steps);
    if (rounds_) adoption_->look();
    watch_deadline();
    look_at_paths();
    parts_.observer.on(status());
  }
}

TimePoint Agent::next_deadline() const {
  if (abandoned_) return std::min(router_.next_deadline(), farewell_.next_deadline());
  TimePoint next = std::min(router_.next_deadline(), next_status_);
  next = std::min(next, entry_.next_deadline());
  if (adoption_) next = std::min(next, adoption_->next_deadline());
  if (machine_) next = std::min(next, machine_->next_deadline());
  if (rounds_) next = std::min(next, rounds_->next_deadline());
  if (leaving_ && !farewell_.begun()) next = std::min(next, leave_deadline_);
  return std::min(next, farewell_.next_deadline());
}

void Agent::leave() {
  if (leaving_) return;
  leaving_ = true;
  leave_deadline_ = parts_.clock.now() + kLeavePatience;
  if (farewell_.begun()) {
    farewell_.begin(Duration::zero());
  } else if (rounds_) {
    rounds_->stop();
  } else {
    part("signal");
  }
}

void Agent::abandon() {
  abandoned_ = true;
  entry_.give_up();
  farewell_.begin(Duration::zero());
}

// Begins the end of this agent. After stop_after it stays until no member settles any more; after a signal, only for
// the farewell.
void Agent::part(const char* reason) {
  entry_.give_up();
  farewell_.begin(leaving_ ? Duration::zero() : kPartPatience);
  if (member_notes_ && !leaving_) {
    member_notes_->finished(rounds_ && rounds_->steps().all_taken() ? rounds_->steps().stop_after() : 0);
  }
  if (rounds_) parts_.observer.on(Finished{status(), reason, rounds_->settled()});
}

void Agent::on_bootstrap(const FrameHeader& header, const BootstrapMessage& message, const SharedBytes& payload) {
  if (abandoned_) return;
  entry_.handle(header, message, payload);
  if (adoption_) adoption_->handle(header, message, payload);
}

void Agent::on_exchange(const FrameHeader& header, const ExchangeMessage& message, const SharedBytes& payload) {
  if (machine_ && !abandoned_) machine_->handle(header.sender, header.generation, message, payload);
}

// A member that died or left is waited for no longer. What is decided with it is kept until its tombstone expires: the
// verdict may be wrong, and either side may hold a half of an exchange whose outcome the other still has to learn.
void Agent::on_member(const MemberEvent& event) {
  if (const auto changed = member_changed(router_.membership(), event)) parts_.observer.on(*changed);
  if (event.kind == MemberEventKind::kJoined || event.kind == MemberEventKind::kRestarted) {
    compare_clocks(router_.membership().find(event.peer)->record);
  }
  if (rounds_) rounds_->on_member(event);
  if (!machine_) return;
  if (event.kind == MemberEventKind::kDied || event.kind == MemberEventKind::kLeft) {
    machine_->lost(event.peer);
  } else if (event.kind == MemberEventKind::kReaped) {
    machine_->forget(event.peer, kEveryLife);
  } else if (event.kind == MemberEventKind::kRestarted) {
    machine_->forget(event.peer, router_.membership().find(event.peer)->record.version.generation);
  }
}

Phase Agent::phase() const {
  if (!rounds_) return Phase::kJoining;
  return farewell_.begun() ? Phase::kFinished : rounds_->phase();
}

MemberMeta Agent::meta() const {
  MemberMeta meta = agent_meta(options_.config.agent.name, phase(), rounds_.get());
  if (rounds_) {  // one that ended before it heard of a later stop has ended at the earlier one until it takes steps
    const uint64_t goes_to = rounds_->steps().stop_after();
    const bool to_train = meta.phase == Phase::kSettling && !rounds_->steps().all_taken();
    meta.stop_after = goes_to > entry_.swarm().stop_after && !to_train ? goes_to : 0;
  } else {  // newcomers wait for the model that it goes on from, and draw none
    meta.round = options_.progress.round;
    meta.steps = options_.progress.steps;
    meta.stop_after = stop_ ? stop_->raised() : options_.raised_stop;
  }
  meta.held_out = rounds_ && options_.config.agent.data.hold_out > 0;
  if (rounds_ && classes_) {
    meta.classes_hash = classes_->hash();
    meta.labels_hash = classes_->labels_hash();
  }
  return meta;
}

void Agent::count_pairs() {
  const Phase now = rounds_->phase();
  if (now != Phase::kSettling && now != Phase::kFinished) {
    pairs_in_training_.reset();
  } else if (!pairs_in_training_ && exchange_.pairs_status) {
    pairs_in_training_ = exchange_.pairs_status().counters;
  }
}

RoomStatus Agent::room_status() const {
  RoomStatus rooms;
  if (exchange_.pairs_status) rooms.pairs = exchange_.pairs_status();
  rooms.pairs_in_training = pairs_in_training_.value_or(rooms.pairs.counters);
  if (exchange_.group_status) rooms.group = exchange_.group_status();
  if (updates_) {
    rooms.updates = updates_->updates_status();
    rooms.group = rooms.updates.rounds;
  }
  return rooms;
}

AgentStatus Agent::status() const {
  const SwarmConfig* swarm = rounds_ ? &entry_.swarm() : nullptr;
  const bool waits = rounds_ && rounds_->waits_for_others();
  AgentStatus status = agent_status(waits ? Phase::kJoining : phase(), swarm, rounds_.get(), machine_, room_status(),
                                    router_, parts_.transport.counters());
  if (swarm) status.stop_after = stop_->steps();
  if (rounds_ && rounds_->pause() != Pause::kNone) status.phase = kPausedPhase;
  status.sent_a_round = round_bytes_.mean();
  status.sent_last_round = round_bytes_.last();
  return status;
}

void Agent::count_bytes() {
  const uint64_t round = rounds_->progress().round;
  if (round_bytes_.begins(round)) round_bytes_.begin(round, parts_.transport.counters().bytes_sent);
}

void Agent::watch_deadline() {
  if (!rounds_ || !machine_ || farewell_.begun()) return;
  deadline_watch_.look(entry_.swarm().exchange.deadline_max, machine_->status(), rounds_->tally(), rounds_->last_late(),
                       router_.membership(), parts_.clock.now());
}

void Agent::look_at_paths() {
  for (const std::string& text : router_.take_troubles()) spdlog::warn("{}", text);
  if (!farewell_.begun() && !router_.twins().disputed()) unreached_.look();
}

// Two processes with one key: the one that began last gives way, as the other is the one that members know.
void Agent::look_at_twin() {
  if (leaving_) return;
  TwinWatch& twins = router_.twins();
  if (const std::string notice = twins.take_notice(); !notice.empty()) twin_notice_.say(notice);
  const bool of_clock = options_.keys && options_.generation_by_clock;  // and what members hold of it is signed
  if (const std::string why = twins.must_end(of_clock); !why.empty()) throw std::runtime_error(why);
}

// A generation is the wall clock of a start, and a newcomer has just started.
void Agent::compare_clocks(const PeerRecord& record) {
  constexpr uint64_t kDayMs = 24ull * 3600 * 1000;
  const auto lasted = std::chrono::duration_cast<std::chrono::milliseconds>(parts_.clock.now() - born_).count();
  const uint64_t own = options_.generation + static_cast<uint64_t>(lasted), theirs = record.version.generation;
  const bool behind = record.meta.phase == Phase::kJoining && theirs + kDayMs < own;
  if (record.meta.role != Role::kAgent || (!behind && theirs <= own + kDayMs)) return;
  clock_notice_.say(
      fmt::format("agent {} began {} by its clock, and by this agent's it is {}: one of the two is wrong. "
                  "Exchanges depend on neither, the end of a ticket on most clocks; set the wrong one right",
                  print_name(record), clock_text(theirs), clock_text(own)));
}

bool Agent::all_silent() const {
  const Duration patience = std::max<Duration>(kAllSilent, 4 * options_.config.swarm.membership.probe_interval);
  return router_.membership().nobody_answers(patience);
}

// A trainer may find out in its first steps that it cannot tell what is final, or no more.
void Agent::watch_telling() {
  if (!rounds_ || !entry_.swarm().exchange.update_pipeline || !entry_.trainer()->idle()) return;
  const std::string why = entry_.trainer()->early_send_blocked_reason();
  if (why.empty() || why == tells_none_because_) return;
  tells_none_because_ = why;
  spdlog::warn(
      "swarm.exchange.update.pipeline: on sends nothing here before a step has ended: {}; start with "
      "--device cpu where backward is slow enough to send beside it",
      why);
}

}  // namespace starling
