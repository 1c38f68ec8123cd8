#include "scheduler.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <numeric>
#include <vector>

#include "cuda_runtime.h"
#include "fiber.h"

#ifdef EMULATION_ASAN
#include <sanitizer/asan_interface.h>
#endif
#ifdef EMULATION_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace emulation {
namespace {

enum class State : uint8_t { kFresh, kReady, kAtBarrier, kAtWarpOp, kDone };

struct Thread : Fiber {
  int number = 0;  // within its block
  uint3 index{};   // the same as threadIdx
  State state = State::kFresh;
  Site site;  // of the wait
  Vote vote{};
  int predicate = 0;
  WarpOp op{};
  uint32_t mask = 0;
  int source = 0;
  uint64_t value = 0, result = 0;
  char sync_token = 0;  // released at each __syncwarp
};

struct SharedArray {
  const void* key;
  char* data;
};

// ---- The grid that runs now. Kernels reach it through free functions, so it cannot be anything but global.
const Launch* grid = nullptr;
Fiber scheduler;
std::vector<Thread*>& pool = *new std::vector<Thread*>;  // never given back; reachable, so no leak to report
std::vector<Thread*> threads;                            // of the running block, by number
const std::vector<int>* order = nullptr;                 // in which the running block's threads take turns
size_t turn = 0;                                         // of this round: how many were passed
Thread* current = nullptr;
std::string failure;

// What ThreadSanitizer is told of: whoever releases a token happens before whoever acquires it later.
char launch_token, end_token, barrier_tokens[4];
unsigned barrier_round = 0;
// ThreadSanitizer tells blocks of a launch apart by their fibers and tokens: each has others than the block before it,
// so nothing orders the two. Without it one set does for all.
#ifdef EMULATION_TSAN
constexpr size_t kFiberSets = 2;
#else
constexpr size_t kFiberSets = 1;
#endif
size_t fiber_set = 0;  // of the running block

void release([[maybe_unused]] char* token) {
#ifdef EMULATION_TSAN
  __tsan_release(token);
#endif
}
void acquire([[maybe_unused]] char* token) {
#ifdef EMULATION_TSAN
  __tsan_acquire(token);
#endif
}

// ---- Words for what went wrong.
std::string place(const Site& site) {
  const std::string file = site.file;
  return file.substr(file.rfind('/') + 1) + ":" + std::to_string(site.line);
}
std::string hex(uint32_t mask) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%08x", mask);
  return text;
}
std::string block_name() {
  std::string name = std::to_string(blockIdx.x);
  if (grid->grid.y * grid->grid.z > 1) name += "," + std::to_string(blockIdx.y) + "," + std::to_string(blockIdx.z);
  return "kernel " + std::string(grid->name) + ", block " + name;
}

// What a thread did wrong, put into words by the scheduler: strings made on a fiber may be std::string's copies from a
// file that ThreadSanitizer watches, and it would take them for the kernel's own.
enum class Misuse : uint8_t { kNone, kOutsideOwnMask, kMissingLanes, kForeignSource };
struct Fault {
  Misuse misuse = Misuse::kNone;
  const Thread* thread = nullptr;
  uint32_t mask = 0;
  unsigned source = 0;
};
Fault fault;

std::string words(const Fault& of) {
  const std::string mask = hex(of.mask);
  switch (of.misuse) {
    case Misuse::kNone: break;
    case Misuse::kOutsideOwnMask: return "is not in the mask " + mask + " of its own warp operation";
    case Misuse::kMissingLanes: return "names lanes in the mask " + mask + " that its warp does not have";
    case Misuse::kForeignSource:
      return "shuffles from lane " + std::to_string(of.source) + ", which is not in its mask " + mask + ",";
  }
  return "";
}
void fail(const std::string& what) {
  if (failure.empty()) failure = block_name() + what;
}
void fail(const Thread& thread, const std::string& what) {
  fail(", thread " + std::to_string(thread.number) + " " + what + " at " + place(thread.site));
}

