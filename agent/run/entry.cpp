#include "agent/run/entry.h"

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <variant>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "agent/config/settings.h"
#include "agent/run/source.h"
#include "gossip/net/hash.h"
#include "kernels/cast.h"
#include "kernels/transfer.h"

namespace starling {
namespace {

constexpr Duration kContactPatience = std::chrono::seconds(3);   // then an agent with a genesis begins alone
constexpr Duration kRejoinEvery = std::chrono::seconds(5);
constexpr Duration kWaitingEvery = std::chrono::seconds(3);

std::string hex(std::span<const uint8_t> bytes) {
  std::string text;
  for (uint8_t byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

// Of a text that a member answered with; empty: none.
std::string settings_problem(const std::string& text) {
  try {
    (void)parse_agreed_settings(text);
    return "";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

std::string genesis_hash(Trainer& trainer) {
  const View params = trainer.params();
  std::vector<float> values(params.count);
  copy_to_host(params, values.data());
  return hex(blake2b_256(std::as_bytes(std::span<const float>(values))));
}

}  // namespace

Entry::Entry(const AgentOptions& options, const AgentParts& parts, Router& router, Hooks hooks)
    : options_(options), parts_(parts), router_(router), hooks_(std::move(hooks)) {}

Entry::~Entry() = default;

void Entry::start() {
  born_ = next_waiting_ = parts_.clock.now();
  if (!options_.stored_settings.empty()) take_stored_settings();
  if (options_.config.has_swarm) {
    swarm_ = options_.config.swarm;
    make_trainer();
  } else {
    contact_somebody({});
  }
}

void Entry::contact_somebody(const std::string& settings) {
  ContactOptions options;
  options.bootstrap = options_.config.agent.bootstrap;
  options.settings = settings;
  options.compare = describe_difference;
  options.problem_of = settings_problem;
  contact_ = std::make_unique<Contact>(options, router_.membership(), parts_.clock, router_, options_.rng_seed + 1);
  contact_began_ = parts_.clock.now();
  stage_ = Stage::kContacting;
}

// The stored text counts if the config means the same, even if it is written differently or by another version.
void Entry::take_stored_settings() {
  const AgreedSettings stored = parse_agreed_settings(options_.stored_settings);
  if (options_.config.has_swarm && !same_settings(options_.config.swarm, stored.swarm)) {
    throw std::runtime_error(fmt::format(
        "the state folder {} belongs to another swarm than the config:\n{}\n(Here: the config; there: the folder.) "
        "Nothing was changed. To go on with that swarm, undo the changes or start without --config. To begin another "
        "swarm, name a new folder with --state.", options_.config.agent.state,
        describe_difference(agreed_settings(options_.config.swarm, stored.genesis_hash_hex),
                            options_.stored_settings)));
  }
  router_.set_settings(options_.stored_settings);
  swarm_genesis_hash_ = stored.genesis_hash_hex;
  options_.config.swarm = stored.swarm;
  options_.config.has_swarm = true;
}

void Entry::make_trainer() {
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

void Entry::trainer_made() {
  if (start_error_) std::rethrow_exception(start_error_);
  if (stage_ != Stage::kMakingTrainer) return;   // told to leave meanwhile
  if (swarm_genesis_hash_.empty()) {   // this agent brings the settings
    swarm_genesis_hash_ = own_genesis_hash_;
    router_.set_settings(agreed_settings(swarm_, own_genesis_hash_));
  }
  if (contact_ || options_.config.agent.bootstrap.empty() || swarm_.exchange.kind == ExchangeKind::kNone) {
    enter();
    return;
  }
  contact_somebody(router_.settings());
}

void Entry::contact_answered() {
  if (trainer_) {
    if (contact_->settings() != router_.settings()) {   // same meaning, other text: theirs is the older one
      router_.set_settings(contact_->settings());
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

void Entry::enter() {
  keeper_ = parts_.make_keeper(router_.swarm_id(), router_.settings());   // not before the swarm has let this agent in
  const ExchangeConfig& exchange = swarm_.exchange;
  model_ = std::make_unique<SharedModel>(*trainer_, shared_sections(*trainer_, exchange.carry_momentum),
                                         make_codec(exchange.codec, trainer_->params().space), exchange.block,
                                         exchange.share_gradients ? make_gradients_source() : make_params_source(),
                                         nullptr);
  hooks_.model_made();
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

// Own state first (a restart), then the swarm's model if training has begun, then the genesis if we can reproduce it.
void Entry::restored(const Progress* own) {
  if (own) {
    begin(*own, "resumed");
    return;
  }
  // An agent that adopted its settings joins any member that trains, even if that member's record shows no step yet.
  // Agents that start a swarm together, each with its own config, all begin from the genesis.
  const std::vector<Member> members = router_.membership().alive();
  const bool begun = std::any_of(members.begin(), members.end(), [this](const Member& member) {
    const MemberMeta& meta = member.record.meta;
    return meta.role == Role::kAgent && (meta.steps > 0 || (adopted_ && meta.phase != Phase::kJoining));
  });
  if (begun) {
    begin_fetch();
  } else if (own_genesis_hash_ == swarm_genesis_hash_) {
    begin({}, swarm_.exchange.kind == ExchangeKind::kNone ? "alone" : "genesis");
  } else if (options_.config.agent.bootstrap.empty()) {
    throw std::runtime_error(other_genesis() + ". Nobody can give it the model either, as no address is known. If the "
                             "settings in " + options_.config.agent.state + " were edited, undo that; else join "
                             "members of the swarm with --bootstrap HOST:PORT, or begin another swarm with a new "
                             "folder (--state)");
  } else {
    spdlog::warn("{}; waiting for a member that gives the model", other_genesis());
    begin_fetch();
  }
}

void Entry::begin_fetch() {
  const View params = trainer_->params();   // not used before the whole model has arrived
  fetch_ = std::make_unique<ModelFetch>(
      ModelFetchOptions(), params.count * sizeof(float), router_.membership(), parts_.clock, router_, parts_.worker,
      [params](uint64_t offset_bytes, std::span<const std::byte> bytes) {
        const size_t count = bytes.size() / sizeof(float);
        if (!all_finite_f32(bytes.data(), count)) return false;
        copy_from_host(bytes.data(), params.part(offset_bytes / sizeof(float), count));
        return true;
      },
      options_.rng_seed + 2);
  stage_ = Stage::kFetching;
}

void Entry::fetched() {
  trainer_->params_changed();
  parts_.observer.on(ModelFetched{trainer_->params().count * sizeof(float), seconds(fetch_->transfer_time())});
  Progress progress;
  progress.round = fetch_->round();
  progress.steps = fetch_->steps();
  fetch_.reset();
  begin(progress, "fetched");
}

void Entry::tick() {
  const TimePoint now = parts_.clock.now();
  switch (stage_) {
    case Stage::kContacting:
      contact_->tick();
      if (contact_->state() == Contact::State::kRefused) throw std::runtime_error(contact_->refusal());
      if (contact_->state() == Contact::State::kAnswered) {
        contact_answered();
      } else if (trainer_ && other_genesis().empty() && !contact_->refused_by_some() &&
                 now - contact_began_ > kContactPatience) {
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
    case Stage::kEntered:
    case Stage::kGivenUp:
      keep_asking();
      break;
    case Stage::kMakingTrainer:
    case Stage::kRestoring:
      break;
  }
}

void Entry::give_up() {
  if (stage_ != Stage::kEntered) stage_ = Stage::kGivenUp;
}

TimePoint Entry::next_deadline() const {
  const bool searching = contact_ && contact_->state() == Contact::State::kSearching;
  TimePoint next = searching ? contact_->next_deadline() : TimePoint::max();
  if (fetch_) next = std::min(next, fetch_->next_deadline());
  if (stage_ == Stage::kEntered && !searching) next = std::min(next, next_rejoin_);
  return next;
}

void Entry::handle(const FrameHeader& header, const BootstrapMessage& message, const SharedBytes& payload) {
  if (contact_) contact_->handle(header, message);
  if (const auto* reply = std::get_if<JoinReply>(&message); reply && reply->settings == router_.settings()) {
    for (const PeerRecord& record : reply->members) router_.membership().add(record);
  }
  if (fetch_) fetch_->handle(header, message, payload);
}

void Entry::begin(const Progress& from, const char* how) {
  stage_ = Stage::kEntered;
  hooks_.begin(from, how);
}

// Keep asking the bootstrap addresses after starting alone, so that two islands of one swarm merge, and so that a
// registry that restarted empty learns of the swarm again.
void Entry::keep_asking() {
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

// Empty: this agent can begin alone, or has no trainer yet.
std::string Entry::other_genesis() const {
  if (own_genesis_hash_ == swarm_genesis_hash_ || own_genesis_hash_.empty()) return "";
  return fmt::format("from the swarm's settings this program makes the genesis {:.8}, but they name {:.8}: they were "
                     "edited, or come from a build or machine that computes otherwise. This agent cannot begin alone",
                     own_genesis_hash_, swarm_genesis_hash_);
}

void Entry::say_waiting(const std::string& what) {
  if (parts_.clock.now() < next_waiting_) return;
  next_waiting_ = parts_.clock.now() + kWaitingEvery;
  const std::string genesis = other_genesis();
  spdlog::warn("waiting: {}{}{}", what, genesis.empty() ? "" : "; ", genesis);
}

}  // namespace starling
