// Everything that can go wrong with a log of updates, at random, on virtual time: messages lost and late, agents
// frozen, killed, restarted and joining, owners that die between merge and reply, cuts, a member that lies. The
// observer of update_harness.h judges every honest agent after every boundary.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "tests/gossip/updates/update_harness.h"
#include "tests/gossip/updates/update_liar.h"
#include "tests/support/seeds.h"

namespace starling::exchange_test {
namespace {

using std::chrono::seconds;

struct Events {
  double lost = 0.1, late = 0.05;  // of all messages; late by 50 to 600 ms
  double freezes_per_s = 0, kills_per_s = 0, restarts_per_s = 0, joins_per_s = 0;
  double owner_dies = 0;       // of the entries made: the owner stops between merge and reply
  bool owner_freezes = false;  // then it only freezes
  double cuts_per_s = 0;       // into two halves, for 3 s
  double lies = 0;             // of the messages of the newest member at the start; it stays
  size_t members_min = 2, members_max = 32;
};

constexpr size_t kLiarFrom = 4;      // members: of three, the liar and one more are a majority
constexpr uint64_t kEqualAfter = 2;  // boundaries without loss

// What the rules cost when one is left out: `tools/mutate --figures` prints these lines for each of them.
struct Totals {
  std::array<uint64_t, 3> faults{};           // by Fault
  uint64_t never_equal = 0, never_empty = 0;  // runs at whose end logs differed, or something was never counted
  std::string where;                          // of these, of logs that were equal late, and of what counted twice
  uint64_t replica_rounds = 0, entries = 0, entries_due = 0;
  uint64_t short_splits = 0, long_splits = 0, lost_payloads = 0, stopped_owners = 0, lies = 0;
  uint64_t refused = 0;  // without heads: who was cut off may claim more than can be
  Duration longest{};    // round
  double squares = 0;    // of R minus the mean of all drifts, where nobody came or went
  uint64_t values = 0;
  // How many runs needed so many boundaries, from the moment at which all were in rounds of one roster, nothing was
  // lost any more and nobody trained, until all held one log, and until all that was handed in was counted.
  std::map<uint64_t, int> equal_after, empty_after;
};

std::string print(const std::map<uint64_t, int>& runs) {
  std::string text;
  for (const auto& [boundaries, count] : runs) text += " " + std::to_string(boundaries) + ":" + std::to_string(count);
  return text;
}

class Chaos {
 public:
  Chaos(size_t n, const UpdateAgentOptions& options, const Events& events, uint64_t seed, Totals* totals)
      : swarm(n, options, seed),
        name_(" " + std::to_string(n) + "/" + std::to_string(seed)),
        totals_(totals),
        events_(events),
        rng_(seed * 7919 + n),
        next_tag_(static_cast<uint8_t>(n + 1)),
        liar_(test_peer(static_cast<uint8_t>(n)), events.lies, seed, swarm.observer) {
    if (events.lies > 0) {
      swarm.liars.insert(liar_.id());
      swarm.observer.may_forge = swarm.network.frames_may_be_bad = true;
      swarm.network.damage = [this](Flight& flight) { liar_.pass(flight); };
    }
    swarm.observer.on_fault = [this](Fault fault, const std::string&) {
      if (totals_->faults[static_cast<size_t>(fault)]++ == 0) totals_->where += name_;
    };
    swarm.network.drop = [this](const Flight& flight) { return drop(flight); };
    swarm.network.more_delay = [this](const Flight&) {
      return rng_.chance(events_.late) ? milliseconds(50 + rng_.below(550)) : milliseconds(0);
    };
  }

  void run(Duration duration) {
    const TimePoint until = swarm.clock.now() + duration;
    swarm.wake_at = swarm.clock.now();
    swarm.run_for(duration, [&] { step(until); });
  }

