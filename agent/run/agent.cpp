#include "agent/run/agent.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <utility>

#include <spdlog/spdlog.h>

#include "agent/config/settings.h"
#include "agent/run/make_exchange.h"
#include "gossip/limits.h"
#include "gossip/net/hash.h"
#include "kernels/cast.h"
#include "kernels/check.h"
#include "kernels/transfer.h"

namespace starling {
namespace {

constexpr Duration kContactPatience = std::chrono::seconds(3);   // then an agent with a genesis begins alone
constexpr Duration kDoubtsWarningEvery = std::chrono::minutes(1);
constexpr Duration kStatusEvery = std::chrono::seconds(1);
constexpr Duration kRejoinEvery = std::chrono::seconds(5);
constexpr Duration kWaitingEvery = std::chrono::seconds(3);
constexpr Duration kPartPatience = std::chrono::seconds(5);      // for the others to finish too
constexpr Duration kLeavePatience = std::chrono::milliseconds(1500);
constexpr uint64_t kSamplerStream = 0x5061727473ull;

std::string hex(std::span<const uint8_t> bytes) {
  std::string text;
  for (uint8_t byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

std::string genesis_hash(Trainer& trainer) {
  const View params = trainer.params();
  std::vector<float> values(params.count);
  copy_to_host(params, values.data());
  return hex(blake2b_256(std::as_bytes(std::span<const float>(values))));
}

std::optional<double> measured(double value) {
  return std::isfinite(value) && value >= 0 ? std::optional(value) : std::nullopt;
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
      swarm_clock_(router_.membership()) {
  born_ = next_status_ = next_waiting_ = parts_.clock.now();
  if (!options_.stored_settings.empty()) take_stored_settings();
  if (options_.config.has_swarm) {
    swarm_ = options_.config.swarm;
    make_trainer();
  } else {
    contact_began_ = born_;
    JoinerOptions joiner;
    joiner.bootstrap = options_.config.agent.bootstrap;
    contact_ = std::make_unique<Contact>(joiner, router_.membership(), parts_.clock, router_, options_.rng_seed + 1);
    stage_ = Stage::kContacting;
  }
}

Agent::~Agent() = default;

// A config that says the same in other words, or was printed by another version, is still of the stored swarm.
void Agent::take_stored_settings() {
  const AgreedSettings stored = parse_agreed_settings(options_.stored_settings);
  if (options_.config.has_swarm && !same_settings(options_.config.swarm, stored.swarm)) {
    spdlog::warn("the config has other settings than the swarm of this state folder, so this agent leaves that swarm:\n"
                 "{}", describe_difference(agreed_settings(options_.config.swarm, stored.genesis_hash_hex),
                                          options_.stored_settings));
    return;
  }
  router_.set_settings(options_.stored_settings);
  swarm_genesis_hash_ = stored.genesis_hash_hex;
  options_.config.swarm = stored.swarm;
  options_.config.has_swarm = true;
}

void Agent::make_trainer() {
  stage_ = Stage::kMakingTrainer;
  parts_.worker.submit(
      [this] {
        try {
          trainer_ = parts_.make_trainer(swarm_);
          own_genesis_hash_ = genesis_hash(*trainer_);
        } catch (...) {
          start_error_ = std::current_exception();
        }
      },
      [this] { trainer_made(); });
}

void Agent::trainer_made() {
  if (start_error_) std::rethrow_exception(start_error_);
  if (stage_ != Stage::kMakingTrainer) return;   // told to leave meanwhile
  if (swarm_genesis_hash_.empty()) {   // this agent brings the settings
    swarm_genesis_hash_ = own_genesis_hash_;
    router_.set_settings(agreed_settings(swarm_, own_genesis_hash_));
  }
  keeper_ = parts_.make_keeper(router_.swarm_id(), router_.settings());
  if (contact_ || options_.config.agent.bootstrap.empty() || swarm_.exchange.kind == ExchangeKind::kNone) {
    enter();
    return;
  }
  JoinerOptions joiner;
  joiner.bootstrap = options_.config.agent.bootstrap;
  joiner.settings = router_.settings();
  joiner.compare = describe_difference;
  contact_ = std::make_unique<Contact>(joiner, router_.membership(), parts_.clock, router_, options_.rng_seed + 1);
  contact_began_ = parts_.clock.now();
  stage_ = Stage::kContacting;
}

void Agent::contact_answered() {
  if (trainer_) {
    if (contact_->settings() != router_.settings()) {   // the same in other words: theirs is the older text
      router_.set_settings(contact_->settings());
      keeper_ = parts_.make_keeper(router_.swarm_id(), router_.settings());
    }
    enter();
    return;
  }
  router_.set_settings(contact_->settings());
  adopted_ = true;
  const AgreedSettings agreed = parse_agreed_settings(router_.settings());
  swarm_ = agreed.swarm;
  swarm_genesis_hash_ = agreed.genesis_hash_hex;
  router_.membership().set_options(swarm_.membership);
  spdlog::info("adopted the settings of swarm '{}' (id {:016x}): {} params by {}", swarm_.name, router_.swarm_id(),
               codec_name(swarm_.exchange.codec), swarm_.model.kind);
  make_trainer();
}

void Agent::enter() {
  const ExchangeConfig& exchange = swarm_.exchange;
  model_ = std::make_unique<SharedModel>(*trainer_, shared_sections(*trainer_, exchange.carry_momentum),
                                         make_codec(exchange.codec, trainer_->params().space), exchange.block,
                                         exchange.share_gradients ? make_gradients_source() : make_params_source(),
                                         nullptr);
  sampler_ = std::make_unique<PeerSampler>(peer_sampler_options(swarm_, options_.config.agent.name),
                                           router_.membership(), swarm_clock_, parts_.clock,
                                           options_.rng_seed ^ kSamplerStream);
  ExchangeParts made = make_exchange({swarm_, options_.self, options_.generation, model_->encoder(),
                                      trainer_->params().space, parts_.worker, parts_.clock, router_, *sampler_});
  host_codec_ = std::move(made.host_codec);
  exchange_ = std::move(made.exchange);
  stage_ = Stage::kRestoring;
  // A checkpoint is read and checked as a whole, which takes seconds for a large model: on the worker, so that this
  // agent answers probes meanwhile.
  struct Found {
    bool any = false;
    Progress progress;
    std::vector<std::byte> codec_memory;
  };
  auto found = std::make_shared<Found>();
  parts_.worker.submit([this, found] {
                         found->any = keeper_->restore(&found->progress, *trainer_, &found->codec_memory);
                         if (!found->any || model_->load(found->codec_memory)) return;
                         spdlog::warn("what the codec remembered is not of this layout; it begins anew");
                       },
                       [this, found] {
                         if (stage_ != Stage::kRestoring) return;   // told to leave meanwhile
                         restored(found->any ? &found->progress : nullptr);
                       });
}

// Own state first (a restart), then the swarm's model if it has begun, then the genesis if we can reproduce it.
void Agent::restored(const Progress* own) {
  if (own) {
    begin_rounds(*own, "resumed");
    return;
  }
  // Who adopts a swarm that trains joins it, however young its records say it is; those that start one together, each
  // with its settings, all begin from the genesis.
  const std::vector<Member> members = router_.membership().alive();
  const bool begun = std::any_of(members.begin(), members.end(), [this](const Member& member) {
    const MemberMeta& meta = member.record.meta;
    return meta.role == Role::kAgent && (meta.steps > 0 || (adopted_ && meta.phase != Phase::kJoining));
  });
  if (begun) {
    begin_fetch();
  } else if (own_genesis_hash_ == swarm_genesis_hash_) {
    begin_rounds({}, swarm_.exchange.kind == ExchangeKind::kNone ? "alone" : "genesis");
  } else {
    spdlog::warn("this program does not reproduce the swarm's genesis (ours {:.8}, theirs {:.8}); waiting for a member "
                 "that gives the model", own_genesis_hash_, swarm_genesis_hash_);
    begin_fetch();
  }
}

void Agent::begin_fetch() {
  const View params = trainer_->params();   // nobody looks at them before the whole model is there
  JoinerOptions joiner;
  joiner.bootstrap = options_.config.agent.bootstrap;
  fetch_ = std::make_unique<ModelFetch>(
      joiner, params.count * sizeof(float), router_.membership(), parts_.clock, router_, parts_.worker,
      [params](uint64_t offset_bytes, std::span<const std::byte> bytes) {
        const size_t count = bytes.size() / sizeof(float);
        if (!all_finite_f32(bytes.data(), count)) return false;
        copy_from_host(bytes.data(), params.part(offset_bytes / sizeof(float), count));
        return true;
      },
      options_.rng_seed + 2);
  stage_ = Stage::kFetching;
}

void Agent::fetched() {
  trainer_->params_changed();
  parts_.observer.on(ModelFetched{trainer_->params().count * sizeof(float), seconds(fetch_->transfer_time())});
  Progress progress;
  progress.round = fetch_->round();
  progress.steps = fetch_->steps();
  fetch_.reset();
  begin_rounds(progress, "fetched");
}

void Agent::begin_rounds(const Progress& from, const char* how) {
  RoundsOptions options;
  options.swarm = swarm_;
  options.checkpoint_every = options_.config.agent.checkpoint_every;
  options.evaluate_every = options_.config.agent.evaluate_every;
  options.on_saved = [this] { router_.donor().set_model(keeper_->model()); };
  rounds_ = std::make_unique<Rounds>(options, *trainer_, *model_, exchange_.get(), *sampler_, swarm_clock_, *keeper_,
                                     parts_.worker, parts_.clock, parts_.observer);
  rounds_->start(from, std::string_view(how) == "fetched" && from.steps > 0);
  stage_ = Stage::kRunning;
  Joined joined{how, from.steps, from.round, seconds(parts_.clock.now() - born_)};
  joined.peers = router_.membership().alive().size();
  joined.params = trainer_->params().count;
  joined.data = trainer_->data().summary;
  parts_.observer.on(joined);
}

void Agent::tick() {
  if (stage_ == Stage::kGone) return;
  parts_.worker.run_completions();
  router_.tick(*this);
  const TimePoint now = parts_.clock.now();
  switch (stage_) {
    case Stage::kContacting:
      contact_->tick();
      if (contact_->state() == Contact::State::kRefused) throw std::runtime_error(contact_->refusal());
      if (contact_->state() == Contact::State::kAnswered) {
        contact_answered();
      } else if (trainer_ && own_genesis_hash_ == swarm_genesis_hash_ && now - contact_began_ > kContactPatience) {
        spdlog::warn("nobody answers yet ({}); starting from the genesis, and asking on", contact_->waiting_for());
        enter();
      } else if (now - contact_began_ > kContactPatience) {
        say_waiting(contact_->waiting_for());
      }
      break;
    case Stage::kFetching:
      keep_asking();
      fetch_->tick();
      if (fetch_->done()) {
        fetched();
      } else if (now - born_ > kContactPatience) {
        say_waiting(fetch_->waiting_for());
      }
      break;
    case Stage::kRunning:
    case Stage::kParting:
      keep_asking();
      if (exchange_) exchange_->tick();
      if (rounds_) rounds_->tick();
      if (stage_ == Stage::kRunning && rounds_->ended()) part(leaving_ ? "signal" : "stop_after");
      break;
    case Stage::kMakingTrainer:
    case Stage::kRestoring:
    case Stage::kGone:
      break;
  }
  if (leaving_ && stage_ != Stage::kParting && now >= leave_deadline_) part("signal");
  if (stage_ == Stage::kParting && now >= part_deadline_) say_farewell();
  router_.membership().update_self(meta());
  if (now >= next_status_ && stage_ != Stage::kGone) {
    next_status_ = now + kStatusEvery;
    report_status();
  }
}

// Who went on without an answer still wants one: two islands of one swarm find each other so. And a registry that
// restarted empty learns of the swarm again from its members.
void Agent::keep_asking() {
  if (contact_ && contact_->state() == Contact::State::kSearching) {
    contact_->tick();
    return;
  }
  const TimePoint now = parts_.clock.now();
  if (now < next_rejoin_) return;
  next_rejoin_ = now + kRejoinEvery;
  const std::vector<Member> members = router_.membership().alive();
  for (const Endpoint& seed : options_.config.agent.bootstrap) {
    const bool known = std::any_of(members.begin(), members.end(),
                                   [&](const Member& member) { return member.record.endpoint == seed; });
    if (known || seed == options_.advertise) continue;
    router_.send(seed, Join{router_.membership().self(), router_.settings()});
  }
}

TimePoint Agent::next_deadline() const {
  TimePoint next = std::min(router_.next_deadline(), next_status_);
  const bool searching = contact_ && contact_->state() == Contact::State::kSearching;
  if (searching) next = std::min(next, contact_->next_deadline());
  if (fetch_) next = std::min(next, fetch_->next_deadline());
  if (rounds_ && !searching) next = std::min(next, next_rejoin_);
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

// Finished or told to go. After stop_after we stay until nobody settles any more; after a signal only for the farewell.
void Agent::part(const char* reason) {
  const TimePoint now = parts_.clock.now();
  stage_ = Stage::kParting;
  part_deadline_ = now;
  if (!leaving_) leave_deadline_ = now + kPartPatience;
  if (!rounds_ || reported_finish_) return;
  reported_finish_ = true;
  parts_.observer.on(Finished{status(), reason});
}

// The others may still settle and need our half of an exchange: we wait for them, but not for ever, and not after a
// Ctrl-C. Then everyone is told, and the word gets time to reach the wire.
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
  if (contact_) contact_->handle(header, message);
  if (const auto* reply = std::get_if<JoinReply>(&message); reply && reply->settings == router_.settings()) {
    for (const PeerRecord& record : reply->members) router_.membership().add(record);
  }
  if (fetch_) fetch_->handle(header, message, payload);
}

void Agent::on_exchange(const FrameHeader& header, const ExchangeMessage& message, const SharedBytes& payload) {
  if (exchange_) exchange_->handle(header.sender, header.generation, message, payload);
}

// Settings come from this agent's own config or contact, not from somebody who happens to join through it: until it
// has them the router only answers in the name of that swarm.
void Agent::on_settings_adopted() {}

void Agent::on_frame_refused(const ReceivedFrame& frame, const char* cause) {
  router_log_.refused(frame, cause, router_.counters());
}

// A member that died or left is not forgotten before its tombstone expires: the verdict may be wrong, and either side
// may hold a half of an exchange that the other one has to learn of.
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
  if (exchange_) status.blocks = exchange_->status().block_tally;
  status.bytes_sent = traffic.bytes_sent;
  status.bytes_received = traffic.bytes_received;
  return status;
}

void Agent::report_status() {
  if (!rounds_) return;
  const ExchangeStatus exchange = exchange_ ? exchange_->status() : ExchangeStatus{};
  if (exchange_ && stage_ == Stage::kRunning) {
    deadline_watch_.look(swarm_.exchange.deadline_max, exchange, rounds_->tally(), router_.membership(),
                         parts_.clock.now());
  }
  warn_of_broken_doubts(exchange.doubts_broken);
  parts_.observer.on(status());
}

void Agent::warn_of_broken_doubts(uint64_t broken) {
  if (broken == warned_doubts_ || parts_.clock.now() < next_doubts_warning_) return;
  next_doubts_warning_ = parts_.clock.now() + kDoubtsWarningEvery;
  warned_doubts_ = broken;
  spdlog::warn("{} exchanges were given up in doubt: more than {} partners fell silent before their last word; of each "
               "such exchange one half may be missing, which moves the swarm's mean",
               broken, kParkedDoubtsMax);
}

void Agent::say_waiting(const std::string& what) {
  if (parts_.clock.now() < next_waiting_) return;
  next_waiting_ = parts_.clock.now() + kWaitingEvery;
  spdlog::warn("waiting: {}", what);
}

}  // namespace starling
