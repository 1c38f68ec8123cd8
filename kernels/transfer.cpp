#include "kernels/transfer.h"

#include <cstring>

#include "kernels/check.h"
#include "kernels/vector_ops.h"
#ifdef STARLING_CUDA
#include "kernels/cuda/device.h"
#include "kernels/cuda/vector_ops.h"
#endif

namespace starling {
namespace {

// `over_bus`: one of the two, or both, lies on a device.
void copy(void* to, const void* from, size_t count, bool over_bus) {
  if (count == 0) return;
  if (!over_bus) {
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

HostValues::HostValues(ConstView view) : all_(view.data, view.count) {
  if (view.space == MemorySpace::kHost) return;
  copied_.resize(view.count);
  copy_to_host(view, copied_.data());
  all_ = copied_;
}

struct FloatMemory::Memory {
  std::vector<float> host;
#ifdef STARLING_CUDA
  cuda::Buffer device{cuda::BufferKind::kDevice}, pinned{cuda::BufferKind::kPinnedHost};
#endif
};

FloatMemory::FloatMemory(MemorySpace space, size_t count, Place place) : memory_(std::make_unique<Memory>()) {
  const size_t bytes = count * sizeof(float);
  if (space == MemorySpace::kHost || count == 0) {
    memory_->host.resize(count);
    view_ = {memory_->host.data(), count, place == Place::kThere ? space : MemorySpace::kHost};
    return;
  }
#ifdef STARLING_CUDA
  if (place == Place::kStaging) {
    view_ = {reinterpret_cast<float*>(memory_->pinned.reserve(bytes)), count, MemorySpace::kHost};
    std::memset(view_.data, 0, bytes);
  } else {
    view_ = {reinterpret_cast<float*>(memory_->device.reserve(bytes)), count, space};
    const cuda::Stream stream;
    cuda::zero_async(view_.data, bytes, stream.handle());
    stream.wait();
  }
#else
  STARLING_CHECK(!"params on a GPU in a build without CUDA");
  (void)bytes;
#endif
}

FloatMemory::~FloatMemory() = default;

size_t free_device_bytes() {
#ifdef STARLING_CUDA
  return cuda::free_bytes();
#else
  STARLING_CHECK(!"params on a GPU in a build without CUDA");
  return 0;
#endif
}

void copy_to_host(ConstView view, float* host) { copy(host, view.data, view.count, view.space == MemorySpace::kCuda); }

void copy_from_host(const void* host, View view) {
  copy(view.data, host, view.count, view.space == MemorySpace::kCuda);
}

void copy(ConstView from, View to) {
  STARLING_CHECK(from.count == to.count);
  copy(to.data, from.data, to.count, from.space == MemorySpace::kCuda || to.space == MemorySpace::kCuda);
}

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