  // No more loss, events or training; the views are right at once. Then all must hold one log soon.
  void calm_down() {
    events_ = {.lost = 0, .late = 0};
    liar_.stop();
    side_.clear();
    changes_.clear();
    swarm.share_views();
    for (auto& [id, agent] : swarm.agents) {
      agent->still = true;
      if (std::exchange(agent->frozen_until, std::nullopt)) agent->thawed_at = swarm.clock.now();
    }
    swarm.wake_at = TimePoint::max();
    std::map<PeerId, uint64_t> before;  // boundaries at the moment from which all are in rounds of one roster
    // Of most members: one that is far ahead runs through rounds alone, until it hears in which round the others are.
    const auto boundaries = [&] {
      std::vector<uint64_t> since;
      for (auto& [id, agent] : swarm.agents) since.push_back(agent->boundaries - before[id]);
      std::sort(since.begin(), since.end());
      return since[(since.size() - 1) / 2];
    };
    const TimePoint until = swarm.clock.now() + seconds(10);
    bool equal = false;
    for (; swarm.clock.now() < until; swarm.run_for(milliseconds(1))) {
      if (before.empty()) {
        if (!swarm.one_roster()) continue;
        for (auto& [id, agent] : swarm.agents) before[id] = agent->boundaries;
      }
      if (!swarm.all_heads_equal()) continue;
      if (!std::exchange(equal, true)) {
        ++totals_->equal_after[boundaries()];
        if (boundaries() > kEqualAfter) totals_->where += name_ + " (" + std::to_string(boundaries()) + " boundaries)";
      }
      if (swarm.all_drained()) break;
    }
    ++totals_->empty_after[boundaries()];
    sum_up();
  }

  UpdateSwarm swarm;

 private:
  struct Change {  // of somebody's view
    TimePoint at;
    PeerId viewer, subject;
    double mass = 0;  // 0: it left
    bool restarted = false;
  };
  void sum_up() {
    const bool equal = swarm.all_heads_equal(), empty = swarm.all_drained();
    totals_->never_equal += !equal;
    totals_->never_empty += equal && !empty;
    if (!equal || !empty) totals_->where += name_;
    totals_->entries += swarm.entries;
    totals_->entries_due += swarm.entries_due;
    totals_->replica_rounds += swarm.entries_due;
    totals_->longest = std::max(totals_->longest, swarm.longest);
    totals_->lies += liar_.lies();
    for (auto& [id, agent] : swarm.agents) count(*agent);
    if (came_or_went_ || !equal || !empty || liar_.lies() > 0) return;
    const UpdateAgent& any = *swarm.agents.begin()->second;
    for (size_t i = 0; i < any.count(); ++i) {
      double sum = 0, mass = 0;
      for (auto& [id, agent] : swarm.agents) {
        sum += agent->mass * agent->drifts[i];
        mass += agent->mass;
      }
      totals_->squares += std::pow(static_cast<double>(any.params[i]) - sum / mass, 2);
      ++totals_->values;
    }
  }
  void count(UpdateAgent& agent) {
    if (swarm.liars.contains(agent.id)) return;
    const ReplicaTally tally = agent.exchange().replicas().tally();
    totals_->short_splits += tally.short_splits;
    totals_->long_splits += tally.long_splits;
    totals_->lost_payloads += tally.lost_payloads;
    const UpdateRefusals refused = agent.exchange().tally().refused;
    totals_->refused += refused.payloads + refused.entries + refused.blocks;
    if (tally.lost_payloads > 0) totals_->where += name_ + " (counted twice)";
  }

  bool drop(const Flight& flight) {
    if (doomed_.contains(flight.from)) return true;
    if (side_.contains(flight.from) != side_.contains(flight.to)) return true;
    const auto* entry = message_as<LogEntry>(flight.message);
    if (entry != nullptr && made_.insert(entry->head.hash).second && rng_.chance(events_.owner_dies)) {
      doomed_.insert(flight.from);
      return true;
    }
    return rng_.chance(events_.lost);
  }