// ---- Shared memory: an arena with gaps, which AddressSanitizer keeps closed.
constexpr size_t kArenaBytes = size_t{1} << 30;  // of addresses; only what is touched costs memory
constexpr size_t kGapBytes = 64;
char* arena = nullptr;
size_t arena_used = 0;
std::array<SharedArray, 64> shared_arrays;  // a vector's copies would count as the kernel's, as strings would
size_t shared_array_count = 0;
void* dynamic_array = nullptr;

char* take_arena(size_t bytes) {
  const size_t rounded = (bytes + 15) / 16 * 16;
  if (arena_used + rounded + 2 * kGapBytes > kArenaBytes) std::abort();
  char* const data = arena + arena_used + kGapBytes;
  arena_used += rounded + kGapBytes;
#ifdef EMULATION_ASAN
  __asan_poison_memory_region(data - kGapBytes, rounded + 2 * kGapBytes);
  __asan_unpoison_memory_region(data, bytes);
#endif
  volatile char* const poisoned = data;  // memset() would count as a write by the thread that runs
  for (size_t i = 0; i < bytes; ++i) poisoned[i] = static_cast<char>(0xFF);
  return data;
}

// ---- Waiting.
void enter();

// Who goes on in this round after the threads that had their turn; null: nobody.
Thread* next_thread() {
  while (turn < order->size()) {
    Thread& thread = *threads[static_cast<size_t>((*order)[turn++])];
    if (thread.state == State::kFresh || thread.state == State::kReady) return &thread;
  }
  return nullptr;
}

void go_on_with(Fiber& from, Thread& thread) {
  if (thread.state == State::kFresh) restart(thread, &enter);
  thread.state = State::kReady;
  current = &thread;
  threadIdx = thread.index;
  switch_fiber(from, thread);
}

// Leaves this thread to the next one, or to the scheduler at the end of a round.
void wait(Thread& thread) {
  if (Thread* const next = next_thread())
    go_on_with(thread, *next);
  else
    switch_fiber(thread, scheduler);
}

void enter() {
  begun_fiber(*current, scheduler);
  acquire(&launch_token);
  grid->thread();
  release(&end_token);
  current->state = State::kDone;
  wait(*current);
  std::abort();
}

// Gives the grid up from inside a kernel: its fibers are left where they stand.
[[noreturn]] void give_up(const Fault& now) {
  fault = now;
  switch_fiber(*current, scheduler);
  std::abort();
}

// A thread of a grid that was given up: what it did so far still comes before what follows the launch. (To release at
// each wait would be most of ThreadSanitizer's time.)
void end_here([[maybe_unused]] Thread& thread) {
#ifdef EMULATION_TSAN
  __tsan_switch_to_fiber(thread.sanitizer_thread, __tsan_switch_to_fiber_no_sync);
  release(&end_token);
  __tsan_switch_to_fiber(scheduler.sanitizer_thread, __tsan_switch_to_fiber_no_sync);
#endif
  forget(thread);
}

uint32_t lanes_of(const Thread& thread) {
  const size_t lanes = std::min<size_t>(32, threads.size() - static_cast<size_t>(thread.number / 32 * 32));
  return lanes == 32 ? 0xFFFFFFFFu : (1u << lanes) - 1u;
}

template <typename F>
void each_lane(const Thread& of, F visit) {
  const auto first = static_cast<size_t>(of.number / 32 * 32);
  for (size_t i = 0; i < 32; ++i) {
    if (of.mask >> i & 1) visit(i, *threads[first + i]);
  }
}

uint64_t folded(const Thread& of) {
  if (of.op == WarpOp::kShuffle || of.op == WarpOp::kSync) return 0;
  uint64_t result = of.op == WarpOp::kAnd || of.op == WarpOp::kMin ? ~uint64_t{0} : 0;
  each_lane(of, [&](size_t lane, const Thread& peer) {
    switch (of.op) {
      case WarpOp::kBallot: result |= peer.value << lane; break;
      case WarpOp::kAdd: result += peer.value; break;
      case WarpOp::kMin: result = std::min(result, peer.value); break;
      case WarpOp::kMax: result = std::max(result, peer.value); break;
      case WarpOp::kOr: result |= peer.value; break;
      case WarpOp::kAnd: result &= peer.value; break;
      case WarpOp::kXor: result ^= peer.value; break;
      case WarpOp::kShuffle:
      case WarpOp::kSync: break;
    }
  });
  return result;
}

