#include "kernels/transfer.h"

#include <cstring>
#include <vector>

#include "kernels/check.h"
#include "kernels/vector_ops.h"
#ifdef STARLING_CUDA
#include "kernels/cuda/device.h"
#include "kernels/cuda/vector_ops.h"
#endif

namespace starling {
namespace {

void copy(void* to, const void* from, size_t count, MemorySpace space) {
  if (count == 0) return;
  if (space == MemorySpace::kHost) {
    std::memcpy(to, from, count * sizeof(float));
    return;
  }
#ifdef STARLING_CUDA
  const cuda::Stream stream;
  cuda::copy_async(to, from, count * sizeof(float), stream.handle());
  stream.wait();
#else
  STARLING_CHECK(!"params on a GPU in a build without CUDA");
#endif
}

}  // namespace

void copy_to_host(ConstView view, float* host) { copy(host, view.data, view.count, view.space); }

void copy_from_host(const void* host, View view) { copy(view.data, host, view.count, view.space); }

double squared_norm(ConstView view) {
  if (view.space == MemorySpace::kHost) return squared_norm(view.data, view.count);
#ifdef STARLING_CUDA
  const cuda::Stream stream;
  cuda::Buffer scratch(cuda::BufferKind::kDevice);
  auto* doubles = reinterpret_cast<double*>(scratch.reserve((kSumScratchDoubles + 1) * sizeof(double)));
  squared_norm_cuda(view.data, view.count, doubles + 1, doubles, stream.handle());
  double result = 0;
  cuda::copy_async(&result, doubles, sizeof result, stream.handle());
  stream.wait();
  return result;
#else
  STARLING_CHECK(!"params on a GPU in a build without CUDA");
#endif
}

}  // namespace starling