  void step(TimePoint until) {
    const TimePoint now = swarm.clock.now();
    for (const PeerId& id : std::exchange(doomed_, {})) {
      if (!swarm.agents.contains(id)) continue;
      ++totals_->stopped_owners;
      if (events_.owner_freezes) {
        freeze(*swarm.agents.at(id));
      } else {
        kill(id);
      }
    }
    for (const Change& change : changes_) {
      if (change.at <= now) apply(change);
    }
    std::erase_if(changes_, [&](const Change& change) { return change.at <= now; });
    if (heal_at_ <= now) heal();
    if (swarm.wake_at > now) return;
    // Every 100 ms.
    swarm.wake_at = now + milliseconds(100) > until ? TimePoint::max() : now + milliseconds(100);
    const auto happens = [&](double per_s) { return rng_.chance(per_s / 10); };
    if (happens(events_.freezes_per_s)) freeze(any());
    if (happens(events_.kills_per_s)) kill(any().id);
    if (happens(events_.restarts_per_s)) restart(any().id);
    if (happens(events_.joins_per_s)) join();
    if (happens(events_.cuts_per_s) && side_.empty() && swarm.agents.size() > 1) cut();
  }
  UpdateAgent& any() {
    auto at = swarm.agents.begin();
    std::advance(at, rng_.below(static_cast<uint32_t>(swarm.agents.size())));
    return *at->second;
  }
  void freeze(UpdateAgent& agent) {
    const Duration length = milliseconds(50 + rng_.below(rng_.chance(0.2) ? 6000 : 500));
    agent.frozen_until = swarm.clock.now() + length;
  }
  void tell_all(const PeerId& subject, double mass, bool restarted, Duration low, uint32_t more_ms) {
    for (auto& [id, agent] : swarm.agents) {
      if (id == subject) continue;
      changes_.push_back({swarm.clock.now() + low + milliseconds(rng_.below(more_ms)), id, subject, mass, restarted});
    }
  }
  void apply(const Change& change) {
    const auto at = swarm.agents.find(change.viewer);
    if (at == swarm.agents.end()) return;
    if (change.mass > 0) {
      at->second->view[change.subject] = change.mass;
    } else {
      at->second->view.erase(change.subject);
    }
    if (change.restarted || change.mass == 0) at->second->exchange().forget(change.subject);
    at->second->complete();
  }
  void kill(PeerId id) {  // a copy: the agent goes, and its id with it
    if (swarm.agents.size() <= events_.members_min || swarm.liars.contains(id)) return;
    came_or_went_ = true;
    count(*swarm.agents.at(id));
    swarm.agents.erase(id);
    side_.erase(id);
    tell_all(id, 0, false, milliseconds(500), 1500);
  }
  void restart(PeerId id) {
    if (swarm.liars.contains(id)) return;
    came_or_went_ = true;
    count(*swarm.agents.at(id));
    const uint64_t generation = swarm.agents.at(id)->generation + 1;
    const std::map<PeerId, double> view = swarm.agents.at(id)->view;
    UpdateAgent& fresh = swarm.add(id.bytes[0], generation);
    fresh.view = view;
    tell_all(id, fresh.mass, true, milliseconds(10), 500);
  }
  void join() {
    if (swarm.agents.size() >= events_.members_max || next_tag_ == 0) return;
    came_or_went_ = true;
    const std::map<PeerId, double> view = any().view;
    UpdateAgent& fresh = swarm.add(next_tag_++);
    fresh.view.insert(view.begin(), view.end());
    tell_all(fresh.id, fresh.mass, false, milliseconds(10), 500);
    if (!side_.empty() && rng_.chance(0.5)) side_.insert(fresh.id);
  }
  void cut() {
    std::vector<PeerId> ids;
    for (auto& [id, agent] : swarm.agents) ids.push_back(id);
    rng_.shuffle(ids);
    const size_t count = 1 + rng_.below(static_cast<uint32_t>(ids.size() - 1));
    side_ = {ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count)};
    heal_at_ = swarm.clock.now() + seconds(3);
    for (const PeerId& a : ids) {
      for (const PeerId& b : ids) {
        if (side_.contains(a) == side_.contains(b)) continue;
        changes_.push_back({swarm.clock.now() + milliseconds(500 + rng_.below(1000)), a, b, 0, false});
        changes_.push_back({heal_at_ + milliseconds(rng_.below(500)), a, b, swarm.agents.at(b)->mass, false});
      }
    }
  }
  void heal() {
    heal_at_ = TimePoint::max();
    side_.clear();
    // Who was killed meanwhile is dead for all.
    std::erase_if(changes_, [&](const Change& c) { return c.mass > 0 && !swarm.agents.contains(c.subject); });
    for (auto& [id, agent] : swarm.agents) {
      for (auto& [other, member] : swarm.agents) {
        if (!agent->view.contains(other)) {
          changes_.push_back({swarm.clock.now() + milliseconds(rng_.below(500)), id, other, member->mass, false});
        }
      }
    }
  }

