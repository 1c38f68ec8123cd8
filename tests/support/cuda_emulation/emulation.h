// What a test may ask of the emulated GPU, and do to it. Call reset() between such tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "cuda_runtime_api.h"

namespace emulation {

struct Machine {
  int devices = 1;
  size_t memory_bytes = size_t{8} << 30;  // of all devices together
  bool pinned = true;                     // whether there is memory for it
  cudaError_t driver = cudaSuccess;       // what asking for devices says: cudaErrorInsufficientDriver, ...
  int64_t work_until_loss = -1;           // so many more kernels and copies run, then the GPU is gone; -1: never
};
inline Machine machine;

// As a new process finds it: no error, no work waiting, this machine. Memory and streams stay their owners'.
void reset(const Machine& now = {});

// The order of threads, blocks and streams from here on. Without it a fresh seed is drawn, and printed with the first
// launch; the variable STARLING_CUDA_ORDER names one.
void seed_order(uint64_t seed);

size_t memory_in_use();     // bytes of device memory
uint64_t bytes_over_bus();  // copied between host and device memory, so far
uint64_t waits();           // for all that a stream holds, so far
uint64_t fiber_switches();  // so far

}  // namespace emulation
