// Swarms with tickets, in virtual time: members sign their records and farewells, and a liar that passes on others is
// not believed.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstring>

#include "tests/gossip/membership/swarm_support.h"

namespace starling {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

class SignedSwarm : public ::testing::TestWithParam<std::pair<size_t, double>> {
 protected:
  SignedSwarm() : swarm_(GetParam().first, GetParam().second, 500 + GetParam().first) { swarm_.seal(identity_of(1)); }
  size_t forged() {
    size_t sum = 0;
    for (size_t i = 0; i < swarm_.size(); ++i) {
      if (swarm_.is_up(i)) sum += swarm_.at(i).counters().records_forged;
    }
    return sum;
  }
  bool all_see(size_t subject, MemberState state) {
    for (size_t i = 0; i < swarm_.size(); ++i) {
      const Member* member = i == subject || !swarm_.is_up(i) ? nullptr : swarm_.at(i).find(swarm_.id_of(subject));
      if (member && member->state != state) return false;
    }
    return true;
  }
  VirtualSwarm swarm_;
};

INSTANTIATE_TEST_SUITE_P(Swarms, SignedSwarm,
                         ::testing::Values(std::pair(size_t{3}, 0.0), std::pair(size_t{16}, 0.1),
                                           std::pair(size_t{64}, 0.0)));

TEST_P(SignedSwarm, MembersAreFoundDieAndComeBack) {
  for (size_t i = 1; i < swarm_.size(); ++i) swarm_.at(i).add(swarm_.at(0).self());  // the rest is passed on
  ASSERT_TRUE(swarm_.run_until([&] { return swarm_.all_agree(); }, seconds(60)));
  swarm_.crash(1);
  ASSERT_TRUE(swarm_.run_until([&] { return swarm_.seen_dead_by_all(1); }, seconds(60)));
  swarm_.restart(1, 2);
  swarm_.at(1).add(swarm_.at(0).self());
  ASSERT_TRUE(swarm_.run_until([&] { return swarm_.all_agree(); }, seconds(60)));
  EXPECT_EQ(forged(), 0u);
}

// Also to those that no gossip reached: by anti-entropy, after a partition.
TEST_P(SignedSwarm, AFarewellReachesAll) {
  swarm_.introduce_all();
  swarm_.run_for(seconds(20));
  std::vector<int> sides(swarm_.size(), 0);
  sides.back() = 1;
  swarm_.cut(sides);
  swarm_.at(1).announce_leave();
  swarm_.run_for(milliseconds(100));
  swarm_.crash(1);
  swarm_.run_for(seconds(1));
  swarm_.cut(std::vector<int>(swarm_.size(), 0));
  EXPECT_TRUE(swarm_.run_until([&] { return all_see(1, MemberState::kLeft); }, seconds(30)));
  EXPECT_EQ(forged(), 0u);
}

// What signatures cost, while all members change their status as often as agents may.
TEST_P(SignedSwarm, TellsItsTraffic) {
  const auto traffic = [&](VirtualSwarm& swarm) {
    swarm.introduce_all();
    uint64_t bytes = 0;
    swarm.set_filter(
        [&](PassingFrame& frame) { bytes += encode_frame_header(frame.header, frame.message, {}).size(); });
    constexpr int kSeconds = 4;
    for (uint64_t step = 1; step <= 2 * kSeconds; ++step) {
      for (size_t i = 0; i < swarm.size(); ++i) {
        MemberMeta meta{.phase = Phase::kTraining, .round = 10 * step, .steps = 80 * step, .samples = 2560 * step};
        meta.name = "a" + std::to_string(i);
        meta.loss = 1.0f / static_cast<float>(step);
        for (size_t k = 0; k < 16; ++k) meta.projection.push_back(meta.loss * static_cast<float>(k + i));
        swarm.at(i).update_self(meta);
      }
      swarm.run_for(milliseconds(500));
    }
    swarm.set_filter(nullptr);
    return static_cast<double>(bytes) / kSeconds / static_cast<double>(swarm.size());
  };
  VirtualSwarm open(GetParam().first, GetParam().second, 500 + GetParam().first);
  const double before = traffic(open), with_signatures = traffic(swarm_);
  std::printf("%zu members: %.0f bytes a second each, %.0f signed (%.2fx)\n", swarm_.size(), before, with_signatures,
              with_signatures / before);
  EXPECT_LT(with_signatures, 1.2 * before);
}

constexpr size_t kLiar = 0, kVictim = 1;

// One member lies about another in all that it sends. `signs`: by its own key, as only its program differs.
class Liar {
 public:
  Liar(const PeerId& victim, const MemberKeys* keys) : victim_(victim), keys_(keys) {}

