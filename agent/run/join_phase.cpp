#include "agent/run/join_phase.h"

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

constexpr Duration kCompanyPatience = std::chrono::seconds(30);  // of one whose last peer is gone
constexpr Duration kContactPatience = std::chrono::seconds(3);   // then an agent with a genesis begins alone

// Of a text that a member answered with; empty: none.
std::string settings_problem(const TrustConfig& own, const std::string& text, const std::string& signature) {
  try {
    return problem_of_trust(own, parse_agreed_settings(text).swarm.trust, text, signature);
  } catch (const ConfigError& error) {
    return error.what();
  }
}

ContactOptions contact_options(const Config& config, const KnownMembers& known, const FindPath& find_path) {
  const AgentConfig& agent = config.agent;
  ContactOptions options;
  options.bootstrap = agent.bootstrap;
  for (const KnownMember& member : known.members) options.known.push_back(member.address);
  options.wanted = agent.swarm_id;
  options.compare = describe_difference;
  options.problem_of = [own = config.swarm.trust](const std::string& text, const std::string& signature) {
    return settings_problem(own, text, signature);
  };
  options.find_path = find_path;
  return options;
}

void check_swarm_named(uint64_t named, uint64_t own) {
  if (named == 0 || named == own) return;
  throw std::runtime_error(
      fmt::format("--swarm names {:016x}, but the settings of this agent are those of {:016x}: to "
                  "join the one that is named, start without --config and with a new folder "
                  "(--state)",
                  named, own));
}

}  // namespace

JoinPhase::JoinPhase(const AgentOptions& options, const AgentParts& parts, Router& router, Hooks hooks)
    : options_(options),
      parts_(parts),
      router_(router),
      hooks_(std::move(hooks)),
      swarm_(router, options.sign_settings),
      seeds_(contact_options(options.config, options.known, parts.find_path), options.advertise, router, parts.clock,
             options.rng_seed + 1),
      notice_(parts.clock),
      trouble_(parts.clock) {}

void JoinPhase::start() {
  born_ = parts_.clock.now();
  if (swarm_.take_own(options_.config, options_.stored_settings)) {
    make_trainer();
  } else {
    contact_somebody({});
  }
}

void JoinPhase::contact_somebody(const std::string& settings) {
  seeds_.begin(settings);
  stage_ = Stage::kContacting;
}

void JoinPhase::make_trainer() {
  stage_ = Stage::kMakingTrainer;
  struct Made {
    std::string genesis;
    std::exception_ptr error;
  };
  auto made = std::make_shared<Made>();
  // A slow draw, for nothing where the agent fetches the model.
  const bool draws = !swarm_.knows_genesis() || shares_updates(swarm().exchange);
  parts_.worker.submit(
      [this, made, draws] {
        try {
          trainer_ = parts_.make_trainer(swarm_.config());
          if (draws) made->genesis = genesis_hash(*trainer_);
        } catch (...) {
          made->error = std::current_exception();
        }
      },
      [this, made] {
        if (made->error) std::rethrow_exception(made->error);
        if (stage_ == Stage::kMakingTrainer) trainer_made(made->genesis);  // else it was told to leave meanwhile
      });
}

void JoinPhase::trainer_made(const std::string& genesis) {
  if (!genesis.empty()) swarm_.genesis_drawn(genesis);
  check_swarm_named(options_.config.agent.swarm_id, router_.swarm_id());
  if (seeds_.contact() || seeds_.none() || swarm_.trains_alone()) {
    enter();
  } else {
    contact_somebody(router_.settings());
  }
}

void JoinPhase::look_at_contact() {
  const Contact& contact = *seeds_.contact();
  if (contact.state() == Contact::State::kRefused) throw std::runtime_error(contact.refusal());
  const bool answered = contact.state() == Contact::State::kAnswered, misses = misses_peers();
  const Duration patience = options_.config.agent.return_wait;
  const bool waits = misses && seeds_.lasted() <= patience;
  if (answered && waits) seeds_.call_again(true);
  if (answered && !waits) {
    if (misses && patience > Duration::zero()) {
      spdlog::warn(
          "{} of {} members that this agent trained with are back after {}: this agent {}. It keeps its last "
          "checkpoint that was made together, and asks on",
          returned().here, together(), print_duration(patience),
          seeds_.alone() ? "trains alone now" : "begins with those");
    }
    contact_answered();
  } else if (contact.refused_by_some()) {
    say_waiting(contact.waiting_for());
  } else if (seeds_.lasted() <= kContactPatience) {
    return;
  } else if (waits) {
    say_waiting(fmt::format(
        "{} of {} members that this agent trained with are back. A model that one trains alone forgets what it had of "
        "the others, so it waits up to {} for {}, or for one that trains (--alone: not to wait): {}",
        returned().here, together(), print_duration(patience), majority(),
        answered ? "it asks " + contact.tried() : contact.waiting_for()));
  } else if (trainer_ && (options_.has_model || (!contact.closed() && swarm_.genesis_problem().empty()))) {
    if (const size_t here = returned().here; here > 0) {
      spdlog::info("{} of {} members that this agent trained with are back: it goes on", std::min(here, together()),
                   together());
    } else {
      spdlog::warn("no answer yet ({}); this agent begins alone, and keeps asking", contact.waiting_for());
    }
    enter();
  } else {
    say_waiting(contact.waiting_for());
  }
}

