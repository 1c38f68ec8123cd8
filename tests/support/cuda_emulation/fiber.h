// A CUDA thread under emulation: a stack of its own, left and entered by hand. Compiled without ThreadSanitizer,
// which is told of each switch, so that it takes every fiber for a thread of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#ifndef __x86_64__
#include <ucontext.h>
#endif

namespace emulation {

struct Fiber {
  static constexpr size_t kStackBytes = 128 << 10;

#ifdef __x86_64__
  void* stack_pointer = nullptr;
#else
  ucontext_t context;
#endif
  char* stack = nullptr;  // lowest address
  size_t stack_bytes = 0;
  void* sanitizer_thread = nullptr;  // ThreadSanitizer's name of this fiber
  void* sanitizer_stack = nullptr;   // AddressSanitizer's copy of the locals; kept, since making one takes a mapping
};

// A stack with a guard page below it. It is never given back: fibers are kept for the next block.
void give_stack(Fiber& fiber);
// After a grid was given up: what stood on the stack is forgotten, by ThreadSanitizer too.
void forget(Fiber& fiber);
// The next switch to `fiber` begins `entry` on an empty stack. `entry` calls begun_fiber() first and never returns.
void restart(Fiber& fiber, void (*entry)());
void begun_fiber(Fiber& own, Fiber& scheduler);
// The calling OS thread's own stack becomes a fiber, to be switched back to.
void adopt_thread(Fiber& fiber);
void switch_fiber(Fiber& from, Fiber& to);

uint64_t fiber_switches();  // so far

}  // namespace emulation
