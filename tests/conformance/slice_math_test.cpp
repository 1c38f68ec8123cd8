// The arithmetic of replicas on a GPU: to the bit what host memory gets, over random slices, payloads and steps.
#include "compression/slice_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/cuda/device.h"
#include "kernels/transfer.h"
#include "tests/kernels/inputs.h"

namespace starling {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// One vector of each space, with the same values; the device's begins 8 bytes into its memory, as in a larger vector.
class Twins {
 public:
  explicit Twins(const std::vector<float>& values) : host(values), memory_(MemorySpace::kCuda, values.size() + 2) {
    write(values);
  }
  void write(const std::vector<float>& values) {
    host = values;
    copy_from_host(host.data(), view());
  }
  std::span<float> device() { return memory_.all().subspan(2); }
  std::vector<float> of_device() {
    std::vector<float> values(host.size());
    copy_to_host(view(), values.data());
    return values;
  }
  std::vector<float> host;

 private:
  View view() { return memory_.view().part(2, host.size()); }
  FloatMemory memory_;
};

#define EXPECT_TWINS(twins) EXPECT_EQ(bits_of((twins).of_device()), bits_of((twins).host))

class SliceMathTwins : public testing::TestWithParam<UpdateKind> {
 protected:
  void SetUp() override {
    if (cuda::device_count() == 0) GTEST_SKIP() << "no GPU";
    device_ = make_slice_math(MemorySpace::kCuda);
    ASSERT_TRUE(device_->takes(*codec_));
  }
  std::vector<float> draw(size_t count) {
    std::vector<float> x = normal_vector(rng_, count, 1.0f);
    for (size_t i = 3; i < count; i += 7) x[i] = i % 2 == 0 ? 0.0f : -0.0f;
    return x;
  }
  std::vector<std::byte> encode(const SliceMath& math, std::span<const float> x, uint64_t seed) {
    std::vector<std::byte> bytes(codec_->bytes_max(UpdateRole::kContribution, x.size()));
    const UpdateSeeds seeds{.own = seed};
    const auto chosen = math.choose(*codec_, x, seeds);
    const auto size = chosen ? math.encode_chosen(*codec_, x, seeds, *chosen, bytes) : std::nullopt;
    if (!size) return {};
    bytes.resize(*size);
    return bytes;
  }
  std::vector<std::byte> entry_of(std::span<const float> sum) {
    std::vector<std::byte> bytes(codec_->bytes_max(UpdateRole::kEntry, sum.size()));
    bytes.resize(codec_->encode(UpdateRole::kEntry, sum, {}, bytes).value());
    EXPECT_EQ(codec_->check(UpdateRole::kEntry, bytes, sum.size()), UpdateStatus::kOk);
    return bytes;
  }
  void apply(const OuterRule& rule, Bytes entry, Twins& params, Twins& momentum, OuterReach reaches[2], bool taken) {
    const std::span<float> none, of_host = rule.has_momentum() ? momentum.host : none;
    const std::span<float> of_device = rule.has_momentum() ? momentum.device() : none;
    const double norm = codec_->norm(entry);
    EXPECT_EQ(apply_entry(host_, rule, *codec_, 0.9f, entry, norm, params.host, of_host, &reaches[0]), taken);
    EXPECT_EQ(apply_entry(*device_, rule, *codec_, 0.9f, entry, norm, params.device(), of_device, &reaches[1]), taken);
    EXPECT_EQ(reaches[0].params, reaches[1].params);
    EXPECT_EQ(reaches[0].momentum, reaches[1].momentum);
    EXPECT_TWINS(params);
    EXPECT_TWINS(momentum);
  }

