#include "compression/codec_cuda.h"

#include <utility>

#include "kernels/cuda/device.h"
#include "tests/conformance/codec_suite.h"

namespace starling {
namespace {

// Eight bytes into its allocation, as a block inside a larger vector is.
class CudaParams final : public ParamsHolder {
 public:
  explicit CudaParams(const std::vector<float>& values) : count_(values.size()) {
    data_ = reinterpret_cast<float*>(buffer_.reserve((count_ + 2) * sizeof(float))) + 2;
    cuda::copy_async(data_, values.data(), count_ * sizeof(float), stream_.handle());
    stream_.wait();
  }
  View view() override { return {data_, count_, MemorySpace::kCuda}; }
  std::vector<float> values() override {
    std::vector<float> values(count_);
    cuda::copy_async(values.data(), data_, count_ * sizeof(float), stream_.handle());
    stream_.wait();
    return values;
  }

 private:
  cuda::Stream stream_;
  cuda::Buffer buffer_{cuda::BufferKind::kDevice};
  float* data_ = nullptr;
  size_t count_;
};

CodecCase cuda_case(CodecKind kind) {
  return {std::string(codec_name(kind)), MemorySpace::kCuda, [kind] { return make_codec(kind, MemorySpace::kCuda); },
          [](std::vector<float> x) { return std::make_unique<CudaParams>(x); },
          [] { return cuda::device_count() > 0; }};
}

std::vector<CodecCase> every_twin() {
  std::vector<CodecCase> cases;
  for (const CodecName& codec : codec_names()) {
    if (has_cuda_twin(codec.kind)) cases.push_back(cuda_case(codec.kind));
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Cuda, CodecSuite, testing::ValuesIn(every_twin()), case_name);

// One agent on a GPU, its peer on a CPU: the payloads and the params must not tell which.
class CodecTwins : public CodecSuite {};

TEST_P(CodecTwins, SamePayloadAndSameParamsAsOnTheHost) {
  TestRng rng(draw_rng_seed());
  const std::unique_ptr<Codec> host = make_codec(codec_->kind(), MemorySpace::kHost);
  for (size_t count : kCodecSizes) {
    std::vector<float> a = normal_vector(rng, count, 1.0f), b = normal_vector(rng, count, 0.7f);
    if (count > 0) a[0] = b[0] = 1.5f;           // large enough for these steps
    for (int exponent : {-128, -60, -5, 100}) {  // -128: none; -60: must be raised; 100: lowered
      Payload expected(host->payload_bytes_max(count));
      const std::unique_ptr<CodecMemory> remembered = memory(count, exponent);
      const EncodeContext context{.memory = remembered.get()};
      ASSERT_EQ(host->encode({a.data(), count, MemorySpace::kHost}, context, expected), expected.size());
      EXPECT_EQ(encode(a, exponent), expected) << count;
    }
    const Payload own = encode(a, -5);
    const Payload peer = encode(b, -4);
    const std::vector<float> on_gpu = apply(0.37f, own, peer, a);
    host->apply(0.37f, own, peer, {a.data(), count, MemorySpace::kHost});
    EXPECT_EQ(bits_of(on_gpu), bits_of(a)) << count;
  }
}

TEST_P(CodecTwins, TermsThatDoNotFitAtOnceAreAddedInPortions) {
  const size_t before = std::exchange(cuda_term_bytes_max, 5000);
  expect_pass_as_one_by_one();
  cuda_term_bytes_max = before;
}

INSTANTIATE_TEST_SUITE_P(Cuda, CodecTwins, testing::ValuesIn(every_twin()), case_name);

}  // namespace
}  // namespace starling
