// The log of updates with every codec, on virtual time: messages lost, a cut and its end, a member killed. Replicas
// under one head must be the same bits, no payload may count twice, an entry must be the sum of what it counts, and
// what a member holds must be what it did and no entry counts: on the support of the entry, at the scale and the factor
// that it counts at.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "gossip/rng.h"
#include "tests/gossip/updates/update_harness.h"
#include "tests/support/seeds.h"

namespace starling::exchange_test {
namespace {

using std::chrono::seconds;

constexpr size_t kMembers = 5;
constexpr double kRounding = 0.01;  // sums of floats of a few hundred, over a few hundred rounds

// Remembers all entries and payloads, and computes from them what an accumulator must be.
class Accounts {
 public:
  explicit Accounts(UpdateSwarm& swarm, const UpdateCodec& codec) : swarm_(swarm), codec_(codec) {}

  // After anything happened.
  void look() {
    for (auto& [id, agent] : swarm_.agents) {
      for (size_t s = 0; s < swarm_.options().slices; ++s) {
        for (const LoggedEntry& logged : agent->exchange().log(static_cast<uint32_t>(s)).entries()) {
          if (logged.payload.size == 0 || !entries_.try_emplace(logged.entry.head.hash, logged).second) continue;
          fresh_.push_back({s, logged});
        }
        for (const SentPayload& sent : agent->replica(s).sent().all()) {
          payloads_.try_emplace({id, s, sent.seq}, sent.bytes);
        }
      }
    }
    for (const auto& [s, logged] : std::exchange(fresh_, {})) judge_entry(s, logged);
    for (auto& [id, agent] : swarm_.agents) {
      if (std::exchange(judged_[id], agent->boundaries) == agent->boundaries) continue;
      for (size_t s = 0; s < swarm_.options().slices; ++s) judge(*agent, s);
    }
  }
  size_t counted() const { return counted_; }
  size_t exact_judgments() const { return exact_; }

 private:
  // An entry is the sum of what it counts, each at its weight, on its support, but for the rounding of its format.
  void judge_entry(size_t s, const LoggedEntry& logged) {
    if (codec_.kind() == UpdateKind::kSign) return;  // a vote
    std::vector<float> entry(swarm_.options().elements), values(entry.size());
    std::vector<double> sum(entry.size());
    codec_.decode(logged.payload.span(), entry);
    for (const CountedPayload& counted : logged.entry.counted) {
      const auto payload = payloads_.find({counted.peer, s, counted.seq});
      ASSERT_NE(payload, payloads_.end()) << "a payload that was never handed in";
      codec_.decode(payload->second.span(), values);
      const double weight = static_cast<double>(counted.scale) / logged.entry.divisor;  // all masses are 1
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += weight * static_cast<double>(values[i]);
    }
    double largest = 0;
    for (const double value : sum) largest = std::max(largest, std::fabs(value));
    const UpdateSupport support = codec_.support(logged.payload.span());
    std::vector<bool> on(sum.size(), support.everywhere);
    for (const uint32_t i : support.indices) on.at(i) = true;
    const double rounding = codec_.kind() == UpdateKind::kInt4 ? 1 / 7.0 : 1 / 127.0;  // int8, or bf16, or none
    for (size_t i = 0; i < sum.size(); ++i) {
      ASSERT_NEAR(static_cast<double>(entry[i]), on[i] ? sum[i] : 0, 1.01 * rounding * largest + 1e-4) << i;
    }
  }
  void judge(const UpdateAgent& agent, size_t s) {
    const SliceReplica& replica = agent.replica(s);
    const std::span<const float> accumulator = agent.slice(agent.accumulator, s);
    if (codec_.residual().dropped) return judge_dropped(replica, accumulator, handed_in_[{agent.id, s}]);
    std::vector<double> expected(accumulator.size());
    for (size_t i = 0; i < expected.size(); ++i) expected[i] = agent.drifts[s * expected.size() + i];
    subtract_counted(agent, s, expected);
    // What a log counts that parted long ago, or whose entry this member never saw, is settled at a guess.
    const ReplicaTally tally = replica.tally();
    const uint64_t guesses = tally.long_splits + tally.lost_payloads + tally.settled_blind;
    std::vector<double>& off = off_[{agent.id, s}];
    off.resize(expected.size());
    const bool guessed = std::exchange(guesses_[{agent.id, s}], guesses) != guesses;
    exact_ += !guessed;
    for (size_t i = 0; i < expected.size(); ++i) {
      const double found = static_cast<double>(accumulator[i]) - expected[i];
      if (!guessed) {
        ASSERT_NEAR(found, off[i], kRounding) << "agent " << int{agent.id.bytes[0]} << ", element " << i;
      } else {
        off[i] = found;
      }
    }
  }
  // What took the place of the accumulator is the payload that this boundary handed in.
  void judge_dropped(const SliceReplica& replica, std::span<const float> accumulator, uint64_t& newest_seq) {
    if (std::exchange(newest_seq, replica.sent().newest_seq()) == replica.sent().newest_seq()) return;
    const SentPayload& newest = replica.sent().all().back();
    std::vector<float> values(accumulator.size());
    codec_.decode(newest.bytes.span(), values);
    ++exact_;
    ASSERT_TRUE(std::equal(values.begin(), values.end(), accumulator.begin()));
  }
  void subtract_counted(const UpdateAgent& agent, size_t s, std::vector<double>& rest) {
    std::set<uint64_t> seqs;
    const LogHead head = agent.replica(s).head();
    Digest16 at = head.hash;
    for (uint64_t length = head.length; length > 0; --length) {
      const auto found = entries_.find(at);
      ASSERT_NE(found, entries_.end()) << "an entry that nobody made";
      const LoggedEntry& logged = found->second;
      at = logged.entry.previous;
      for (const CountedPayload& counted : logged.entry.counted) {
        if (counted.peer != agent.id || counted.generation != agent.generation) continue;
        ASSERT_TRUE(seqs.insert(counted.seq).second) << "a payload was counted twice";
        const auto payload = payloads_.find({agent.id, s, counted.seq});
        ASSERT_NE(payload, payloads_.end()) << "a payload that was never handed in";
        ++counted_;
        std::vector<float> values(rest.size());
        const UpdateSupport on = codec_.support(logged.payload.span());
        codec_.add(counted.scale * logged.factor, payload->second.span(), on, values);
        for (size_t i = 0; i < rest.size(); ++i) rest[i] -= static_cast<double>(values[i]);
      }
    }
  }

