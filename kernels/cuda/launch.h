// What plain C++ cannot say, for nvcc and for the emulation of tests/support/cuda_emulation alike. Kernels use this
// instead of <<<>>> and __shared__, so that they compile without nvcc too.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <type_traits>

#include "kernels/cuda/device.h"

namespace starling::cuda {

// Puts `kernel` on `stream`, a cudaStream_t. Throws DeviceFailure that begins with `name` if CUDA refuses it.
template <typename... Params>
void launch(const char* name, void (*kernel)(Params...), int blocks, int threads, size_t dynamic_bytes, void* stream,
            std::type_identity_t<Params>... params) {
#ifdef __CUDACC__
  kernel<<<blocks, threads, dynamic_bytes, static_cast<cudaStream_t>(stream)>>>(params...);
#else
  emulation::launch(name, kernel, dim3(static_cast<unsigned>(blocks)), dim3(static_cast<unsigned>(threads)),
                    dynamic_bytes, static_cast<cudaStream_t>(stream), params...);
#endif
  check_launch(name);
}

}  // namespace starling::cuda

// SHARED_ARRAY(double, sums, kThreads): an array that the threads of a block share; its values begin undefined.
// NO_UNROLL for (...): a loop of few steps, which would only take registers side by side.
// DYNAMIC_SHARED(double, sums): the same as an array, of the `dynamic_bytes` of the launch; one a kernel.
#ifdef __CUDACC__
#define SHARED_ARRAY(type, name, count) __shared__ type name[count]
#define NO_UNROLL _Pragma("unroll 1")
#define DYNAMIC_SHARED(type, name)                                         \
  extern __shared__ __align__(16) unsigned char starling_dynamic_shared[]; \
  type* const name = reinterpret_cast<type*>(starling_dynamic_shared)
#else
#define SHARED_ARRAY(type, name, count)                                            \
  static const char name##_key = 0; /* its address tells one array from another */ \
  auto& name = *static_cast<type(*)[count]>(emulation::shared_array(&name##_key, sizeof(type) * (count)))
#define NO_UNROLL
#define DYNAMIC_SHARED(type, name) type* const name = static_cast<type*>(emulation::dynamic_shared())
#endif