  void operator()(PassingFrame& frame) {
    if (frame.from != endpoint_of(kLiar)) return;
    for (auto* updates : {updates_of<Gossip>(frame), updates_of<Ping>(frame), updates_of<PingAck>(frame)}) {
      if (updates == nullptr) continue;
      updates->alive.resize(std::min<size_t>(updates->alive.size(), 5));
      if (true_) updates->alive.push_back(forge(*true_));
      if (true_) updates->left.push_back(*true_);
      if (true_ && keys_) updates->left.push_back(sealed_farewell(*true_));
    }
    if (auto* sync = message_as<Sync>(frame.message)) {
      for (PeerRecord& record : sync->records) {
        if (record.id == victim_) record = forge(record);
      }
      for (DigestEntry& entry : sync->digest) {
        if (entry.id == victim_) entry.state = static_cast<uint8_t>(MemberState::kLeft);
      }
    }
  }
  void learn(const PeerRecord& record) { true_ = record; }
  static bool is_forged(const PeerRecord& record) { return record.meta.name == "forged"; }

 private:
  template <typename Kind>
  static Updates* updates_of(PassingFrame& frame) {
    Kind* kind = message_as<Kind>(frame.message);
    return kind ? &kind->updates : nullptr;
  }
  // With a signature of another record of the victim, or with the liar's own.
  PeerRecord forge(PeerRecord record) {
    ++record.version.incarnation;
    record.meta.name = "forged";
    return reseal(std::move(record));
  }
  PeerRecord sealed_farewell(PeerRecord record) {
    record.farewell = true;
    return reseal(std::move(record));
  }
  PeerRecord reseal(PeerRecord record) {
    if (!keys_) return record;
    const std::string signature = record.sealed.substr(0, kProofBytes);
    record.sealed = signature + pack_record(record);
    if (lies_++ % 2 == 0) return record;
    PeerRecord own = record;
    own.id = keys_->self();
    keys_->seal(own);
    record.sealed = own.sealed.substr(0, kProofBytes) + pack_record(record);
    return record;
  }

