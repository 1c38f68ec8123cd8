#include "agent/run/first_params.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "agent/run/swarm_clock.h"
#include "kernels/cast.h"
#include "kernels/transfer.h"

namespace starling {
namespace {

constexpr Duration kDesertedPatience = std::chrono::seconds(10);  // another one may be about to join
constexpr uint64_t kOutdated = 100;  // rounds: a model so old would drag those of the others back

}  // namespace

ModelFetch::Sink params_sink(View params) {
  return [params](uint64_t offset_bytes, std::span<const std::byte> bytes) {
    const size_t count = bytes.size() / sizeof(float);
    if (!all_finite_f32(bytes.data(), count)) return false;
    copy_from_host(bytes.data(), params.part(offset_bytes / sizeof(float), count));
    return true;
  };
}

FirstParams::FirstParams(const AgentOptions& options, const AgentParts& parts, AgreedSwarm& swarm, Router& router,
                         Trainer& trainer, ModelMemory& model, StateKeeper& keeper, Begin begin)
    : options_(options),
      parts_(parts),
      swarm_(swarm),
      router_(router),
      trainer_(trainer),
      model_(model),
      keeper_(keeper),
      begin_(std::move(begin)),
      born_(parts.clock.now()) {
  restore();
}

void FirstParams::restore() {
  struct Found {
    bool any = false, fits = true;
    Progress progress;
    std::vector<std::byte> memory;
  };
  auto found = std::make_shared<Found>();
  parts_.worker.submit(
      [this, found] {
        found->any = keeper_.restore(&found->progress, trainer_, &found->memory);
        found->fits = !found->any || model_.load(found->memory);
      },
      [this, found] {
        if (!found->fits && !given_up_) refuse_to_lose(found->progress);
        restored(found->any ? &found->progress : nullptr);
      });
}

// Params that no log makes would give way to the genesis, and the next checkpoints to what follows from that.
void FirstParams::refuse_to_lose(const Progress& progress) const {
  if (!model_.begins_from_genesis()) {
    spdlog::warn("the saved state of the codec has another layout; the codec starts without it");
    return;
  }
  throw std::runtime_error(fmt::format(
      "the checkpoint of step {} in {} lacks what the swarm's updates say of its model: it is damaged, or of another "
      "version. Nothing was changed. Name a new folder (--state) to take the model of a member; starling export reads "
      "this one",
      progress.steps, options_.config.agent.state));
}

void FirstParams::restored(const Progress* own) {
  if (given_up_) return;
  resumable_ = own != nullptr;
  const bool can_fetch = swarm_trains() && !model_.begins_from_genesis();
  if (const uint64_t rounds = own ? outdated_by(*own) : 0) {
    spdlog::info("this agent was away for {} rounds: it takes the model of a member", rounds);
    begin_fetch();
  } else if (own && (own->steps > 0 || deserted_ || !can_fetch)) {
    warn_of_lead(*own);
    begin_(*own, "resumed");
  } else if (can_fetch) {
    begin_fetch();
  } else {
    draw();
  }
}

void FirstParams::draw() {
  if (swarm_.has_drawn()) return drawn();
  auto hash = std::make_shared<std::string>();
  parts_.worker.submit([this, hash] { *hash = genesis_hash(trainer_); },
                       [this, hash] {
                         swarm_.genesis_drawn(*hash);
                         drawn();
                       });
}

void FirstParams::drawn() {
  if (given_up_) return;
  const std::string problem = swarm_.genesis_problem();
  if (swarm_trains() && model_.begins_from_genesis() && problem.empty()) {
    begin_(median_progress(), "fetched");
  } else if (swarm_trains()) {
    begin_fetch();
  } else if (problem.empty()) {
    begin_({}, swarm_.trains_alone() ? "alone" : "genesis");
  } else if (options_.config.agent.bootstrap.empty()) {
    throw std::runtime_error(problem +
                             ". Nobody can give it the model either, as no address is known. If the "
                             "settings in " +
                             options_.config.agent.state +
                             " were edited, undo that; else join "
                             "members of the swarm with --bootstrap HOST:PORT, or begin another swarm with a new "
                             "folder (--state)");
  } else {
    spdlog::warn("{}; waiting for a member that gives the model", problem);
    begin_fetch();
  }
}

// Most are far ahead, and two at least: what a member alone made meanwhile knows its own data only. A member that is
// merely slow was as far behind before it left.
uint64_t FirstParams::outdated_by(const Progress& own) const {
  size_t others = 0;
  const std::vector<const PeerRecord*> ahead = far_ahead(own, &others);
  if (ahead.size() < 2 || 2 * ahead.size() <= others) return 0;
  uint64_t least = UINT64_MAX;
  for (const PeerRecord* agent : ahead) least = std::min(least, agent->meta.round - own.round);
  return least;
}

std::vector<const PeerRecord*> FirstParams::far_ahead(const Progress& own, size_t* others) const {
  std::vector<const PeerRecord*> ahead;
  if (deserted_ || model_.begins_from_genesis()) return ahead;
  const uint64_t lag = options_.known.behind + kOutdated;
  for (const PeerRecord* agent : agents_taking_part(router_.membership(), counting(born_, parts_.clock.now()))) {
    ++*others;
    const uint64_t round = agent->meta.round;
    if (round > own.round && round - own.round > lag) ahead.push_back(agent);
  }
  return ahead;
}

// Which of the two models is the better one its owner alone may know.
void FirstParams::warn_of_lead(const Progress& own) const {
  size_t others = 0;
  const std::vector<const PeerRecord*> ahead = far_ahead(own, &others);
  if (ahead.empty()) return;
  spdlog::warn(
      "this agent goes on from step {}, and {} is at step {}: their models are mixed. To take that one instead, end "
      "this agent and start it with a new folder (--state)",
      own.steps, print_name(*ahead.front()), ahead.front()->meta.steps);
}

// An agent that adopted its settings joins any member that trains, even if that member's record shows no step yet.
// Agents that start a swarm together, each with its own config, all begin from the genesis.
bool FirstParams::swarm_trains() const {
  const std::vector<Member> members = router_.membership().alive();
  return std::any_of(members.begin(), members.end(), [this](const Member& member) {
    const MemberMeta& meta = member.record.meta;
    return meta.role == Role::kAgent && (meta.steps > 0 || (swarm_.adopted() && meta.phase != Phase::kJoining));
  });
}

Progress FirstParams::median_progress() const {
  std::vector<Progress> all;
  for (const PeerRecord* agent : agents_taking_part(router_.membership(), answered)) {
    all.push_back({.round = agent->meta.round, .steps = agent->meta.steps});
  }
  if (all.empty()) return {};
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end(), [](const Progress& a, const Progress& b) {
    return std::pair(a.steps, a.round) < std::pair(b.steps, b.round);
  });
  return *middle;
}