// A whole cluster that comes back from a power cut starts within minutes, and a model that one member trains alone
// meanwhile loses what it had of the others. Two halves that go on apart end with two models, so most wait for each
// other.
bool JoinPhase::misses_peers() const {
  const bool ended = options_.known.finished && options_.raised_stop <= options_.known.finished_at;
  if (!trainer_ || ended) return false;
  const Returned others = returned();
  return others.here < majority() && !others.trains;
}

// Of those known, older ones may be gone for good.
size_t JoinPhase::together() const {
  return options_.known.members.empty() ? 0 : std::max<size_t>(1, options_.known.together);
}

size_t JoinPhase::majority() const { return (together() + 1) / 2; }

// A registry may still name members that died.
JoinPhase::Returned JoinPhase::returned() const {
  Returned others;
  router_.membership().visit_alive([&](const Member& member) {
    if (member.record.meta.role != Role::kAgent || !member.proven) return;
    ++others.here;
    others.trains |= member.record.meta.phase != Phase::kJoining;
  });
  return others;
}

void JoinPhase::contact_answered() {
  const Contact& contact = *seeds_.contact();
  if (trainer_) {
    swarm_.take_words(contact.settings(), contact.signature());
    enter();
  } else {
    swarm_.adopt(contact.settings(), contact.signature());
    make_trainer();
  }
}

void JoinPhase::enter() {
  keeper_ = parts_.make_keeper(router_.swarm_id(), router_.settings());  // not before the swarm has let this agent in
  const ExchangeConfig& exchange = swarm().exchange;
  if (shares_updates(exchange)) {
    updates_ = std::make_unique<UpdateModel>(*trainer_, exchange);
  } else {
    model_ = std::make_unique<SharedModel>(*trainer_, shared_sections(*trainer_, exchange.carry_momentum),
                                           make_codec(exchange.codec, trainer_->params().space), exchange.block,
                                           make_source(exchange.source), nullptr);
  }
  hooks_.model_made();
  stage_ = Stage::kChoosingParams;
  first_ = std::make_unique<FirstParams>(options_, parts_, swarm_, router_, *trainer_, memory(), *keeper_,
                                         [this](const Progress& from, const char* how) { begin(from, how); });
}

void JoinPhase::begin(const Progress& from, const char* how) {
  stage_ = Stage::kEntered;
  hooks_.begin(from, how);
}

void JoinPhase::tick() {
  switch (stage_) {
    case Stage::kContacting:
      if (!router_.twins().may_join()) break;
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
    case Stage::kGivenUp: seeds_.call_again(); break;
    case Stage::kMakingTrainer: break;
  }
}

// Two agents that began alone, each with a config of its own, find out only now that they are two swarms.
void JoinPhase::look_at_seeds() {
  const std::string trouble = seeds_.trouble();
  if (swarm_.trains_alone()) return;
  if (trouble.empty()) return look_at_company();
  if (seeds_.refused() && !hooks_.exchanged()) {
    throw std::runtime_error("this agent is alone so far, and all members refuse it:\n" + trouble);
  }
  trouble_.say(trouble);
}

void JoinPhase::look_at_company() {
  const TimePoint now = parts_.clock.now();
  if (!seeds_.alone() || !hooks_.exchanged()) {
    alone_since_.reset();
  } else if (!alone_since_) {
    alone_since_ = now;
  } else if (now - *alone_since_ >= kCompanyPatience) {
    trouble_.say(
        "this agent is alone: all that it trained with have left or are gone. What it learns now, it learns without "
        "their data: start them again, or end this agent with Ctrl-C");
  }
}

void JoinPhase::give_up() {
  if (first_) first_->give_up();
  if (stage_ != Stage::kEntered) stage_ = Stage::kGivenUp;
}

TimePoint JoinPhase::next_deadline() const {
  if (stage_ == Stage::kContacting && !router_.twins().may_join()) return TimePoint::max();
  const TimePoint next = seeds_.next_deadline(stage_ == Stage::kEntered || stage_ == Stage::kContacting);
  return stage_ == Stage::kChoosingParams ? std::min(next, first_->next_deadline()) : next;
}

void JoinPhase::handle(const FrameHeader& header, const BootstrapMessage& message, const SharedBytes& payload) {
  seeds_.handle(header, message);
  if (first_) first_->handle(header, message, payload);
}

void JoinPhase::say_waiting(const std::string& what) {
  const std::string problem = swarm_.genesis_problem();
  notice_.say(problem.empty() ? what : what + "; " + problem);
}

}  // namespace starling
