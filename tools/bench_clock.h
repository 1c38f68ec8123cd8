// What the benches of loops share: clocks, the choice of an instruction set, and what a goal was missed or met by.
#pragma once

#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <vector>

#include "hwy/highway.h"

namespace starling {

// Keeps a result alive without a store that costs anything.
template <typename T>
void keep(const T& value) {
  asm volatile("" : : "r"(&value) : "memory");
}

inline double thread_clock() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Of this thread on a processor: what other processes take is not counted, but for the memory's speed.
template <class Body>
double thread_seconds(const Body& body) {
  const double start = thread_clock();
  body();
  return thread_clock() - start;
}

// The fastest of `repeats` runs: what disturbs a run only ever slows it. Every loop runs on one thread, this one.
template <class Body>
double best_seconds(int repeats, const Body& body) {
  double best = 1e30;
  for (int i = 0; i < repeats; ++i) best = std::min(best, thread_seconds(body));
  return best;
}

// Two things in turn, so that a disturbed machine disturbs both: the fastest run of each.
struct Beside {
  double ours = 1e30, theirs = 1e30;
  template <class Ours, class Theirs>
  void run(const Ours& our_body, const Theirs& their_body) {
    ours = std::min(ours, thread_seconds(our_body));
    theirs = std::min(theirs, thread_seconds(their_body));
  }
  double ratio() const { return theirs / ours; }
};

inline const char* met(bool good) { return good ? "met" : "MISSED"; }

// The C library's search for a byte that is not there: as fast as this core reads.
inline double read_seconds(const std::vector<float>& zeros, int repeats) {
  return best_seconds(repeats, [&] { keep(std::memchr(zeros.data(), 1, 4 * zeros.size())); });
}
inline double copy_seconds(const std::vector<float>& from, std::vector<float>& to, int repeats) {
  return best_seconds(repeats, [&] {
    std::memcpy(to.data(), from.data(), 4 * from.size());
    keep(to[0]);
  });
}

// "avx2": the loops run as on a processor without AVX-512. False: this machine has no such instruction set.
inline bool use_target(std::string_view name) {
  if (name.empty()) return true;
  if (name != "avx2" || (hwy::SupportedTargets() & HWY_AVX2) == 0) return false;
  hwy::SetSupportedTargetsForTest(HWY_AVX2);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  return true;
}

// Takes "--target NAME" out of the arguments. False: there is no such instruction set here.
inline bool take_target(int* argc, char** argv) {
  for (int i = 1; i + 1 < *argc; ++i) {
    if (std::string_view(argv[i]) != "--target") continue;
    if (!use_target(argv[i + 1])) return false;
    std::copy(argv + i + 2, argv + *argc, argv + i);
    *argc -= 2;
    break;
  }
  std::printf("instruction set of the loops: %s\n",
              hwy::TargetName(hwy::SupportedTargets() & (-hwy::SupportedTargets())));
  return true;
}

}  // namespace starling
