#include "fiber.h"

#include <sys/mman.h>

#include <cstdlib>

#ifdef EMULATION_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef EMULATION_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace emulation {
namespace {

constexpr size_t kPage = 4096;
uint64_t switches = 0;

#ifdef __x86_64__
// Saves what the calling convention wants kept, and goes on where `load` was saved. ucontext would call the kernel for
// the signal mask, which makes a switch seven times as slow.
__attribute__((naked, noinline)) void exchange_stacks(void** /*save: rdi*/, void* /*load: rsi*/) {
  asm(R"(
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
  )");
}
constexpr int kSavedRegisters = 6;
#endif

}  // namespace

void give_stack(Fiber& fiber) {
  void* const base = mmap(nullptr, kPage + Fiber::kStackBytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED || mprotect(base, kPage, PROT_NONE) != 0) std::abort();
  fiber.stack = static_cast<char*>(base) + kPage;
  fiber.stack_bytes = Fiber::kStackBytes;
#ifdef EMULATION_TSAN
  fiber.sanitizer_thread = __tsan_create_fiber(0);
#endif
}

void forget([[maybe_unused]] Fiber& fiber) {
#ifdef EMULATION_TSAN
  __tsan_destroy_fiber(fiber.sanitizer_thread);
  fiber.sanitizer_thread = __tsan_create_fiber(0);
#endif
}

void restart(Fiber& fiber, void (*entry)()) {
#ifdef EMULATION_ASAN
  __asan_unpoison_memory_region(fiber.stack, fiber.stack_bytes);
#endif
#ifdef __x86_64__
  auto** top = reinterpret_cast<void**>(fiber.stack + fiber.stack_bytes);
  *--top = nullptr;  // as after a call: the stack pointer is 8 below a multiple of 16
  *--top = reinterpret_cast<void*>(entry);
  for (int i = 0; i < kSavedRegisters; ++i) *--top = nullptr;
  fiber.stack_pointer = top;
#else
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack;
  fiber.context.uc_stack.ss_size = fiber.stack_bytes;
  makecontext(&fiber.context, entry, 0);
#endif
}

void begun_fiber([[maybe_unused]] Fiber& own, [[maybe_unused]] Fiber& scheduler) {
#ifdef EMULATION_ASAN
  const void* lowest = nullptr;
  size_t bytes = 0;
  __sanitizer_finish_switch_fiber(own.sanitizer_stack, &lowest, &bytes);
  if (scheduler.stack == nullptr) {
    scheduler.stack = static_cast<char*>(const_cast<void*>(lowest));
    scheduler.stack_bytes = bytes;
  }
#endif
}

void adopt_thread(Fiber& fiber) {
  fiber = {};  // the first fiber that begins tells where this stack lies
#ifdef EMULATION_TSAN
  fiber.sanitizer_thread = __tsan_get_current_fiber();
#endif
}

void switch_fiber([[maybe_unused]] Fiber& from, Fiber& to) {
  ++switches;
#ifdef EMULATION_ASAN
  __sanitizer_start_switch_fiber(&from.sanitizer_stack, to.stack, to.stack_bytes);
#endif
#ifdef EMULATION_TSAN
  __tsan_switch_to_fiber(to.sanitizer_thread, __tsan_switch_to_fiber_no_sync);
#endif
#ifdef __x86_64__
  exchange_stacks(&from.stack_pointer, to.stack_pointer);
#else
  swapcontext(&from.context, &to.context);
#endif
#ifdef EMULATION_ASAN
  __sanitizer_finish_switch_fiber(from.sanitizer_stack, nullptr, nullptr);
#endif
}

uint64_t fiber_switches() { return switches; }

}  // namespace emulation