  const PeerId victim_;
  const MemberKeys* keys_;  // null: the swarm is open
  std::optional<PeerRecord> true_;
  size_t lies_ = 0;
};

// How often others believed a lie, at any step.
size_t believed(VirtualSwarm& swarm, const MemberKeys* keys) {
  swarm.introduce_all();
  swarm.run_for(seconds(5));
  Liar liar(swarm.id_of(kVictim), keys);
  swarm.set_filter([&](PassingFrame& frame) { liar(frame); });
  size_t lies = 0;
  for (int step = 0; step < 600; ++step) {
    liar.learn(swarm.at(kVictim).self());
    swarm.run_for(milliseconds(50));
    for (size_t i = 2; i < swarm.size(); ++i) {
      const Member* member = swarm.at(i).find(swarm.id_of(kVictim));
      lies += member == nullptr || member->state == MemberState::kLeft || Liar::is_forged(member->record);
    }
  }
  return lies;
}

TEST(SignedSwarms, ALiarIsBelievedInAnOpenSwarmAlone) {
  const Identity swarm_key = identity_of(1);
  VirtualSwarm open(8, 0, 9), with_tickets(8, 0, 9);
  with_tickets.seal(swarm_key);
  EXPECT_GT(believed(open, nullptr), 100u) << "these are no lies";
  const MemberKeys keys(identity_of(10 + kLiar), swarm_key);
  EXPECT_EQ(believed(with_tickets, &keys), 0u);
  size_t forged = 0;
  for (size_t i = 1; i < with_tickets.size(); ++i) {
    forged += with_tickets.at(i).counters().records_forged;
    const std::vector<std::string> said = with_tickets.take_troubles(i);
    const auto names = [&](const std::string& text) {
      return text.find("agent " + with_tickets.id_of(kLiar).short_name() + " passes on a ") == 0;
    };
    EXPECT_EQ(std::count_if(said.begin(), said.end(), names), 1) << i << " warns of the liar once in these 30 s";
  }
  EXPECT_GT(forged, 100u);
}

// The same lies without a signature, as a member of an older program would pass them on.
TEST(SignedSwarms, UnsignedRecordsAreNotTaken) {
  VirtualSwarm swarm(8, 0, 9);
  swarm.seal(identity_of(1));
  swarm.introduce_all();
  swarm.run_for(seconds(5));
  swarm.set_filter([&](PassingFrame& frame) {
    auto* gossip = message_as<Gossip>(frame.message);
    if (frame.from != endpoint_of(kLiar) || !gossip) return;
    for (auto* records : {&gossip->updates.alive, &gossip->updates.left}) {
      for (PeerRecord& record : *records) {
        ++record.version.incarnation;
        record.sealed.clear();
      }
    }
  });
  const auto version = [&](size_t at, size_t of) { return swarm.at(at).find(swarm.id_of(of))->record.version; };
  swarm.at(kLiar).update_self({.phase = Phase::kSettling});
  swarm.run_for(milliseconds(100));
  size_t forged = 0;
  for (size_t i = 1; i < swarm.size(); ++i) {
    EXPECT_LE(version(i, kLiar), swarm.at(kLiar).self().version);
    forged += swarm.at(i).counters().records_forged;
  }
  EXPECT_GT(forged, 0u);
}

// A member invents more members than a swarm can have, and others as soon as some of them are found dead. A newcomer
// speaks for itself, and takes the place of one.
TEST(SignedSwarms, InventedMembersKeepNobodyOut) {
  constexpr size_t kNewcomer = 3;
  const Identity swarm_key = identity_of(1);
  VirtualSwarm swarm(4, 0, 9);
  swarm.seal(swarm_key);
  for (const size_t i : {1, 2}) swarm.at(i).add(swarm.at(kLiar).self());
  swarm.run_for(seconds(5));
  std::vector<PeerRecord> invented;
  for (uint32_t i = 0; i < kMembersMax + 300; ++i) {
    KeySeed seed{};
    std::memcpy(seed.data(), &i, sizeof i);
    seed.back() = 1;  // no member has such a seed
    const Identity self(seed);
    invented.push_back(record_of(1000 + i));
    invented.back().id = self.id();
    MemberKeys(self, swarm_key).seal(invented.back());
  }
  const auto flood = [&] {
    const uint64_t refused = swarm.at(1).counters().table_full;
    swarm.at(1).add(invented, swarm.id_of(kLiar));
    ASSERT_GT(swarm.at(1).counters().table_full, refused);
  };
  flood();
  swarm.at(kNewcomer).add(swarm.at(1).self());
  for (int passed_s = 0; passed_s < 10; ++passed_s) {
    swarm.run_for(seconds(1));
    flood();
  }
  for (const auto& [one, other] : {std::pair{size_t{1}, kNewcomer}, std::pair{kNewcomer, size_t{1}}}) {
    const Member* member = swarm.at(one).find(swarm.id_of(other));
    EXPECT_TRUE(member && member->proven && member->state == MemberState::kAlive);
  }
}

// In an open swarm nobody signs, and what somebody did sign would be lost on older members.
TEST(SignedSwarms, AnOpenSwarmTakesNoSignedRecords) {
  VirtualSwarm swarm(2, 0, 9);
  swarm.introduce_all();
  PeerRecord record = record_of(7);
  record.sealed = std::string(kProofBytes, 's') + pack_record(record);
  swarm.at(0).add(record);
  EXPECT_EQ(swarm.at(0).find(record.id), nullptr);
  EXPECT_EQ(swarm.at(0).counters().records_forged, 1u);
  record.sealed.clear();
  swarm.at(0).add(record);
  EXPECT_NE(swarm.at(0).find(record.id), nullptr);
}

}  // namespace
}  // namespace starling
