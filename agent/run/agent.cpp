#include "agent/run/agent.h"

#include <algorithm>
#include <utility>

#include <spdlog/spdlog.h>

#include "agent/config/settings.h"
#include "agent/observe/member_report.h"
#include "agent/share/delta_sharing.h"
#include "agent/share/make_exchange.h"
#include "agent/run/status_report.h"
#include "agent/share/update_sharing.h"

namespace starling {
namespace {

constexpr Duration kStatusEvery = std::chrono::seconds(1);
constexpr Duration kPartPatience = std::chrono::seconds(5);      // for the others to finish as well
constexpr Duration kLeavePatience = std::chrono::milliseconds(1500);
constexpr uint64_t kSamplerStream = 0x5061727473ull;

PeerRecord own_record(const AgentOptions& options) {
  PeerRecord record{options.self, {options.generation, 0}, options.advertise, {}};
  record.meta.name = options.config.agent.name;
  return record;
}

}  // namespace

Agent::Agent(const AgentOptions& options, const AgentParts& parts)
    : options_(options), parts_(parts),
      router_({own_record(options), options.config.swarm.membership, options.config.agent.bootstrap, options.rng_seed,
               describe_difference, options.secret},
              parts.transport, parts.clock),
      swarm_clock_(router_.membership(), parts.clock),
      entry_(options, parts, router_, {[this] { prepare_exchange(); },
                                       [this](const Progress& from, const char* how) { begin_rounds(from, how); },
                                       [this] { return rounds_ && rounds_->tally().done > 0; }}),
      farewell_(router_.membership(), swarm_clock_, parts.clock) {
  router_.want_swarm(options.config.agent.swarm_id);
  born_ = next_status_ = parts_.clock.now();
  entry_.start();
}

Agent::~Agent() = default;

void Agent::prepare_exchange() {
  const SwarmConfig& swarm = entry_.swarm();
  sampler_ = std::make_unique<SwarmSampler>(swarm_sampler_options(swarm, options_.config.agent.name),
                                           router_.membership(), swarm_clock_, parts_.clock,
                                           options_.rng_seed ^ kSamplerStream);
  if (entry_.updates()) return;      // their exchange begins from the restored replica
  ExchangeParts made = make_exchange({swarm, options_.self, options_.generation, entry_.model()->encoder(),
                                      entry_.trainer()->params().space, parts_.worker, parts_.clock, router_,
                                      *sampler_});
  host_codec_ = std::move(made.host_codec);
  exchange_ = std::move(made.exchange);
  machine_ = exchange_.get();
}

void Agent::make_sharing() {
  UpdateModel* const updates = entry_.updates();
  if (!updates) {
    sharing_ = std::make_unique<DeltaSharing>(*entry_.model(), exchange_.get(), parts_.worker, parts_.clock,
                                              guards_by_drift(entry_.swarm()));
    return;
  }
  updates->replica_to_trainer();
  updates_ = make_update_exchange({entry_.swarm(), options_.self, options_.generation, *updates, parts_.worker,
                                   parts_.clock, router_, *sampler_});
  machine_ = updates_.get();
  sharing_ = std::make_unique<UpdateSharing>(*updates, *updates_, *sampler_, options_.self, parts_.worker,
                                             parts_.clock, entry_.swarm());
}

void Agent::begin_rounds(const Progress& from, const char* how) {
  RoundsOptions options;
  options.swarm = entry_.swarm();
  options.checkpoint_every = options_.config.agent.checkpoint_every;
  options.evaluate_every = options_.config.agent.evaluate_every;
  options.on_saved = [this] { router_.donor().set_model(entry_.keeper()->model()); };
  make_sharing();
  rounds_ = std::make_unique<Rounds>(options, *entry_.trainer(), entry_.memory(), *sharing_, *sampler_,
                                     router_.membership(), swarm_clock_, *entry_.keeper(), parts_.worker, parts_.clock,
                                     parts_.observer);
  rounds_->start(from, std::string_view(how) == "fetched");
  Joined joined{how, from.steps, from.round, seconds(parts_.clock.now() - born_)};
  joined.peers = peer_count(router_.membership());
  joined.params = entry_.trainer()->params().count;
  joined.data = entry_.trainer()->data().summary;
  parts_.observer.on(joined);
  const std::string trouble = foreseen_trouble(options.swarm, options_.config.agent.data);
  if (!trouble.empty()) spdlog::warn("{}", trouble);
  if (options.swarm.stop_after > 0 && from.steps >= options.swarm.stop_after) {
    spdlog::warn("{} of {} steps are taken already (swarm.stop_after): this agent agrees with its peers and ends; "
                 "to begin anew, name a new folder with --state", from.steps, options.swarm.stop_after);
  }
}

void Agent::tick() {
  if (finished()) return;
  if (abandoned_) {
    router_.tick(*this);
    farewell_.tick();
    return;
  }
  parts_.worker.run_completions();
  router_.tick(*this);
  const TimePoint now = parts_.clock.now();
  entry_.tick();
  if (machine_ && rounds_) machine_->tick();
  watch_telling();
  if (rounds_) rounds_->tick();
  if (rounds_) {
    count_bytes();
    router_.donor().set_steps(rounds_->progress().steps);
    if (router_.donor().wants_newer(now)) rounds_->save_soon();
  }
  if (rounds_ && rounds_->ended() && !farewell_.begun()) part(leaving_ ? "signal" : "stop_after");
  if (leaving_ && !farewell_.begun() && now >= leave_deadline_) part("signal");
  farewell_.tick();
  router_.membership().update_self(meta());
  if (now >= next_status_ && !finished()) {
    next_status_ = now + kStatusEvery;
    watch_deadline();
    parts_.observer.on(status());
  }
}

TimePoint Agent::next_deadline() const {
  if (abandoned_) return std::min(router_.next_deadline(), farewell_.next_deadline());
  TimePoint next = std::min(router_.next_deadline(), next_status_);
  next = std::min(next, entry_.next_deadline());
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
  if (rounds_) parts_.observer.on(Finished{status(), reason, rounds_->settled()});
}

void Agent::on_bootstrap(const FrameHeader& header, const BootstrapMessage& message, const SharedBytes& payload) {
  if (!abandoned_) entry_.handle(header, message, payload);
}

void Agent::on_exchange(const FrameHeader& header, const ExchangeMessage& message, const SharedBytes& payload) {
  if (machine_ && !abandoned_) machine_->handle(header.sender, header.generation, message, payload);
}

// Exchanges with a member that died or left are kept until its tombstone expires: the verdict may be wrong, and either
// side may hold a half of an exchange whose outcome the other still has to learn.
void Agent::on_member(const MemberEvent& event) {
  if (const auto changed = member_changed(router_.membership(), event)) parts_.observer.on(*changed);
  if (rounds_) rounds_->on_member(event);
  if (!machine_) return;
  if (event.kind == MemberEventKind::kReaped) {
    machine_->forget(event.peer, kEveryLife);
  } else if (event.kind == MemberEventKind::kRestarted) {
    machine_->forget(event.peer, router_.membership().find(event.peer)->record.version.generation);
  }
}

Phase Agent::phase() const {
  if (!rounds_) return Phase::kJoining;
  return farewell_.begun() ? Phase::kFinished : rounds_->phase();
}

MemberMeta Agent::meta() const { return agent_meta(options_.config.agent.name, phase(), rounds_.get()); }

AgentStatus Agent::status() const {
  const SwarmConfig* swarm = rounds_ ? &entry_.swarm() : nullptr;
  AgentStatus status = agent_status(phase(), swarm, rounds_.get(), machine_, router_, parts_.transport.counters());
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
  deadline_watch_.look(entry_.swarm().exchange.deadline_max, machine_->status(), rounds_->tally(),
                       router_.membership(), parts_.clock.now());
}

// A trainer may find out in its first steps that it cannot tell what is final, or no more.
void Agent::watch_telling() {
  if (!rounds_ || !entry_.swarm().exchange.update_pipeline || !entry_.trainer()->idle()) return;
  const std::string why = entry_.trainer()->tells_none_because();
  if (why.empty() || why == tells_none_because_) return;
  tells_none_because_ = why;
  spdlog::warn("swarm.exchange.update.pipeline: on sends nothing here before a step has ended: {}; start with "
               "--device cpu where backward is slow enough to send beside it", why);
}

}  // namespace starling
