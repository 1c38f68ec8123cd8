#include "agent/run/entry.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "agent/config/settings.h"
#include "agent/share/source.h"
#include "agent/train/model_plan.h"

namespace starling {
namespace {

constexpr Duration kContactPatience = std::chrono::seconds(3);   // then an agent with a genesis begins alone

// Of a text that a member answered with; empty: none.
std::string settings_problem(const std::string& text) {
  try {
    (void)parse_agreed_settings(text);
    return "";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

ContactOptions contact_options(const AgentConfig& agent) {
  ContactOptions options;
  options.bootstrap = agent.bootstrap;
  options.wanted = agent.swarm_id;
  options.compare = describe_difference;
  options.problem_of = settings_problem;
  return options;
}

void check_swarm_named(uint64_t named, uint64_t own) {
  if (named == 0 || named == own) return;
  throw std::runtime_error(fmt::format("--swarm names {:016x}, but the settings of this agent are those of {:016x}: to "
                                       "join the one that is named, start without --config and with a new folder "
                                       "(--state)", named, own));
}

}  // namespace

Entry::Entry(const AgentOptions& options, const AgentParts& parts, Router& router, Hooks hooks)
    : options_(options), parts_(parts), router_(router), hooks_(std::move(hooks)), swarm_(router),
      seeds_(contact_options(options.config.agent), options.advertise, router, parts.clock, options.rng_seed + 1),
      notice_(parts.clock), trouble_(parts.clock) {}

void Entry::start() {
  born_ = parts_.clock.now();
  if (swarm_.take_own(options_.config, options_.stored_settings)) {
    make_trainer();
  } else {
    contact_somebody({});
  }
}

void Entry::contact_somebody(const std::string& settings) {
  seeds_.begin(settings);
  stage_ = Stage::kContacting;
}

void Entry::make_trainer() {
  stage_ = Stage::kMakingTrainer;
  struct Made {
    std::string genesis;
    std::exception_ptr error;
  };
  auto made = std::make_shared<Made>();
  parts_.worker.submit(
      [this, made] {
        try {
          trainer_ = parts_.make_trainer(swarm_.config());
          made->genesis = genesis_hash(*trainer_);
        } catch (...) {
          made->error = std::current_exception();
        }
      },
      [this, made] {
        if (made->error) std::rethrow_exception(made->error);
        if (stage_ == Stage::kMakingTrainer) trainer_made(made->genesis);   // else it was told to leave meanwhile
      });
}

void Entry::trainer_made(const std::string& genesis) {
  swarm_.genesis_drawn(genesis);
  check_swarm_named(options_.config.agent.swarm_id, router_.swarm_id());
  if (seeds_.contact() || seeds_.none() || swarm_.trains_alone()) {
    enter();
  } else {
    contact_somebody(router_.settings());
  }
}

void Entry::look_at_contact() {
  const Contact& contact = *seeds_.contact();
  if (contact.state() == Contact::State::kRefused) throw std::runtime_error(contact.refusal());
  if (contact.state() == Contact::State::kAnswered) {
    contact_answered();
  } else if (contact.refused_by_some()) {
    say_waiting(contact.waiting_for());
  } else if (seeds_.lasted() <= kContactPatience) {
    return;
  } else if (trainer_ && swarm_.genesis_problem().empty()) {
    spdlog::warn("nobody answers yet ({}); starting from the genesis, and asking on", contact.waiting_for());
    enter();
  } else {
    say_waiting(contact.waiting_for());
  }
}

void Entry::contact_answered() {
  const std::string& agreed = seeds_.contact()->settings();
  if (trainer_) {
    swarm_.take_words(agreed);
    enter();
  } else {
    swarm_.adopt(agreed);
    make_trainer();
  }
}

// Of pairs that mix them along a few directions.
SharedMatrices Entry::shared_matrices() const {
  const uint32_t rank = swarm().exchange.low_rank;
  if (rank == 0) return {};
  if (trainer_->params().space != MemorySpace::kHost) {
    throw std::runtime_error("swarm.exchange.powergossip.rank: pairs mix a few directions of a matrix on the CPU only; "
                             "start with --device cpu, or write powergossip.rank: 0 and codec: modulo4");
  }
  return {rank, model_matrices(swarm().model)};
}

void Entry::enter() {
  keeper_ = parts_.make_keeper(router_.swarm_id(), router_.settings());   // not before the swarm has let this agent in
  const ExchangeConfig& exchange = swarm().exchange;
  if (shares_updates(exchange)) {
    updates_ = std::make_unique<UpdateModel>(*trainer_, exchange);
  } else {
    model_ = std::make_unique<SharedModel>(*trainer_, shared_sections(*trainer_, exchange.carry_momentum),
                                           make_codec(exchange.codec, trainer_->params().space), exchange.block,
                                           make_source(exchange.source), nullptr, shared_matrices());
  }
  hooks_.model_made();
  stage_ = Stage::kChoosingParams;
  first_ = std::make_unique<FirstParams>(options_, parts_, swarm_, router_, *trainer_, memory(), *keeper_,
                                         [this](const Progress& from, const char* how) { begin(from, how); });
}

void Entry::begin(const Progress& from, const char* how) {
  stage_ = Stage::kEntered;
  hooks_.begin(from, how);
}

void Entry::tick() {
  switch (stage_) {
    case Stage::kContacting:
      seeds_.tick();
      look_at_contact();
      break;
    case Stage::kChoosingParams:
      if (!first_->fetching()) break;
      seeds_.call_again();
      first_->tick();
      if (first_->fetching() && parts_.clock.now() - born_ > kContactPatience) say_waiting(first_->waiting_for());
      break;
    case Stage::kEntered:
      seeds_.call_again();
      look_at_seeds();
      break;
    case Stage::kGivenUp:
      seeds_.call_again();
      break;
    case Stage::kMakingTrainer:
      break;
  }
}

// Two agents that began alone, each with a config of its own, find out only now that they are two swarms.
void Entry::look_at_seeds() {
  const std::string trouble = seeds_.trouble();
  if (trouble.empty() || swarm_.trains_alone()) return;
  if (seeds_.refused() && !hooks_.exchanged()) {
    throw std::runtime_error("this agent has trained alone so far, and nobody lets it in:\n" + trouble);
  }
  trouble_.say(trouble);
}

void Entry::give_up() {
  if (first_) first_->give_up();
  if (stage_ != Stage::kEntered) stage_ = Stage::kGivenUp;
}

TimePoint Entry::next_deadline() const {
  const TimePoint next = seeds_.next_deadline(stage_ == Stage::kEntered);
  return stage_ == Stage::kChoosingParams ? std::min(next, first_->next_deadline()) : next;
}

void Entry::handle(const FrameHeader& header, const BootstrapMessage& message, const SharedBytes& payload) {
  seeds_.handle(header, message);
  if (first_) first_->handle(header, message, payload);
}

void Entry::say_waiting(const std::string& what) {
  const std::string problem = swarm_.genesis_problem();
  notice_.say(problem.empty() ? what : what + "; " + problem);
}

}  // namespace starling
