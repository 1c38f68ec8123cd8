#include "tests/conformance/codec_suite.h"

#include "tests/conformance/sparse_codec.h"
#include "tests/kernels/targets.h"

namespace starling {
namespace {

CodecCase host_case(CodecKind kind) {
  return {std::string(codec_name(kind)), MemorySpace::kHost, [kind] { return make_codec(kind, MemorySpace::kHost); },
          [](std::vector<float> x) { return std::make_unique<HostParams>(std::move(x)); }};
}

CodecCase sparse_case() {
  return {"sparse", MemorySpace::kHost, [] { return std::make_unique<SparseCodec>(); },
          [](std::vector<float> x) { return std::make_unique<HostParams>(std::move(x)); }};
}

INSTANTIATE_TEST_SUITE_P(Host, CodecSuite, testing::ValuesIn(every_codec(host_case)), case_name);
INSTANTIATE_TEST_SUITE_P(Fake, CodecSuite, testing::Values(sparse_case()), case_name);

// Two machines in one swarm need not have the same processor.
class CodecOnEveryTarget : public CodecSuite {};

TEST_P(CodecOnEveryTarget, SamePayloadSameVerdictSameParams) {
  TestRng rng(draw_rng_seed());
  for (size_t count : kCodecSizes) {
    std::vector<float> a = normal_vector(rng, count, 1.0f), b = normal_vector(rng, count, 0.7f);
    if (count > 0) a[0] = b[0] = 1.5f;  // large enough for these steps
    const Payload own = encode(a, -5);
    const Payload peer = encode(b, -4);
    PairStats stats;
    const PairStatus status = codec_->pair(own, peer, count, &stats);
    const std::vector<float> x = apply(0.37f, own, peer, a);
    const Payload fresh = encode(a);
    for_each_target([&] {
      EXPECT_EQ(encode(a), fresh);
      EXPECT_EQ(encode(a, -5), own);
      EXPECT_EQ(encode(b, -4), peer);
      EXPECT_EQ(codec_->check(peer, count), PayloadStatus::kOk);
      PairStats here;
      EXPECT_EQ(codec_->pair(own, peer, count, &here), status);
      EXPECT_EQ(here.squared_distance, stats.squared_distance);
      EXPECT_EQ(here.max_abs_difference, stats.max_abs_difference);
      EXPECT_EQ(bits_of(apply(0.37f, own, peer, a)), bits_of(x));
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Host, CodecOnEveryTarget, testing::ValuesIn(every_codec(host_case)), case_name);

}  // namespace
}  // namespace starling
