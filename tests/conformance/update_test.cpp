#include "tests/conformance/update_suite.h"

#include "compression/outer_rule.h"
#include "tests/kernels/targets.h"

namespace starling {
namespace {

INSTANTIATE_TEST_SUITE_P(All, UpdateSuite, testing::ValuesIn(every_update()), update_case_name);

// Two members of a group need not have the same processor.
class UpdateOnEveryTarget : public UpdateSuite {};

TEST_P(UpdateOnEveryTarget, SamePayloadSameSumSameReplica) {
  TestRng rng(draw_rng_seed());
  const OuterRule nesterov{.momentum = 0.9f, .rate = 0.7f};
  for (size_t count : kUpdateSizes) {
    const std::vector<float> x = normal_vector(rng, count, 1.0f), y = normal_vector(rng, count, 0.3f);
    const std::vector<float> zeros(count);
    const auto run = [&] {
      const Payload payload = encode(x), entry = encode(y, UpdateRole::kEntry);
      const UpdateTerm terms[] = {{codec_.get(), 0.37f, payload}, {codec_.get(), 0.11f, entry}};
      std::vector<float> sum(count), left = x, params = x, momentum = y;
      codec_->merge(terms, sum);
      settle(0.3f, payload, codec_->support(entry), left);
      OuterReach reach;
      EXPECT_TRUE(apply_entry(nesterov, *codec_, 0.9f, entry, codec_->norm(entry), params, momentum, &reach));
      return std::tuple(payload, entry, bits_of(sum), bits_of(left), bits_of(params), bits_of(momentum),
                        codec_->norm(payload));
    };
    const auto expected = run();
    for_each_target([&] { EXPECT_EQ(run(), expected) << count; });
  }
}

INSTANTIATE_TEST_SUITE_P(All, UpdateOnEveryTarget, testing::ValuesIn(every_update()), update_case_name);

}  // namespace
}  // namespace starling