// Whether every lane of the mask waits at this operation. Each lane that comes asks, so the first missing one ends it.
bool all_at_warp_op(const Thread& last) {
  const auto first = static_cast<size_t>(last.number / 32 * 32);
  for (size_t i = 0; i < 32; ++i) {
    if (!(last.mask >> i & 1)) continue;
    const Thread& peer = *threads[first + i];
    if (peer.state != State::kAtWarpOp || peer.mask != last.mask || peer.op != last.op ||
        peer.site.line != last.site.line) {
      return false;
    }
  }
  return true;
}

// Serves a warp operation once every lane of its mask has come to it.
void complete_warp_op(const Thread& last) {
  if (!all_at_warp_op(last)) return;
  const uint64_t fold = folded(last);
  const auto first = static_cast<size_t>(last.number / 32 * 32);
  each_lane(last, [&](size_t, Thread& peer) {
    peer.result = fold;
    if (last.op != WarpOp::kShuffle) return;
    const auto source = static_cast<unsigned>(peer.source) % 32;
    if (!(last.mask >> source & 1)) give_up({Misuse::kForeignSource, &peer, last.mask, source});
    peer.result = threads[first + source]->value;
  });
  each_lane(last, [&](size_t, Thread& peer) { peer.state = State::kReady; });
}

// Every thread of the block is at a barrier: the same one, or the kernel is wrong.
void complete_barrier() {
  int yes = 0;
  for (const Thread* thread : threads) {
    const Thread& first = *threads.front();
    if (thread->site.line != first.site.line || thread->vote != first.vote) {
      return fail(*thread, "waits at another barrier than thread 0, which waits at " + place(first.site) + ",");
    }
    yes += thread->predicate != 0;
  }
  const int all = static_cast<int>(threads.size());
  for (Thread* thread : threads) {
    thread->result = static_cast<uint64_t>(thread->vote == Vote::kOr    ? yes > 0
                                           : thread->vote == Vote::kAnd ? yes == all
                                                                        : yes);
    thread->state = State::kReady;
  }
  ++barrier_round;
}

// Nobody can go on. Volta and later let the threads that ended count as arrived; CUDA's rules do not.
void fail_stuck() {
  std::map<std::string, int> groups;
  for (const Thread* thread : threads) {
    if (thread->state == State::kDone) ++groups["have ended"];
    if (thread->state == State::kAtBarrier) ++groups["wait at the barrier " + place(thread->site)];
    if (thread->state == State::kAtWarpOp) {
      ++groups["wait at the warp operation " + place(thread->site) + " with mask " + hex(thread->mask)];
    }
  }
  const auto waits = std::find_if(threads.begin(), threads.end(), [](Thread* t) { return t->state != State::kDone; });
  std::string text = ", thread " + std::to_string((*waits)->number) + " waits for ever:";
  for (const auto& [what, count] : groups) text += " " + std::to_string(count) + " threads " + what + ";";
  text.back() = '.';
  fail(text);
}

// ---- Running.
void grow_pool(size_t count) {
  if (arena == nullptr) {  // not inside a fiber: ThreadSanitizer would report the mapping
    void* const fresh =
        mmap(nullptr, kArenaBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (fresh == MAP_FAILED) std::abort();
    arena = static_cast<char*>(fresh);
  }
  while (pool.size() < count) {
    pool.push_back(new Thread);
    give_stack(*pool.back());
  }
}

void begin_block() {
  fiber_set = (fiber_set + 1) % kFiberSets;
  shared_array_count = 0;
#ifndef EMULATION_TSAN
  arena_used = 0;  // else each block has memory of its own: blocks of one launch must not seem to race
#endif
  dynamic_array = grid->dynamic_bytes == 0 ? nullptr : take_arena(grid->dynamic_bytes);
  for (size_t i = 0; i < order->size(); ++i) {  // any stack may carry any thread
    Thread& thread = *pool[fiber_set * order->size() + i];
    thread.number = (*order)[i];
    const auto number = static_cast<unsigned>(thread.number);
    const dim3& block = grid->block;
    thread.index = {number % block.x, number / block.x % block.y, number / (block.x * block.y)};
    thread.state = State::kFresh;
    threads[static_cast<size_t>(thread.number)] = &thread;
  }
}

void run_block() {
  begin_block();
  while (failure.empty()) {
    turn = 0;
    if (Thread* const first = next_thread()) {  // each hands on to the next, the last one back
      go_on_with(scheduler, *first);
      if (fault.misuse != Misuse::kNone) return fail(*fault.thread, words(fault));
      continue;
    }
    const auto all = [](State state) {
      return std::all_of(threads.begin(), threads.end(), [state](const Thread* t) { return t->state == state; });
    };
    if (all(State::kDone)) return;
    if (all(State::kAtBarrier))
      complete_barrier();
    else
      fail_stuck();
  }
}

}  // namespace