  TestRng rng_{draw_rng_seed()};
  const std::unique_ptr<UpdateCodec> codec_ = make_update_codec({.kind = GetParam(), .density = 0.05});
  const std::unique_ptr<UpdateCodec> topk_ = make_update_codec({.kind = UpdateKind::kTopk, .density = 0.1});
  const SliceMath& host_ = host_slice_math();
  std::unique_ptr<SliceMath> device_;
};

// Of the last one indices are in Rice's code.
const std::vector<size_t> kSizes = {1, 2, 127, 129, 512, 5000, 70'000};

// In fp32 also one that takes three pieces of pinned memory.
std::vector<size_t> sizes_of(UpdateKind kind) {
  std::vector<size_t> sizes = kSizes;
  if (kind == UpdateKind::kFp32) sizes.push_back(2'200'000);
  return sizes;
}

TEST_P(SliceMathTwins, PayloadsAreTheSame) {
  for (const size_t count : sizes_of(GetParam())) {
    Twins x(draw(count));
    const auto payload = encode(host_, x.host, count);
    ASSERT_FALSE(payload.empty());
    EXPECT_EQ(encode(*device_, x.device(), count), payload) << count;
    x.write(std::vector<float>(count, -0.0f));
    EXPECT_EQ(encode(*device_, x.device(), count), encode(host_, x.host, count)) << "zeros, " << count;
    for (const float bad : {kInfinity, std::nanf("")}) {
      x.write(draw(count));
      x.host[count / 2] = bad;
      x.write(std::vector<float>(x.host));
      EXPECT_TRUE(encode(*device_, x.device(), count).empty()) << bad << " of " << count;
    }
  }
}

TEST_P(SliceMathTwins, PayloadsAreAddedAlike) {
  for (const size_t count : sizes_of(GetParam())) {
    Twins target(draw(count));
    for (const auto& payload : {encode(host_, draw(count), 1), encode(host_, std::vector<float>(count), 1)}) {
      const auto other = draw(count);
      std::vector<std::byte> elsewhere(topk_->bytes_max(UpdateRole::kEntry, count));
      elsewhere.resize(topk_->encode(UpdateRole::kEntry, other, {}, elsewhere).value());
      for (const UpdateSupport& on : {UpdateSupport{}, topk_->support(elsewhere), UpdateSupport{false, {}}}) {
        host_.add_payload(*codec_, -0.37f, payload, on, target.host);
        device_->add_payload(*codec_, -0.37f, payload, on, target.device());
        EXPECT_TWINS(target) << count << " everywhere: " << on.everywhere;
      }
      host_.decode(*codec_, payload, target.host);
      device_->decode(*codec_, payload, target.device());
      EXPECT_TWINS(target) << count;
    }
  }
}

// Members hand in exact payloads at the end of a run.
TEST_P(SliceMathTwins, EntriesOfSumsAreTheSame) {
  const std::unique_ptr<UpdateCodec> exact = make_update_codec({});
  for (const size_t count : kSizes) {
    std::vector<std::vector<std::byte>> payloads;
    for (uint64_t i = 0; i < 5; ++i) payloads.push_back(encode(host_, draw(count), i));
    payloads.push_back(encode(host_, std::vector<float>(count), 7));
    std::vector<UpdateTerm> terms;
    for (const auto& payload : payloads) terms.push_back({codec_.get(), 0.17f, payload});
    const std::vector<float> values = draw(count);
    terms.insert(terms.begin() + 2, {exact.get(), 0.3f, std::as_bytes(std::span(values))});
    for (const UpdateCodec* codec : {codec_.get(), exact.get()}) {
      std::vector<std::byte> ours(codec->bytes_max(UpdateRole::kEntry, count)), theirs = ours;
      const UpdateSeeds seeds{.own = count};
      const auto size = host_.encode_sum(*codec, terms, count, seeds, ours);
      ASSERT_TRUE(size.has_value());
      EXPECT_EQ(device_->encode_sum(*codec, terms, count, seeds, theirs), size);
      EXPECT_EQ(std::vector(theirs.begin(), theirs.begin() + *size), std::vector(ours.begin(), ours.begin() + *size));
      terms[2].weight = std::numeric_limits<float>::max() / (std::abs(values[0]) / 4);
      for (const SliceMath* math : {&host_, static_cast<const SliceMath*>(device_.get())}) {
        EXPECT_EQ(math->encode_sum(*codec, terms, count, seeds, theirs), std::nullopt) << "beyond a float's range";
      }
      terms[2].weight = 0.3f;
    }
  }
}

TEST_P(SliceMathTwins, EntriesAreTakenAlike) {
  for (const OuterRule& rule : {OuterRule{}, OuterRule{0, 0.3f}, OuterRule{0.9f, 0.7f}}) {
    for (const size_t count : kSizes) {
      Twins params(draw(count)), momentum(draw(count));
      OuterReach reaches[2];
      for (int i = 0; i < 3; ++i) apply(rule, entry_of(draw(count)), params, momentum, reaches, true);
      apply(rule, entry_of(std::vector<float>(count)), params, momentum, reaches, true);
    }
  }
}

TEST_P(SliceMathTwins, AnEntryThatWouldLeaveTheRangeOfAFloatChangesNothing) {
  for (const OuterRule& rule : {OuterRule{}, OuterRule{0.9f, 0.7f}}) {
    Twins params(std::vector<float>(700, 3.4e38f)), momentum(std::vector<float>(700));
    const std::vector<float> before = params.host;
    OuterReach reaches[2];
    std::vector<float> sum(700);
    sum[600] = 1e38f;
    apply(rule, entry_of(sum), params, momentum, reaches, false);
    EXPECT_EQ(params.host, before);
    sum[600] = rule.has_momentum() ? 2e35f : 3e35f;  // fits by the factor of 0.9
    apply(rule, entry_of(sum), params, momentum, reaches, true);
    sum[600] = -1e38f;
    apply(rule, entry_of(sum), params, momentum, reaches, true);
  }
}

TEST_P(SliceMathTwins, AndSoIsAllElse) {
  for (const size_t count : kSizes) {
    Twins x(draw(count)), y(draw(count)), z(draw(count));
    host_.add(x.host, y.host);
    device_->add(x.device(), y.device());
    host_.add_change(0.3f, x.host, y.host, z.host);
    device_->add_change(0.3f, x.device(), y.device(), z.device());
    EXPECT_TWINS(z);
    host_.add_change(1, y.host, x.host, z.host);
    device_->add_change_from_host(y.host, x.device(), z.device());
    EXPECT_TWINS(z) << "from host memory";
    EXPECT_EQ(device_->max_abs(z.device()), host_.max_abs(z.host));
    EXPECT_NEAR(device_->squared_norm(z.device()), host_.squared_norm(z.host), 1e-12 * static_cast<double>(count));
    std::vector<float> copied(count);
    device_->copy(z.device(), copied);
    EXPECT_EQ(bits_of(copied), bits_of(z.host));
    device_->copy(x.host, z.device());
    EXPECT_EQ(bits_of(z.of_device()), bits_of(x.host));
    device_->clear(z.device());
    EXPECT_EQ(bits_of(z.of_device()), bits_of(std::vector<float>(count)));
    EXPECT_TRUE(device_->all_finite(x.device()));
    for (const float bad : {kInfinity, -kInfinity, std::nanf("")}) {
      std::vector<float> values = x.host;
      values[count - 1] = bad;
      z.write(values);
      EXPECT_FALSE(device_->all_finite(z.device()));
    }
  }
}

TEST_P(SliceMathTwins, TheVoteAndWhatTablesChooseAreLeftToTheHost) {
  for (const UpdateKind kind :
       {UpdateKind::kSign, UpdateKind::kSignEf, UpdateKind::kTernary, UpdateKind::kDgc, UpdateKind::kSketch}) {
    const auto codec = make_update_codec({.kind = kind});
    EXPECT_FALSE(device_->takes(*codec));
    EXPECT_TRUE(host_.takes(*codec));
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, SliceMathTwins,
                         testing::Values(UpdateKind::kFp32, UpdateKind::kBf16, UpdateKind::kTopk, UpdateKind::kTopkBf16,
                                         UpdateKind::kTopkInt8, UpdateKind::kInt8, UpdateKind::kInt4),
                         [](const auto& info) { return std::string(update_name(info.param)); });

}  // namespace
}  // namespace starling
