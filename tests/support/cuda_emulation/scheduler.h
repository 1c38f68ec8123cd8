// Runs the threads of a grid, block after block, and knows what each of them waits for. Between cuda_runtime.h, which
// kernels see, and the host's half.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <string>

#include "cuda_runtime_api.h"

struct uint3 { unsigned x, y, z; };
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned in_x = 1, unsigned in_y = 1, unsigned in_z = 1) : x(in_x), y(in_y), z(in_z) {}
  size_t count() const { return size_t{x} * y * z; }
};

namespace emulation {

// Where a kernel waits. clang 14 has no std::source_location.
struct Site {
  const char* file = "";
  int line = 0;
  static constexpr Site current(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

struct Launch {
  const char* name;
  dim3 grid, block;
  size_t dynamic_bytes;
  std::function<void()> thread;  // what each thread runs
};

// Runs the whole grid in an order that `rng` draws. Returns what went wrong: kernel, block, thread and who waits where.
// Empty: nothing did. One grid at a time.
std::string run_grid(const Launch& launch, std::mt19937_64& rng);

// What one thread asks for, called by kernels through cuda_runtime.h.
enum class Vote : uint8_t { kNone, kOr, kAnd, kCount };
int sync_block(Vote vote, int predicate, Site site);
// `value` goes in; out comes that of lane `source`, or what the operation makes of all values of `mask`.
enum class WarpOp : uint8_t { kShuffle, kBallot, kAdd, kMin, kMax, kOr, kAnd, kXor, kSync };
uint64_t warp_op(WarpOp op, uint32_t mask, uint64_t value, int source, Site site);
int lane();
// The running block's own array, made at the first call with this key; fresh ones hold 0xFF: NaN as a float.
void* shared_array(const void* key, size_t bytes);
void* dynamic_shared();

}  // namespace emulation
