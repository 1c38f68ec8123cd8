// The model arrives whole, whatever its donors do.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "gossip/net/hash.h"
#include "tests/bootstrap/world.h"
#include "tests/gossip/net/numbered_identity.h"

namespace starling {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr size_t kModelBytes = 20 * kTransferBlockBytes + 1234 * 4;
constexpr size_t kBlocks = 21;

class ModelFetchTest : public ::testing::Test {
 protected:
  ModelFetchTest() { world.settings = "digits"; }
  World::Node& add_donor(uint64_t snapshot, uint64_t steps, size_t total_bytes = kModelBytes) {
    models.push_back(random_model(snapshot, steps, total_bytes));
    World::Node& node = world.add(World::trained(steps));
    node.donor().set_model(models.back());
    return node;
  }
  ModelFetch& begin(Revocations* revocations = nullptr) {
    World::Node& node = world.add(World::joining(), nullptr, revocations);
    newcomer = &node;
    world.introduce_all();
    return world.fetch(node, kModelBytes);
  }
  std::vector<int> origins() {
    std::vector<const ModelFile*> all;
    for (const auto& model : models) {
      if (model->total_bytes() == kModelBytes) all.push_back(model.get());
    }
    return world.origins(all);
  }
  bool finish(Duration limit) {
    return world.run_until([&] { return newcomer->fetch->done(); }, limit);
  }
  World world;
  std::vector<std::shared_ptr<const ModelFile>> models;
  World::Node* newcomer = nullptr;
};

TEST_F(ModelFetchTest, ComesWholeFromOneDonor) {
  add_donor(1, 120);
  ModelFetch& fetch = begin();
  EXPECT_EQ(fetch.progress(), 0);
  ASSERT_TRUE(finish(seconds(2)));
  EXPECT_EQ(origins(), std::vector<int>(kBlocks, 0));
  EXPECT_EQ(fetch.steps(), 120u);
  EXPECT_EQ(fetch.round(), 12u);
  EXPECT_EQ(fetch.progress(), 1);
  EXPECT_EQ(fetch.next_deadline(), TimePoint::max());
  EXPECT_EQ(newcomer->block_requests, kBlocks);
}

TEST_F(ModelFetchTest, ThreeDonorsOfDifferentRoundsEachGiveWholeBlocks) {
  for (uint64_t i = 1; i <= 5; ++i) add_donor(i, 1000 + i);
  for (auto& node : world.nodes) node->delay = milliseconds(20);
  begin();
  ASSERT_TRUE(finish(seconds(2)));
  const std::vector<int> from = origins();
  const std::set<int> used(from.begin(), from.end());
  EXPECT_EQ(used.count(-1), 0u);
  EXPECT_EQ(used.size(), 3u) << "donors_max";
  EXPECT_EQ(world.blocks_placed, kBlocks) << "no block is placed twice";
}

TEST_F(ModelFetchTest, PrefersThoseWhoTrainedMost) {
  for (uint64_t i = 1; i <= 4; ++i) add_donor(i, 10);
  add_donor(5, 1000);
  ModelFetch& fetch = begin();
  ASSERT_TRUE(finish(seconds(5)));
  EXPECT_EQ(origins(), std::vector<int>(kBlocks, 4));
  EXPECT_EQ(fetch.steps(), 1000u);
}

TEST_F(ModelFetchTest, ADonorThatDiesCostsARetryOnly) {
  World::Node& dying = add_donor(1, 100);
  World::Node& other = add_donor(2, 100);
  dying.delay = other.delay = milliseconds(50);
  begin();
  ASSERT_TRUE(world.run_until([&] { return world.blocks_placed >= 6; }, seconds(2)));
  dying.up = false;
  const TimePoint died = world.clock.now();
  ASSERT_TRUE(finish(seconds(6)));
  EXPECT_LE(world.clock.now() - died, seconds(3)) << "one block_timeout, not the time of a death notice";
  const std::vector<int> from = origins();
  EXPECT_EQ(std::count(from.begin(), from.end(), -1), 0);
  EXPECT_GE(std::count(from.begin(), from.end(), 0), 1) << "what it gave is kept";
  EXPECT_EQ(world.blocks_placed, kBlocks);
}

// It goes on to send what it was asked for.
TEST_F(ModelFetchTest, ARevokedDonorIsLeftForAnotherAtOnce) {
  const Identity key = identity_of(1);
  Revocations revocations(key.id());
  World::Node& revoked = add_donor(1, 100);
  World::Node& other = add_donor(2, 100);
  revoked.delay = other.delay = milliseconds(50);
  begin(&revocations);
  const auto given_by_revoked = [&] {
    const std::vector<int> from = origins();
    return std::count(from.begin(), from.end(), 0);
  };
  ASSERT_TRUE(world.run_until([&] { return given_by_revoked() >= 3; }, seconds(2)));
  newcomer->refusals_expected = true;
  newcomer->members().revoke(sign_revocation(key, peer_of(0), 1));
  const auto given = given_by_revoked();
  world.run_for(milliseconds(5));
  const std::string text = newcomer->fetch->waiting_for();
  const std::string donors = text.substr(0, text.find("last trouble"));
  EXPECT_NE(donors.find(peer_of(1).short_name()), std::string::npos) << text;
  EXPECT_EQ(donors.find(peer_of(0).short_name()), std::string::npos) << text;
  ASSERT_TRUE(finish(seconds(6)));
  EXPECT_EQ(given_by_revoked(), given) << "what it gave is kept, and no more is taken";
  EXPECT_EQ(world.blocks_placed, kBlocks);
}

TEST_F(ModelFetchTest, TheLastDonorsDeathWaitsForTheNextOne) {
  World::Node& dying = add_donor(1, 100);
  dying.delay = milliseconds(50);
  ModelFetch& fetch = begin();
  ASSERT_TRUE(world.run_until([&] { return world.blocks_placed >= 6; }, seconds(2)));
  dying.up = false;
  world.run_for(seconds(30));
  const double kept = fetch.progress();
  EXPECT_GE(kept, 6.0 / kBlocks);
  EXPECT_LT(kept, 1);
  const std::string text = fetch.waiting_for();
  EXPECT_NE(text.find("last trouble: " + peer_of(0).short_name()), std::string::npos) << text;
  EXPECT_NE(text.find("of 21 blocks"), std::string::npos) << text;
  EXPECT_LE(newcomer->block_requests, 6u + 3 * world.fetch_options.blocks_in_flight) << "the dead are not bothered";
  World::Node& second = add_donor(2, 150);
  newcomer->members().add(second.members().self());
  second.members().add(newcomer->members().self());
  ASSERT_TRUE(finish(seconds(3)));
  const std::vector<int> from = origins();
  EXPECT_EQ(std::count(from.begin(), from.end(), -1), 0);
  EXPECT_GE(std::count(from.begin(), from.end(), 0), 6);
  EXPECT_EQ(fetch.steps(), 150u) << "of the newest donor used";
}

TEST_F(ModelFetchTest, DamagedBlocksAreNeverPlacedAndTheirDonorIsDropped) {
  World::Node& liar = add_donor(1, 100);
  add_donor(2, 100);
  std::vector<std::byte> junk(kTransferBlockBytes, std::byte{7});
  const SharedBytes bad = SharedBytes::take(std::move(junk));
  size_t bad_sent = 0;
  liar.spoil = [&](Message& message, SharedBytes& payload) {
    if (message_is<ModelBlock>(message)) {
      payload = bad_sent++ % 2 == 0 ? bad : SharedBytes{bad.owner, bad.data, 100};
    }
    return true;
  };
  ModelFetch& fetch = begin();
  ASSERT_TRUE(finish(seconds(5)));
  EXPECT_EQ(origins(), std::vector<int>(kBlocks, 1));
  EXPECT_GE(bad_sent, 3u);
  EXPECT_LE(bad_sent, 3u + world.fetch_options.blocks_in_flight);
  EXPECT_NE(fetch.waiting_for().find("do not match"), std::string::npos) << fetch.waiting_for();
}

TEST_F(ModelFetchTest, AModelThatCannotBeOneIsDroppedThoughItsHashesAreRight) {
  World::Node& sick = add_donor(1, 100);
  sick.donor().set_model(random_model(77, 900, kModelBytes, kNoParam));
  add_donor(2, 100);
  begin();
  ASSERT_TRUE(finish(seconds(5)));
  EXPECT_EQ(origins(), std::vector<int>(kBlocks, 1));
}

TEST_F(ModelFetchTest, TwoDamagedBlocksAreForgiven) {
  World::Node& donor = add_donor(1, 100);
  size_t sent = 0;
  donor.spoil = [&](Message& message, SharedBytes& payload) {
    if (message_is<ModelBlock>(message) && (++sent == 3 || sent == 9)) {
      std::vector<std::byte> copy(payload.span().begin(), payload.span().end());
      copy[copy.size() / 2] ^= std::byte{16};
      payload = SharedBytes::take(std::move(copy));
    }
    return true;
  };
  begin();
  ASSERT_TRUE(finish(seconds(5)));
  EXPECT_EQ(origins(), std::vector<int>(kBlocks, 0));
  EXPECT_EQ(sent, kBlocks + 2);
}

TEST_F(ModelFetchTest, ADonorThatReplacesItsFileIsAskedAnew) {
  World::Node& donor = add_donor(1, 100);
  donor.delay = milliseconds(20);
  ModelFetch& fetch = begin();
  ASSERT_TRUE(world.run_until([&] { return world.blocks_placed >= 3; }, seconds(2)));
  for (const uint64_t snapshot : {2u, 3u}) {  // twice: the first file is gone
    models.push_back(random_model(snapshot, 100 * snapshot, kModelBytes));
    donor.donor().set_model(models.back());
  }
  ASSERT_TRUE(finish(seconds(2)));
  const std::vector<int> from = origins();
  EXPECT_EQ(std::count(from.begin(), from.end(), -1), 0);
  EXPECT_GE(std::count(from.begin(), from.end(), 0), 3);
  EXPECT_GE(std::count(from.begin(), from.end(), 2), 1);
  EXPECT_EQ(fetch.steps(), 300u);
}

TEST_F(ModelFetchTest, ADonorWhoseFilesNeverLastIsLeftForAnother) {
  World::Node& restless = add_donor(1, 100);
  size_t gone = 0;
  restless.spoil = [&](Message& message, SharedBytes& payload) {
    if (auto* block = message_as<ModelBlock>(message)) {
      ++gone;
      message = ModelGone{block->snapshot};
      payload = {};
    }
    return true;
  };
  world.fetch_options.donors_max = 1;
  add_donor(2, 95);
  begin();
  ASSERT_TRUE(finish(seconds(20)));
  EXPECT_EQ(origins(), std::vector<int>(kBlocks, 1));
}

TEST_F(ModelFetchTest, AModelOfAnotherSizeIsRefusedAndNamed) {
  add_donor(1, 100, kModelBytes + 4096);
  ModelFetch& fetch = begin();
  world.run_for(seconds(10));
  EXPECT_EQ(fetch.progress(), 0);
  EXPECT_NE(fetch.waiting_for().find(std::to_string(kModelBytes + 4096)), std::string::npos) << fetch.waiting_for();
  EXPECT_NE(fetch.waiting_for().find("10.0.0.0:7400"), std::string::npos) << fetch.waiting_for();
  EXPECT_EQ(newcomer->block_requests, 0u);
}

TEST_F(ModelFetchTest, HashesThatDoNotBelongToTheRootAreRefused) {
  World::Node& liar = add_donor(1, 100);
  liar.spoil = [](Message& message, SharedBytes&) {
    if (auto* offer = message_as<ModelOffer>(message)) offer->hashes[4][0] ^= 1;
    return true;
  };
  add_donor(2, 100);
  begin();
  ASSERT_TRUE(finish(seconds(5)));
  EXPECT_EQ(origins(), std::vector<int>(kBlocks, 1));
  EXPECT_EQ(liar.donor().counters().blocks_sent, 0u);
}

TEST_F(ModelFetchTest, WithoutDonorsItWaitsAndSaysSo) {
  ModelFetch& fetch = begin();
  world.run_for(seconds(42));
  EXPECT_FALSE(fetch.done());
  EXPECT_NE(fetch.waiting_for().find("after 42 s; none of 0 living members"), std::string::npos) << fetch.waiting_for();
  World::Node& late = add_donor(1, 100);
  newcomer->members().add(late.members().self());
  late.members().add(newcomer->members().self());
  EXPECT_TRUE(finish(seconds(2)));
}

TEST_F(ModelFetchTest, MembersWithoutAModelDoNotStandInTheWayOfOneThatHasIt) {
  for (int i = 0; i < 5; ++i) world.add(World::trained(100));
  World::Node& registry = world.add({.role = Role::kBootstrap, .phase = Phase::kTraining});
  World::Node& learner = world.add(World::joining());
  add_donor(1, 95);
  begin();
  ASSERT_TRUE(finish(seconds(10)));
  EXPECT_EQ(origins(), std::vector<int>(kBlocks, 0));
  EXPECT_EQ(registry.donor().counters().blocks_sent + learner.donor().counters().blocks_sent, 0u);
}

TEST_F(ModelFetchTest, ASilentDonorIsReplaced) {
  World::Node& frozen = add_donor(1, 100);
  frozen.spoil = [](Message& message, SharedBytes&) {  // answers everything but blocks
    return !message_is<ModelBlock>(message);
  };
  world.fetch_options.donors_max = 1;
  add_donor(2, 60);
  begin();
  ASSERT_TRUE(finish(seconds(6)));
  EXPECT_EQ(origins(), std::vector<int>(kBlocks, 1));
}

TEST_F(ModelFetchTest, ASlowLinkIsNoDeadDonor) {
  World::Node& slow = add_donor(1, 100);
  slow.delay = seconds(3);  // a block; longer than block_timeout
  begin();
  ASSERT_TRUE(finish(minutes(3)));
  EXPECT_EQ(origins(), std::vector<int>(kBlocks, 0));
  EXPECT_LE(newcomer->block_requests, kBlocks + 2 * world.fetch_options.blocks_in_flight);
}

TEST_F(ModelFetchTest, TheLastBlocksDoNotHangOnTheSlowest) {
  World::Node& slow = add_donor(1, 100);
  slow.delay = milliseconds(1500);
  add_donor(2, 100);
  begin();
  ASSERT_TRUE(finish(seconds(4)));
  const std::vector<int> from = origins();
  EXPECT_EQ(std::count(from.begin(), from.end(), -1), 0);
  EXPECT_EQ(world.blocks_placed, kBlocks);
}

TEST_F(ModelFetchTest, LostFramesAreAskedForAgain) {
  Rng rng(5);
  for (uint64_t i = 1; i <= 2; ++i) {
    add_donor(i, 100).spoil = [&](Message& message, SharedBytes&) {
      const bool ours = message_is<ModelBlock>(message) || message_is<ModelOffer>(message);
      return !ours || !rng.chance(0.2);
    };
  }
  begin();
  ASSERT_TRUE(finish(minutes(2)));
  const std::vector<int> from = origins();
  EXPECT_EQ(std::count(from.begin(), from.end(), -1), 0);
}

TEST_F(ModelFetchTest, ADonorThatRestartsIsAskedAnew) {
  World::Node& donor = add_donor(1, 100, kModelBytes + 4);  // refused...
  ModelFetch& fetch = begin();
  world.run_for(seconds(2));
  EXPECT_EQ(fetch.progress(), 0);
  models.push_back(random_model(2, 100, kModelBytes));
  donor.donor().set_model(models.back());
  world.run_for(seconds(5));
  EXPECT_EQ(fetch.progress(), 0) << "refused for good";
  PeerRecord restarted = donor.members().self();
  restarted.version.generation = 2;  // ...until it is another process
  newcomer->members().add(restarted);
  EXPECT_TRUE(finish(seconds(2)));
}

// Holds all jobs back, as a busy worker does.
class BusyWorker final : public Worker {
 public:
  void submit(std::function<void()> job, std::function<void()> done) override {
    jobs.emplace_back(std::move(job), std::move(done));
  }
  void run_completions() override {
    for (auto& [job, done] : std::exchange(jobs, {})) {
      job();
      done();
    }
  }
  std::vector<std::pair<std::function<void()>, std::function<void()>>> jobs;
};

TEST_F(ModelFetchTest, ABusyWorkerBoundsWhatIsInFlightAndMayOutliveTheFetch) {
  add_donor(1, 100, 100 * kTransferBlockBytes);
  World::Node& node = world.add(World::joining());
  world.introduce_all();
  BusyWorker busy;
  size_t placed = 0;
  node.fetch = std::make_unique<ModelFetch>(
      world.fetch_options, 100 * kTransferBlockBytes, node.members(), world.clock, node.router, busy,
      [&](uint64_t, std::span<const std::byte>) { return ++placed > 0; }, 3, 3);
  world.run_for(seconds(5));
  EXPECT_EQ(placed, 0u);
  EXPECT_GE(busy.jobs.size(), 32u);
  EXPECT_LE(busy.jobs.size(), 40u);
  busy.run_completions();
  EXPECT_GE(placed, 32u);
  world.run_for(seconds(1));
  ASSERT_FALSE(busy.jobs.empty());
  const size_t before = placed;
  node.fetch.reset();
  busy.run_completions();
  EXPECT_EQ(placed, before);
}

// A stranger that knows the ids, addresses and snapshots of all donors, and what they answer to.
TEST_F(ModelFetchTest, AThousandForgedAnswersASecondInItsDonorsNamesKeepNobodyFromTheModel) {
  for (uint64_t i = 1; i <= 3; ++i) add_donor(i, 120);
  begin();
  const auto junk = SharedBytes::take(std::vector<std::byte>(9));
  world.each_step = [&] {
    for (uint32_t d = 0; d < 3; ++d) {
      const FrameHeader donor{swarm_id_of("digits"), peer_of(d), 1, endpoint_of(d)};
      for (const uint64_t nonce : {uint64_t{0}, uint64_t{4711}}) {
        world.post(donor, JoinCookie{4711, nonce}, *newcomer);
        world.post(donor, ModelOffer{.nonce = nonce}, *newcomer);
        world.post(donor, ModelOffer{.snapshot = 1, .total_bytes = 1, .block_bytes = 1, .nonce = nonce}, *newcomer);
        world.post(donor, ModelGone{d + 1, nonce}, *newcomer);
        for (uint32_t index = 0; index < 3; ++index) {
          world.post(donor, ModelBlock{d + 1, index, nonce}, *newcomer, junk);
        }
      }
    }
  };
  ASSERT_TRUE(finish(seconds(2))) << newcomer->fetch->waiting_for();
  for (const int origin : origins()) EXPECT_GE(origin, 0);
}

// One kind a time: each alone would do.
TEST_F(ModelFetchTest, NoForgedAnswerCounts) {
  const auto junk = SharedBytes::take(std::vector<std::byte>(9));
  const std::vector<std::function<Message(uint32_t donor)>> kinds = {
      [](uint32_t) { return JoinCookie{4711, 0}; },
      [](uint32_t) { return ModelOffer{}; },
      [](uint32_t) { return ModelOffer{.snapshot = 1, .total_bytes = 1, .block_bytes = 1}; },
      [](uint32_t donor) { return ModelGone{donor + 1, 0}; },
      [](uint32_t donor) { return ModelBlock{donor + 1, 0, 0}; },
  };
  for (size_t kind = 0; kind < kinds.size(); ++kind) {
    World besieged;
    besieged.settings = "digits";
    for (uint64_t i = 1; i <= 3; ++i) {
      besieged.add(World::trained(120)).donor().set_model(random_model(i, 120, kModelBytes));
    }
    World::Node& node = besieged.add(World::joining());
    besieged.introduce_all();
    besieged.fetch(node, kModelBytes);
    besieged.each_step = [&] {
      for (uint32_t d = 0; d < 3; ++d) {
        const Message message = kinds[kind](d);
        besieged.post({swarm_id_of("digits"), peer_of(d), 1, endpoint_of(d)}, message, node,
                      message_is<ModelBlock>(message) ? junk : SharedBytes());
      }
    };
    EXPECT_TRUE(besieged.run_until([&] { return node.fetch->done(); }, milliseconds(100)))  // as without them
        << kind << ": " << node.fetch->waiting_for();
  }
}

// It owes what it was asked for, and sends what nobody asked for, so that it never seems silent.
TEST_F(ModelFetchTest, ADonorThatSendsOtherBlocksThanAskedForIsLeft) {
  uint64_t nonce = 0;
  add_donor(1, 100).spoil = [&](Message& message, SharedBytes&) {
    if (const auto* offer = message_as<ModelOffer>(message)) nonce = offer->nonce;
    return !message_is<ModelBlock>(message);
  };
  for (uint64_t i = 2; i <= 3; ++i) add_donor(i, 100);
  begin();
  world.each_step = [&] {
    const FrameHeader liar{swarm_id_of("digits"), peer_of(0), 1, endpoint_of(0)};
    if (nonce != 0)
      world.post(liar, ModelBlock{1, 4711, nonce}, *newcomer, SharedBytes::take(std::vector<std::byte>(9)));
  };
  ASSERT_TRUE(finish(seconds(30))) << newcomer->fetch->waiting_for();
}

TEST_F(ModelFetchTest, ADonorThatNeverEndsItsOfferKeepsNobodyElseOut) {
  uint64_t count = 1000;
  const std::vector<std::function<void(Message & message, ModelOffer offer)>> kinds = {
      [&](Message& message, const ModelOffer& offer) { message = JoinCookie{++count, offer.nonce}; },
      [&](Message& message, ModelOffer offer) {
        offer.snapshot = ++count;
        offer.hashes.resize(1);
        message = offer;
      },
      [&](Message& message, ModelOffer offer) {
        offer.snapshot = ++count;
        offer.first_hash = 1;
        offer.hashes.clear();
        message = offer;
      },
  };
  for (size_t kind = 0; kind < kinds.size(); ++kind) {
    World misled;
    misled.settings = "digits";
    for (uint64_t i = 1; i <= 2; ++i) {
      World::Node& node = misled.add(World::trained(i == 1 ? UINT64_MAX : 100));
      node.donor().set_model(random_model(i, 100, kModelBytes));
    }
    misled.nodes[0]->spoil = [&](Message& message, SharedBytes&) {
      if (const auto* offer = message_as<ModelOffer>(message)) kinds[kind](message, *offer);
      return true;
    };
    World::Node& node = misled.add(World::joining());
    misled.introduce_all();
    misled.fetch(node, kModelBytes);
    EXPECT_TRUE(misled.run_until([&] { return node.fetch->done(); }, seconds(30)))
        << kind << ": " << node.fetch->waiting_for();
  }
}

TEST_F(ModelFetchTest, TheStepsOfADonorWithoutAGoodBlockDoNotCount) {
  World::Node& liar = add_donor(1, 100);
  liar.spoil = [](Message& message, SharedBytes& payload) {
    if (auto* offer = message_as<ModelOffer>(message)) offer->steps = offer->round = UINT64_MAX;
    if (message_is<ModelBlock>(message)) payload = SharedBytes::take(std::vector<std::byte>(9));
    return true;
  };
  add_donor(2, 100);
  ModelFetch& fetch = begin();
  ASSERT_TRUE(finish(seconds(10)));
  EXPECT_EQ(fetch.steps(), 100u);
  EXPECT_EQ(fetch.round(), 10u);
}

// A stranger may send it in the name of a donor that has repeated its number.
TEST_F(ModelFetchTest, ADonorOfThisVersionIsNeverCalledOlder) {
  World::Node& donor = add_donor(1, 120);
  donor.delay = milliseconds(50);
  begin();
  ASSERT_TRUE(world.run_until([&] { return world.blocks_placed >= 3; }, seconds(2)));
  world.post({swarm_id_of("digits"), peer_of(0), 1, endpoint_of(0)}, ModelOffer{}, *newcomer);
  donor.up = false;
  EXPECT_FALSE(finish(seconds(20)));
  EXPECT_EQ(newcomer->fetch->waiting_for().find("update"), std::string::npos) << newcomer->fetch->waiting_for();
}

// They repeat no number, so that nobody could tell their answers from a stranger's.
TEST_F(ModelFetchTest, DonorsOfAnOlderProgramAreNamedWithBothVersionsAndTheRemedy) {
  World::Node& donor = add_donor(1, 120);
  begin();
  donor.spoil = [](Message& message, SharedBytes&) {
    if (auto* cookie = message_as<JoinCookie>(message)) cookie->nonce = 0;
    return true;
  };
  EXPECT_FALSE(finish(seconds(8)));
  const std::string text = newcomer->fetch->waiting_for();
  for (const char* part : {"10.0.0.0:7400", "version 2.0", "version 2.2", "update that agent's program"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
  }
}

// More blocks than hashes fit into one frame.
class LargeModel final : public ModelFile {
 public:
  LargeModel() : bytes_(SharedBytes::take(std::vector<std::byte>(kTransferBlockBytes, std::byte{3}))) {
    hashes_.assign(kTransferHashesPerFrame + 5, xxh3_128(bytes_.span()));
    root_ = blake2b_256(std::as_bytes(std::span(hashes_)));
  }
  uint64_t snapshot() const override { return 1; }
  uint64_t round() const override { return 1; }
  uint64_t steps() const override { return 1; }
  uint64_t total_bytes() const override { return hashes_.size() * kTransferBlockBytes; }
  const std::array<uint8_t, 32>& root() const override { return root_; }
  const std::vector<std::array<uint8_t, 16>>& hashes() const override { return hashes_; }
  SharedBytes block(uint32_t) const override { return bytes_; }

 private:
  SharedBytes bytes_;
  std::array<uint8_t, 32> root_;
  std::vector<std::array<uint8_t, 16>> hashes_;
};

TEST_F(ModelFetchTest, ALongListOfHashesComesInPages) {
  World::Node& donor = world.add(World::trained(1));
  const auto model = std::make_shared<LargeModel>();
  donor.donor().set_model(model);
  donor.delay = std::chrono::microseconds(100);
  World::Node& node = world.add(World::joining());
  world.introduce_all();
  uint64_t bytes_placed = 0;
  node.fetch = std::make_unique<ModelFetch>(
      world.fetch_options, model->total_bytes(), node.members(), world.clock, node.router, world.worker,
      [&](uint64_t, std::span<const std::byte> bytes) { return (bytes_placed += bytes.size()) > 0; }, 3, 3);
  ASSERT_TRUE(world.run_until([&] { return node.fetch->done(); }, seconds(60)));
  EXPECT_EQ(bytes_placed, model->total_bytes());
}

}  // namespace
}  // namespace starling