  UpdateSwarm& swarm_;
  const UpdateCodec& codec_;
  std::map<Digest16, LoggedEntry> entries_;
  std::vector<std::pair<size_t, LoggedEntry>> fresh_;
  std::map<std::tuple<PeerId, size_t, uint64_t>, SharedBytes> payloads_;
  std::map<PeerId, uint64_t> judged_;
  std::map<std::pair<PeerId, size_t>, std::vector<double>> off_;
  std::map<std::pair<PeerId, size_t>, uint64_t> guesses_, handed_in_;
  size_t counted_ = 0, exact_ = 0;
};

class UpdateCodecsInALog : public testing::TestWithParam<UpdateKind> {
 protected:
  void run(uint64_t rng_seed) {
    UpdateAgentOptions options;
    options.elements = 150;
    const auto codec = make_update_codec({.kind = GetParam(), .density = 0.1, .momentum = 0});
    options.codec = codec.get();
    UpdateSwarm swarm(kMembers, options, rng_seed);
    Accounts accounts(swarm, *codec);
    Rng rng(rng_seed);
    std::set<PeerId> side;
    bool lossy = true;
    swarm.network.drop = [&](const Flight& flight) {
      return side.contains(flight.from) != side.contains(flight.to) || (lossy && rng.chance(0.1));
    };
    const auto go_on = [&](Duration duration) { swarm.run_for(duration, [&] { accounts.look(); }); };
    go_on(seconds(2));
    side = {test_peer(1), test_peer(2)};
    go_on(milliseconds(700));
    see_sides(swarm, side);
    go_on(milliseconds(2300));
    side.clear();
    swarm.share_views();
    go_on(seconds(2));
    swarm.agents.erase(test_peer(static_cast<uint8_t>(1 + rng.below(kMembers))));
    go_on(milliseconds(700));
    forget_the_dead(swarm);
    go_on(seconds(2));
    lossy = false;
    for (auto& [id, agent] : swarm.agents) agent->still = true;
    const TimePoint until = swarm.clock.now() + seconds(5);
    while (swarm.clock.now() < until && !swarm.all_heads_equal()) go_on(milliseconds(5));
    EXPECT_TRUE(swarm.all_heads_equal());
    EXPECT_TRUE(codec->residual().dropped || accounts.counted() > 500);
    EXPECT_GT(accounts.exact_judgments(), 200u);
  }

 private:
  static void see_sides(UpdateSwarm& swarm, const std::set<PeerId>& side) {
    for (auto& [id, agent] : swarm.agents) {
      for (auto& [other, member] : swarm.agents) {
        if (side.contains(id) != side.contains(other)) agent->view.erase(other);
      }
    }
  }
  static void forget_the_dead(UpdateSwarm& swarm) {
    for (auto& [id, agent] : swarm.agents) {
      const std::map<PeerId, double> before = agent->view;
      for (const auto& [other, mass] : before) {
        if (swarm.agents.contains(other)) continue;
        agent->view.erase(other);
        agent->exchange().forget(other);
        agent->complete();
      }
    }
  }
};

TEST_P(UpdateCodecsInALog, LossesACutAndADeathLeaveTheAccountsRight) {
  const uint64_t first = first_seed();
  for (uint64_t seed = first; seed < first + seed_count(2); ++seed) {
    SCOPED_TRACE(seed);
    run(seed);
  }
}

std::vector<UpdateKind> kinds() {
  std::vector<UpdateKind> kinds;
  for (const UpdateName& update : update_names()) kinds.push_back(update.kind);
  return kinds;
}

INSTANTIATE_TEST_SUITE_P(All, UpdateCodecsInALog, testing::ValuesIn(kinds()),
                         [](const auto& info) { return std::string(update_name(info.param)); });

}  // namespace
}  // namespace starling::exchange_test
