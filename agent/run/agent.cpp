#include "agent/run/agent.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <spdlog/spdlog.h>

#include "agent/config/settings.h"
#include "agent/run/make_exchange.h"
#include "gossip/limits.h"

namespace starling {
namespace {

constexpr Duration kStatusEvery = std::chrono::seconds(1);
constexpr Duration kPartPatience = std::chrono::seconds(5);      // for the others to finish as well
constexpr Duration kLeavePatience = std::chrono::milliseconds(1500);
constexpr uint64_t kSamplerStream = 0x5061727473ull;

std::optional<double> measured(double value) {
  return std::isfinite(value) && value >= 0 ? std::optional(value) : std::nullopt;
}

void count_cause(DecodeStatus cause, uint64_t count, FramesRefused& refused) {
  switch (cause) {
    case DecodeStatus::kOk: break;
    case DecodeStatus::kTooShort: refused.too_short = count; break;
    case DecodeStatus::kTooLong: refused.too_long = count; break;
    case DecodeStatus::kBadMagic: refused.bad_magic = count; break;
    case DecodeStatus::kWrongVersion: refused.wrong_version = count; break;
    case DecodeStatus::kBadChecksum: refused.bad_checksum = count; break;
    case DecodeStatus::kMalformed: refused.malformed = count; break;
    case DecodeStatus::kUnknownMessage: refused.unknown_message = count; break;
    case DecodeStatus::kOutOfRange: refused.out_of_range = count; break;
    case DecodeStatus::kWrongChannel: refused.wrong_channel = count; break;
    case DecodeStatus::kPayloadMismatch: refused.payload_mismatch = count; break;
  }
}

FramesRefused count_refused(const RouterCounters& router, const TransportCounters& transport) {
  FramesRefused refused;
  refused.wrong_parts = transport.frames_refused;
  refused.wrong_sender = router.wrong_sender;
  refused.other_swarm = router.other_swarm;
  for (size_t i = 0; i < router.undecoded.size(); ++i) {
    count_cause(static_cast<DecodeStatus>(i), router.undecoded[i], refused);
  }
  return refused;
}

const char* phase_name(Phase phase) {
  switch (phase) {
    case Phase::kJoining: return "joining";
    case Phase::kTraining: return "training";
    case Phase::kSettling: return "settling";
    case Phase::kFinished: return "finished";
    case Phase::kSick: return "sick";
  }
  return "?";
}

PeerRecord own_record(const AgentOptions& options) {
  PeerRecord record{options.self, {options.generation, 0}, options.advertise, {}};
  record.meta.name = options.config.agent.name;
  return record;
}

}  // namespace

Agent::Agent(const AgentOptions& options, const AgentParts& parts)
    : options_(options), parts_(parts),
      router_({own_record(options), options.config.swarm.membership, options.config.agent.bootstrap, options.rng_seed,
               describe_difference},
              parts.transport, parts.clock),
      router_log_(parts.clock),
      swarm_clock_(router_.membership()),
      entry_(options, parts, router_, {[this] { prepare_exchange(); },
                                       [this](const Progress& from, const char* how) { begin_rounds(from, how); }}) {
  born_ = next_status_ = parts_.clock.now();
  entry_.start();
}

Agent::~Agent() = default;

void Agent::prepare_exchange() {
  const SwarmConfig& swarm = entry_.swarm();
  sampler_ = std::make_unique<SwarmSampler>(swarm_sampler_options(swarm, options_.config.agent.name),
                                           router_.membership(), swarm_clock_, parts_.clock,
                                           options_.rng_seed ^ kSamplerStream);
  ExchangeParts made = make_exchange({swarm, options_.self, options_.generation, entry_.model()->encoder(),
                                      entry_.trainer()->params().space, parts_.worker, parts_.clock, router_,
                                      *sampler_});
  host_codec_ = std::move(made.host_codec);
  exchange_ = std::move(made.exchange);
}

void Agent::begin_rounds(const Progress& from, const char* how) {
  RoundsOptions options;
  options.swarm = entry_.swarm();
  options.checkpoint_every = options_.config.agent.checkpoint_every;
  options.evaluate_every = options_.config.agent.evaluate_every;
  options.on_saved = [this] { router_.donor().set_model(entry_.keeper()->model()); };
  rounds_ = std::make_unique<Rounds>(options, *entry_.trainer(), *entry_.model(), exchange_.get(), *sampler_,
                                     swarm_clock_, *entry_.keeper(), parts_.worker, parts_.clock, parts_.observer);
  rounds_->start(from, std::string_view(how) == "fetched" && from.steps > 0);
  stage_ = Stage::kRunning;
  Joined joined{how, from.steps, from.round, seconds(parts_.clock.now() - born_)};
  joined.peers = router_.membership().alive().size();
  joined.params = entry_.trainer()->params().count;
  joined.data = entry_.trainer()->data().summary;
  parts_.observer.on(joined);
}

void Agent::tick() {
  if (stage_ == Stage::kGone) return;
  parts_.worker.run_completions();
  router_.tick(*this);
  const TimePoint now = parts_.clock.now();
  entry_.tick();
  if (stage_ == Stage::kRunning || stage_ == Stage::kParting) {
    if (exchange_) exchange_->tick();
    if (rounds_) rounds_->tick();
    if (stage_ == Stage::kRunning && rounds_->ended()) part(leaving_ ? "signal" : "stop_after");
  }
  if (leaving_ && stage_ != Stage::kParting && now >= leave_deadline_) part("signal");
  if (stage_ == Stage::kParting && now >= part_deadline_) say_farewell();
  router_.membership().update_self(meta());
  if (now >= next_status_ && stage_ != Stage::kGone) {
    next_status_ = now + kStatusEvery;
    report_status();
  }
}

TimePoint Agent::next_deadline() const {
  TimePoint next = std::min(router_.next_deadline(), next_status_);
  next = std::min(next, entry_.next_deadline());
  if (exchange_) next = std::min(next, exchange_->next_deadline());
  if (rounds_) next = std::min(next, rounds_->next_deadline());
  if (stage_ == Stage::kParting) next = std::min(next, part_deadline_);
  if (leaving_) next = std::min(next, leave_deadline_);
  return next;
}

void Agent::leave() {
  if (leaving_) return;
  leaving_ = true;
  leave_deadline_ = parts_.clock.now() + kLeavePatience;
  if (rounds_ && stage_ == Stage::kRunning) {
    rounds_->stop();
  } else if (stage_ != Stage::kGone) {
    part("signal");
  }
}

// Begins the end of this agent. After stop_after it stays until no member settles any more; after a signal, only for
// the farewell.
void Agent::part(const char* reason) {
  const TimePoint now = parts_.clock.now();
  stage_ = Stage::kParting;
  entry_.give_up();
  part_deadline_ = now;
  if (!leaving_) leave_deadline_ = now + kPartPatience;
  if (!rounds_ || reported_finish_) return;
  reported_finish_ = true;
  parts_.observer.on(Finished{status(), reason});
}

// Members that still settle need this agent's half of an exchange, so it waits for them, up to kPartPatience and not
// after Ctrl-C. Then it announces its leave and waits kLastWords for the message to be sent.
void Agent::say_farewell() {
  const TimePoint now = parts_.clock.now();
  if (farewell_said_) {
    stage_ = Stage::kGone;
  } else if (leaving_ || swarm_clock_.taking_part_count() == 0 || now >= leave_deadline_) {
    router_.membership().announce_leave();
    farewell_said_ = true;
    part_deadline_ = now + kLastWords;
  } else {
    part_deadline_ = now + kLastWords / 4;
  }
}

void Agent::on_bootstrap(const FrameHeader& header, const BootstrapMessage& message, const SharedBytes& payload) {
  entry_.handle(header, message, payload);
}

void Agent::on_exchange(const FrameHeader& header, const ExchangeMessage& message, const SharedBytes& payload) {
  if (exchange_) exchange_->handle(header.sender, header.generation, message, payload);
}

// Does nothing: without settings, the router adopts those of an agent that joins it and answers in the name of that
// swarm. This agent takes its own from its config or its contact.
void Agent::on_settings_adopted() {}

void Agent::on_frame_refused(const ReceivedFrame& frame, const char* cause) {
  router_log_.refused(frame, cause, router_.counters());
}

// Exchanges with a member that died or left are kept until its tombstone expires: the verdict may be wrong, and either
// side may hold a half of an exchange whose outcome the other still has to learn.
void Agent::on_member(const MemberEvent& event) {
  router_log_.member(router_.membership(), event);
  if (event.kind == MemberEventKind::kReaped) {
    if (exchange_) exchange_->forget(event.peer, kEveryLife);
    return;
  }
  const char* change = "";
  switch (event.kind) {
    case MemberEventKind::kJoined: change = "joined"; break;
    case MemberEventKind::kSuspected: change = "suspected"; break;
    case MemberEventKind::kAliveAgain: change = "alive"; break;
    case MemberEventKind::kDied: change = "died"; break;
    case MemberEventKind::kLeft: change = "left"; break;
    case MemberEventKind::kRestarted: change = "restarted"; break;
    case MemberEventKind::kReaped: break;
  }
  const Member* member = router_.membership().find(event.peer);
  parts_.observer.on(MemberChanged{event.peer.hex(), member ? member->record.meta.name : "", change});
  if (event.kind == MemberEventKind::kRestarted && exchange_) {
    exchange_->forget(event.peer, member->record.version.generation);
  }
}

MemberMeta Agent::meta() const {
  MemberMeta meta;
  meta.name = options_.config.agent.name;
  if (!rounds_) return meta;
  meta.phase = stage_ == Stage::kParting ? Phase::kFinished : rounds_->phase();
  meta.round = rounds_->progress().round;
  meta.steps = rounds_->progress().steps;
  meta.samples = rounds_->progress().samples;
  meta.mass = rounds_->mass();
  meta.steps_per_s = static_cast<float>(rounds_->steps_per_s());
  const auto finite = [](double value, float otherwise) {
    return std::isfinite(value) ? static_cast<float>(value) : otherwise;
  };
  meta.loss = finite(rounds_->loss(), 0);
  meta.accuracy = finite(rounds_->accuracy(), -1);
  meta.distance = finite(rounds_->relative_distance(), -1);
  return meta;
}

AgentStatus Agent::status() const {
  const MemberMeta now = meta();
  const TransportCounters traffic = parts_.transport.counters();
  AgentStatus status;
  status.phase = phase_name(now.phase);
  status.steps = now.steps;
  status.round = now.round;
  status.samples = now.samples;
  status.loss = measured(rounds_->loss());
  status.accuracy = measured(rounds_->accuracy());
  status.distance = measured(rounds_->relative_distance());
  status.peers = router_.membership().alive().size();
  status.learning_rate = rounds_->learning_rate();
  status.steps_per_s = rounds_->steps_per_s();
  status.exchanges = rounds_->tally();
  const ExchangeStatus exchange = exchange_ ? exchange_->status() : ExchangeStatus{};
  status.blocks = exchange.block_tally;
  status.doubts_broken = exchange.doubts_broken;
  const RouterCounters& router = router_.counters();
  status.bytes_sent = traffic.bytes_sent;
  status.bytes_received = traffic.bytes_received;
  status.frames = {traffic.frames_sent, traffic.frames_received, traffic.frames_dropped, router.sends_failed};
  status.frames_refused = count_refused(router, traffic);
  status.joins = {router.joins, router.joins_refused};
  status.membership = router_.membership().counters();
  return status;
}

void Agent::report_status() {
  if (!rounds_) return;
  const ExchangeStatus exchange = exchange_ ? exchange_->status() : ExchangeStatus{};
  if (exchange_ && stage_ == Stage::kRunning) {
    deadline_watch_.look(entry_.swarm().exchange.deadline_max, exchange, rounds_->tally(), router_.membership(),
                         parts_.clock.now());
  }
  parts_.observer.on(status());
}

}  // namespace starling
