// What whole agents make of updates without loss, against sums in double: every number is a small multiple of a power
// of two, so that all of them are exact, and a log's params must be the reference's to the bit.
#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include "compression/update_codec.h"
#include "tests/sim/quadratic_swarm.h"

namespace starling {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr size_t kAgents = 4, kDimension = 256;
constexpr uint64_t kRounds = 6;  // each adds two bits to a mean of four: more would not fit

struct Codec {
  const char* name;
  UpdateOptions update;
  float rate;
  bool cuts = false;  // an entry holds fewer elements than the payloads do together
};

// Targets and genesis are integers. With a rate of 1 a step goes to the target: the drift is what is left to learn.
class GridSwarm : public SimSwarm {
 public:
  explicit GridSwarm(const Codec& codec)
      : SimSwarm(21, settings(codec), {.delay_min = milliseconds(1), .delay_max = milliseconds(1)},
                 [](size_t agent, const SwarmConfig& swarm, const Clock& now, const std::function<void()>&) {
                   return std::make_unique<QuadraticTrainer>(options(), swarm.rng_seed, agent + 1, now);
                 }) {
    for (size_t a = 0; a < kAgents; ++a) add({});
  }

  static QuadraticOptions options() { return {.dimension = kDimension, .integer_grid = true}; }
  std::span<const float> target(size_t a) { return dynamic_cast<const QuadraticTrainer&>(trainer(a).inner()).target(); }
  const SliceReplica& replica(size_t a) { return agent(a).updates()->replicas().all()[0]; }

 private:
  static SwarmConfig settings(const Codec& codec) {
    SwarmConfig swarm = quadratic_settings(kDimension, codec.rate, 0);
    swarm.weight = "equal";
    swarm.exchange.kind = ExchangeKind::kGroup;
    swarm.exchange.source = SourceKind::kUpdates;
    swarm.exchange.update = codec.update;
    swarm.stop_after = 1000;
    return swarm;
  }
};

// The algorithm of gossip/updates without a network: only what the codec keeps is taken from the codec.
class Reference {
 public:
  Reference(GridSwarm& swarm, const Codec& codec)
      : rate_(static_cast<double>(codec.rate)),
        codec_(make_update_codec(codec.update)),
        rests_(kAgents, Numbers(kDimension)) {
    const std::vector<float> genesis = quadratic_genesis(GridSwarm::options(), SwarmConfig{}.rng_seed);
    params_.assign(genesis.begin(), genesis.end());
    for (size_t a = 0; a < kAgents; ++a) targets_.emplace_back(swarm.target(a).begin(), swarm.target(a).end());
  }

  void round() {
    Numbers sum(kDimension);
    std::vector<Numbers> sent;
    for (size_t a = 0; a < kAgents; ++a) {
      for (size_t i = 0; i < kDimension; ++i) rests_[a][i] += rate_ * (targets_[a][i] - params_[i]);
      sent.push_back(kept(UpdateRole::kContribution, rests_[a]).first);
      for (size_t i = 0; i < kDimension; ++i) sum[i] += sent[a][i] / kAgents;
    }
    const auto [entry, on] = kept(UpdateRole::kEntry, sum);
    for (size_t i = 0; i < kDimension; ++i) params_[i] += entry[i];
    cut_ += entry != sum;
    for (size_t a = 0; a < kAgents; ++a) {
      for (size_t i = 0; i < kDimension; ++i) {
        if (on.everywhere || std::binary_search(on.indices.begin(), on.indices.end(), i)) rests_[a][i] -= sent[a][i];
      }
    }
  }

  std::vector<float> params() const { return exact(params_); }
  std::vector<float> rest(size_t a) const { return exact(rests_[a]); }
  size_t cut() const { return cut_; }  // rounds whose entry holds less than the sum

 private:
  using Numbers = std::vector<double>;

  static std::vector<float> exact(const Numbers& numbers) {
    std::vector<float> floats(numbers.begin(), numbers.end());
    for (size_t i = 0; i < floats.size(); ++i) EXPECT_EQ(static_cast<double>(floats[i]), numbers[i]) << "off the grid";
    return floats;
  }
  std::pair<Numbers, UpdateSupport> kept(UpdateRole role, const Numbers& numbers) const {
    std::vector<std::byte> bytes(codec_->bytes_max(role, kDimension));
    bytes.resize(codec_->encode(role, exact(numbers), {}, bytes).value());
    std::vector<float> values(kDimension);
    codec_->decode(bytes, values);
    return {Numbers(values.begin(), values.end()), codec_->support(bytes)};
  }

  const double rate_;
  std::unique_ptr<UpdateCodec> codec_;
  std::vector<Numbers> targets_, rests_;
  Numbers params_;
  size_t cut_ = 0;
};

class UpdateSums : public testing::TestWithParam<Codec> {};

TEST_P(UpdateSums, WithoutLossAnEntryIsTheExactMeanOfWhatTheCodecKept) {
  spdlog::set_level(spdlog::level::off);
  GridSwarm swarm(GetParam());
  ASSERT_TRUE(swarm.run_until([&] { return swarm.training(kAgents - 1); }, seconds(10)));
  Reference reference(swarm, GetParam());
  for (uint64_t length = 1; length <= kRounds; ++length) {
    const auto all_there = [&] {
      for (size_t a = 0; a < kAgents; ++a) {
        if (!swarm.training(a) || swarm.replica(a).head().length < length) return false;
      }
      return true;
    };
    ASSERT_TRUE(swarm.run_until(all_there, seconds(10)));
    reference.round();
    for (size_t a = 0; a < kAgents; ++a) {
      ASSERT_EQ(swarm.replica(a).head(), (LogHead{length, length * kAgents, swarm.replica(0).head().hash}));
      const SliceMemory& held = swarm.replica(a).memory();
      ASSERT_EQ(std::vector<float>(held.params.begin(), held.params.end()), reference.params())
          << "agent " << a << ", entry " << length;
      ASSERT_EQ(std::vector<float>(held.accumulator.begin(), held.accumulator.end()), reference.rest(a));
    }
  }
  EXPECT_EQ(reference.cut(), GetParam().cuts ? kRounds : 0);
}

INSTANTIATE_TEST_SUITE_P(Codecs, UpdateSums,
                         testing::Values(Codec{"fp32", {}, 0.5f},
                                         Codec{"topk", {.kind = UpdateKind::kTopk, .density = 0.1, .reply = 4}, 1},
                                         Codec{"topk_reply_2", {.kind = UpdateKind::kTopk, .density = 0.1}, 1, true}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace starling