  const std::string name_;
  Totals* totals_;
  Events events_;
  Rng rng_;
  uint8_t next_tag_;
  std::set<PeerId> doomed_, side_;
  std::set<Digest16> made_;
  std::vector<Change> changes_;
  TimePoint heal_at_ = TimePoint::max();
  bool came_or_went_ = false;
  UpdateLiar liar_;
};

void print(const char* name, const Totals& totals, const UpdateAgentOptions& options) {
  const auto count = [](uint64_t value) { return static_cast<unsigned long long>(value); };
  std::printf(
      "%s: %llu replica-rounds, %.1f %% with an entry, %llu short and %llu long splits, %llu owners stopped, "
      "%llu lies, %llu counted twice at a cut\n",
      name, count(totals.replica_rounds),
      100.0 * static_cast<double>(totals.entries) / static_cast<double>(totals.entries_due), count(totals.short_splits),
      count(totals.long_splits), count(totals.stopped_owners), count(totals.lies), count(totals.lost_payloads));
  std::printf(
      "  faults: %llu not conserved, %llu counted twice, %llu of two bit patterns; %llu runs never equal, %llu "
      "never empty; the longest round took %.1f deadlines; R is %.1f from the mean of all drifts\n",
      count(totals.faults[0]), count(totals.faults[1]), count(totals.faults[2]), count(totals.never_equal),
      count(totals.never_empty), starling::seconds(totals.longest) / starling::seconds(options.deadline_max),
      std::sqrt(totals.squares / static_cast<double>(std::max<uint64_t>(1, totals.values))));
  std::printf("  boundaries:runs until all logs are equal%s; until all is counted%s; not as it must be (n/seed):%s\n",
              print(totals.equal_after).c_str(), print(totals.empty_after).c_str(), totals.where.c_str());
}

// Whether this seed is for n members: STARLING_SIZES=16,32 names those that each seed is for. Else all up to 8, and
// every fourth seed for more, which take most of the time.
bool drawn(size_t n, uint64_t seed) {
  const char* sizes = std::getenv("STARLING_SIZES");
  if (sizes == nullptr) return n <= 8 || seed % 4 == 1;
  return ("," + std::string(sizes) + ",").find("," + std::to_string(n) + ",") != std::string::npos;
}

// Beyond the splits that cuts make. Who thaws with an entry that nobody else has is one, if the others went on. A liar
// makes them by telling each member something else.
void expect_few_splits(const Totals& totals, const Events& events) {
  const uint64_t splits = events.cuts_per_s > 0 ? 0 : totals.short_splits + totals.long_splits;
  const uint64_t thawed = events.owner_freezes ? totals.stopped_owners : 0;
  EXPECT_LE(splits, totals.replica_rounds / (events.lies > 0 ? 200 : 1000) + thawed / 2);
}

void run_seeds(const char* name, uint64_t seeds, const UpdateAgentOptions& options, const Events& events) {
  Totals totals;
  const Duration duration = seconds(20);
  const uint64_t first = first_seed();
  for (uint64_t seed = first; seed < first + seed_count(seeds); ++seed) {
    for (const size_t n : {1, 2, 3, 4, 8, 16, 32}) {
      if (!drawn(n, seed) || (events.lies > 0 && n < kLiarFrom)) continue;
      Chaos chaos(n, options, events, seed, &totals);
      chaos.run(n > 8 ? duration / 4 : duration);
      chaos.calm_down();
    }
  }
  print(name, totals, options);
  if (totals.replica_rounds == 0) GTEST_SKIP() << "no run for these sizes";
  EXPECT_EQ(totals.faults, (std::array<uint64_t, 3>{}));
  EXPECT_EQ(totals.never_equal + totals.never_empty, 0u);
  EXPECT_LE(totals.longest, 2 * options.deadline_max);
  EXPECT_EQ(totals.refused > 0, events.lies > 0) << "what honest members send, or a liar's messages, are refused";
  expect_few_splits(totals, events);
  // Without a liar no run may be late. A liar's last claims stop owners for two rounds (head_announcements.h). Where it
  // leaves logs that nobody shares, members move to one after kAloneAfter rounds without an entry (update_slice.h).
  constexpr uint64_t kAloneAfter = 8;
  uint64_t runs = 0, late = 0;
  for (const auto& [boundaries, count] : totals.equal_after) {
    runs += static_cast<uint64_t>(count);
    if (boundaries > kEqualAfter) late += static_cast<uint64_t>(count);
  }
  EXPECT_LE(totals.lost_payloads, options.more_bytes > 0 ? 1 + runs / 100 : 0);
  EXPECT_LE(late, events.lies > 0 ? 1 + runs / 500 : 0);
  if (!totals.equal_after.empty()) {
    EXPECT_LE(totals.equal_after.rbegin()->first, kEqualAfter + (events.lies > 0 ? kAloneAfter : 0));
  }
  EXPECT_LE(totals.empty_after.rbegin()->first, 20u);
}

TEST(UpdateEvents, LostAndLate) { run_seeds("lost and late", 2, {}, {}); }

TEST(UpdateEvents, Freezes) { run_seeds("freezes", 2, {}, {.freezes_per_s = 0.5}); }

TEST(UpdateEvents, KillsRestartsAndJoins) {
  run_seeds("kills, restarts, joins", 2, {}, {.kills_per_s = 0.1, .restarts_per_s = 0.1, .joins_per_s = 0.2});
}

TEST(UpdateEvents, OwnersStopBetweenMergeAndReply) {
  run_seeds("owners die", 2, {}, {.joins_per_s = 0.3, .owner_dies = 0.005});
  run_seeds("owners freeze", 2, {}, {.owner_dies = 0.02, .owner_freezes = true});
}

TEST(UpdateEvents, Cuts) { run_seeds("cuts", 2, {}, {.cuts_per_s = 0.1}); }

// As of large slices in fp32 and bf16: what was under way when a cut began may count on both sides. All else holds.
TEST(UpdateEvents, CutsWithPayloadsTooLargeToBeHeld) {
  UpdateAgentOptions options;
  options.more_bytes = SentPayloads::kPastBytes;
  run_seeds("cuts, large payloads", 2, options, {.cuts_per_s = 0.1});
}

TEST(UpdateEvents, OneMemberLies) {
  run_seeds("a liar", 2, {}, {.lies = 0.2});
  UpdateAgentOptions options;
  options.masses = true;
  run_seeds("a liar and all of it", 2, options,
            {.freezes_per_s = 0.3,
             .kills_per_s = 0.05,
             .restarts_per_s = 0.05,
             .joins_per_s = 0.15,
             .owner_dies = 0.01,
             .lies = 0.2,
             .members_min = kLiarFrom});
}

TEST(UpdateEvents, AllOfItWithMasses) {
  UpdateAgentOptions options;
  options.masses = true;
  run_seeds("all of it", 3, options,
            {.freezes_per_s = 0.3,
             .kills_per_s = 0.05,
             .restarts_per_s = 0.05,
             .joins_per_s = 0.15,
             .owner_dies = 0.01,
             .cuts_per_s = 0.05});
}

}  // namespace
}  // namespace starling::exchange_test
