// From the kind of a codec to the codec: the one place that includes all of them.
#include <string>
#include <utility>

#include "compression/codec.h"
#include "compression/dense.h"
#include "compression/modulo.h"
#include "compression/slice_math.h"
#include "compression/update_codec.h"
#include "compression/update_dense.h"
#include "compression/update_dgc.h"
#include "compression/update_levels.h"
#include "compression/update_sketch.h"
#include "compression/update_topk.h"
#ifdef STARLING_CUDA
#include "compression/codec_cuda.h"
#include "compression/slice_math_cuda.h"
#endif
#include "kernels/check.h"
#include "kernels/device_failure.h"

namespace starling {
namespace {

[[maybe_unused]] constexpr const char* kNoCuda =
    "params on a GPU need a build with CUDA, and this one has none; build with -Dcuda=enabled (nvcc needed), or train "
    "on the CPU";

std::unique_ptr<Codec> make_host_codec(CodecKind kind) {
  switch (kind) {
    case CodecKind::kFp32: return std::make_unique<Fp32Codec>();
    case CodecKind::kBf16: return std::make_unique<Bf16Codec>();
    case CodecKind::kFp16: return std::make_unique<Fp16Codec>();
    case CodecKind::kModulo8: return std::make_unique<Modulo8Codec>();
    case CodecKind::kModulo4: return std::make_unique<Modulo4Codec>();
  }
  STARLING_CHECK(!"a codec kind that parse_codec does not know");
  return nullptr;
}

}  // namespace

std::unique_ptr<Codec> make_codec(CodecKind kind, MemorySpace space) {
  std::unique_ptr<Codec> host = make_host_codec(kind);
  if (space == MemorySpace::kHost) return host;
#ifdef STARLING_CUDA
  return make_cuda_codec(std::move(host));
#else
  throw DeviceFailure("codec " + std::string(codec_name(kind)) + ": " + kNoCuda);
#endif
}

std::unique_ptr<SliceMath> make_slice_math(MemorySpace space) {
  if (space == MemorySpace::kHost) return std::make_unique<SliceMath>();
#ifdef STARLING_CUDA
  return make_cuda_slice_math();
#else
  throw DeviceFailure(std::string("shared updates: ") + kNoCuda);
#endif
}

std::unique_ptr<UpdateCodec> make_update_codec(const UpdateOptions& options) {
  STARLING_CHECK(options.density > 0 && options.density <= 1 && options.reply >= 1);
  STARLING_CHECK(options.table > 0 && options.table <= 1 && options.candidates >= 1);
  STARLING_CHECK(momentum_of(options) >= 0 && momentum_of(options) < 1 && options.clip >= 0);
  switch (options.kind) {
    case UpdateKind::kFp32: return std::make_unique<DenseUpdate<Fp32Values>>(options.kind);
    case UpdateKind::kBf16: return std::make_unique<DenseUpdate<Bf16Values>>(options.kind);
    case UpdateKind::kTopk: return std::make_unique<TopkUpdate<PlainValues<Fp32Values>>>(options);
    case UpdateKind::kTopkBf16: return std::make_unique<TopkUpdate<PlainValues<Bf16Values>>>(options);
    case UpdateKind::kTopkInt8: return std::make_unique<TopkUpdate<Int8Values>>(options);
    case UpdateKind::kDgc: return std::make_unique<DgcUpdate>(options);
    case UpdateKind::kSketch: return std::make_unique<SketchUpdate>(options);
    case UpdateKind::kInt8:
    case UpdateKind::kInt4:
    case UpdateKind::kSign:
    case UpdateKind::kSignEf:
    case UpdateKind::kTernary: return make_level_update(options);
  }
  STARLING_CHECK(!"an update kind that parse_update does not know");
  return nullptr;
}

}  // namespace starling