// A donor may claim any number. One behind the last step would end this agent before its first, and later those that
// fetch from it. Up to twice the median member's passes: records are old by a while, and agents differ in speed.
Progress FirstParams::believable(Progress claimed) const {
  std::vector<uint64_t> rounds, steps;
  for (const PeerRecord* agent : agents_taking_part(router_.membership(), counting(born_, parts_.clock.now()))) {
    rounds.push_back(agent->meta.round);
    steps.push_back(agent->meta.steps);
  }
  const auto limit = [](uint64_t number, std::vector<uint64_t>& said) {
    if (said.empty()) return number;
    const auto middle = said.begin() + static_cast<std::ptrdiff_t>((said.size() - 1) / 2);  // the lower one of two
    std::nth_element(said.begin(), middle, said.end());
    return std::min(number, 2 * std::min(*middle, UINT64_MAX / 4) + kOutdated);
  };
  claimed.round = limit(claimed.round, rounds);
  claimed.steps = limit(claimed.steps, steps);
  return claimed;
}

void FirstParams::begin_fetch() {
  const View params = trainer_.params();  // not used before the whole model has arrived
  fetch_ = std::make_unique<ModelFetch>(ModelFetchOptions(), params.count * sizeof(float), router_.membership(),
                                        parts_.clock, router_, parts_.worker, params_sink(params),
                                        options_.rng_seed + 2, router_.secret());
}

// A swarm whose members have all left has ended. One whose members died may come back.
void FirstParams::look_for_donors() {
  bool left = false, others = false;
  for (const Member& member : router_.membership().all()) {
    if (!holds_model(member.record.meta)) continue;
    const bool gone = member.state == MemberState::kLeft || (resumable_ && member.state == MemberState::kDead);
    (gone ? left : others) = true;
  }
  if ((!left && !resumable_) || others) return deserted_.reset();
  const TimePoint now = parts_.clock.now();
  if (!deserted_) deserted_ = now;
  if (now - *deserted_ < kDesertedPatience) return;
  if (resumable_) {
    spdlog::warn("the members left or died before they could give their model ({}); this agent goes on from its own",
                 fetch_->waiting_for());
    fetch_.reset();
    return restore();
  }
  throw std::runtime_error("the swarm has ended: its last member left before it could give this agent the model (" +
                           fetch_->waiting_for() +
                           "). Its model is in the checkpoints of those members; start one of "
                           "them again to go on");
}

void FirstParams::tick() {
  if (!fetch_) return;
  fetch_->tick();
  if (fetch_->done()) return fetched();
  look_for_donors();
}

void FirstParams::handle(const FrameHeader& header, const BootstrapMessage& message, const SharedBytes& payload) {
  if (fetch_) fetch_->handle(header, message, payload);
}

void FirstParams::fetched() {
  trainer_.params_changed();
  model_.params_fetched();
  parts_.observer.on(ModelFetched{trainer_.params().count * sizeof(float), seconds(fetch_->transfer_time())});
  const Progress progress = believable({.round = fetch_->round(), .steps = fetch_->steps()});
  fetch_.reset();
  begin_(progress, "fetched");
}

}  // namespace starling