std::string run_grid(const Launch& launch, std::mt19937_64& rng) {
  grid = &launch;
  gridDim = launch.grid;
  blockDim = launch.block;
  failure.clear();
  fault = {};
  adopt_thread(scheduler);
  grow_pool(kFiberSets * launch.block.count());
  threads.assign(launch.block.count(), nullptr);
  arena_used = 0;
  std::vector<int> numbers(launch.block.count());
  std::iota(numbers.begin(), numbers.end(), 0);
  order = &numbers;
  std::vector<size_t> blocks(launch.grid.count());
  std::iota(blocks.begin(), blocks.end(), size_t{0});
  std::shuffle(blocks.begin(), blocks.end(), rng);
  release(&launch_token);
  for (size_t block : blocks) {
    const size_t x = launch.grid.x, y = launch.grid.y;
    blockIdx = {static_cast<unsigned>(block % x), static_cast<unsigned>(block / x % y),
                static_cast<unsigned>(block / (x * y))};
    std::shuffle(numbers.begin(), numbers.end(), rng);
    run_block();
    if (!failure.empty()) break;
  }
  if (!failure.empty()) {
    for (Thread* thread : threads) end_here(*thread);
  }
  acquire(&end_token);
  return failure;
}

int lane() { return current->number % 32; }

int sync_block(Vote vote, int predicate, Site site) {
  Thread& thread = *current;
  char* const token = &barrier_tokens[2 * fiber_set + barrier_round % 2];
  release(token);
  thread.state = State::kAtBarrier;
  thread.vote = vote;
  thread.predicate = predicate;
  thread.site = site;
  wait(thread);
  acquire(token);
  return static_cast<int>(thread.result);
}

uint64_t warp_op(WarpOp op, uint32_t mask, uint64_t value, int source, Site site) {
  Thread& thread = *current;
  thread.site = site;
  const uint32_t there = lanes_of(thread);
  if (op == WarpOp::kSync && mask == 0xFFFFFFFFu) mask = there;  // the default mask means the whole warp
  if (!(mask >> (thread.number % 32) & 1)) give_up({Misuse::kOutsideOwnMask, &thread, mask});
  if ((mask & ~there) != 0) give_up({Misuse::kMissingLanes, &thread, mask});
  if (op == WarpOp::kSync) release(&thread.sync_token);  // a shuffle orders nothing but its own values
  thread.state = State::kAtWarpOp;
  thread.op = op;
  thread.mask = mask;
  thread.value = value;
  thread.source = source;
  complete_warp_op(thread);
  if (thread.state != State::kReady) wait(thread);
  if (op == WarpOp::kSync) each_lane(thread, [](size_t, Thread& peer) { acquire(&peer.sync_token); });
  return thread.result;
}

void* shared_array(const void* key, size_t bytes) {
  for (size_t i = 0; i < shared_array_count; ++i) {
    if (shared_arrays[i].key == key) return shared_arrays[i].data;
  }
  if (shared_array_count == shared_arrays.size()) std::abort();
  SharedArray& fresh = shared_arrays[shared_array_count++];
  fresh = {key, take_arena(bytes)};
  return fresh.data;
}

void* dynamic_shared() { return dynamic_array; }

}  // namespace emulation
