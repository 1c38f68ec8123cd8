// The host's half: devices, streams and events, memory. One mutex guards it all: a GPU is one for the whole process.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cuda_runtime.h"
#include "emulation.h"

#ifdef EMULATION_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace emulation {

struct Stream {
  int device;
  std::deque<std::function<std::string()>> work;  // each returns what went wrong
  bool busy = false;                              // amid a piece of work: it waits for another stream
  bool destroyed = false;                         // by its owner; goes when its work is done
};
// One cudaEventRecord(): reached when the stream has done what was on it before.
struct Mark {
  Stream* stream;
  bool reached = false;
};
struct Event {
  std::shared_ptr<Mark> mark;  // the last one recorded
};

namespace {

struct Allocation {
  size_t bytes;  // as asked for
  size_t room;   // as taken
};

std::recursive_mutex mutex;
std::mt19937_64 rng;
bool seeded = false;
std::vector<Stream*> streams;
std::map<const char*, Allocation> allocations;
uint64_t over_bus = 0;
uint64_t stream_waits = 0;
size_t bytes_in_use = 0;
cudaError_t fault = cudaSuccess;  // of the device: stays, as on hardware, until reset()
std::string fault_text;
// Aligned together: a program whose thread-local data crosses a page does not start where mold 1.10 linked it.
struct alignas(8) OfThread {
  int device = 0;
  cudaError_t last_error = cudaSuccess;
};
thread_local OfThread own;

cudaError_t remember(cudaError_t error) {
  if (error != cudaSuccess) own.last_error = error;
  return error;
}

void seed_once() {
  if (seeded) return;
  const char* const wanted = std::getenv("STARLING_CUDA_ORDER");
  const uint64_t seed = wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : std::random_device{}();
  std::printf("STARLING_CUDA_ORDER=%llu\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  seed_order(seed);
}

// Device memory is closed to the host: AddressSanitizer stops who reads a device pointer outside kernels and copies.
void open_device_memory([[maybe_unused]] bool open) {
#ifdef EMULATION_ASAN
  for (const auto& [data, allocation] : allocations) {
    if (open)
      __asan_unpoison_memory_region(data, allocation.bytes);
    else
      __asan_poison_memory_region(data, allocation.room);
  }
#endif
}

void break_device(const std::string& what) {
  fault = cudaErrorLaunchFailure;
  fault_text = what;
  for (Stream* stream : streams) stream->work.clear();  // nothing runs on a device after such a failure
}

// Runs the oldest piece of work of a stream that has one.
void run_one(Stream& stream) {
  const auto work = std::move(stream.work.front());
  stream.work.pop_front();
  if (machine.work_until_loss == 0) return break_device("the GPU has fallen off the bus");
  if (machine.work_until_loss > 0) --machine.work_until_loss;
  stream.busy = true;
  open_device_memory(true);
  const std::string wrong = work();
  open_device_memory(false);
  stream.busy = false;
  if (!wrong.empty()) break_device(wrong);
}

// Runs what `stream` holds until `done`; others run in between, as far as the seed says.
template <typename F>
cudaError_t run_until(Stream& stream, F done) {
  seed_once();
  while (fault == cudaSuccess && !stream.work.empty() && !done()) {
    Stream* const other = streams[rng() % streams.size()];
    if (other != &stream && !other->busy && !other->work.empty() && rng() % 2 == 0)
      run_one(*other);
    else
      run_one(stream);
  }
  return fault;
}
cudaError_t drain(Stream& stream) {
  return run_until(stream, [] { return false; });
}
cudaError_t drain_all() {
  for (size_t i = 0; i < streams.size(); ++i) (void)drain(*streams[i]);
  return fault;
}

// Not from within a piece of work.
void forget_destroyed() {
  std::erase_if(streams, [](Stream* stream) {
    const bool gone = stream->destroyed && stream->work.empty();
    if (gone) delete stream;
    return gone;
  });
}

cudaError_t reach(const std::shared_ptr<Mark>& mark) {
  if (mark == nullptr || mark->reached) return fault;
  return run_until(*mark->stream, [&] { return mark->reached; });
}

// Whoever asks whether an event is reached does other things meanwhile: a few pieces of anybody's work run.
void pass_time() {
  seed_once();
  for (uint64_t pieces = rng() % 8; pieces > 0; --pieces) {
    std::vector<Stream*> busy;
    std::copy_if(streams.begin(), streams.end(), std::back_inserter(busy), [](Stream* s) { return !s->work.empty(); });
    if (busy.empty() || fault != cudaSuccess) return;
    run_one(*busy[rng() % busy.size()]);
  }
}

// The allocation of device memory in which the range begins; end(): none.
std::map<const char*, Allocation>::const_iterator allocation_of(const char* begin) {
  auto next = allocations.upper_bound(begin);
  if (next == allocations.begin()) return allocations.end();
  --next;
  return begin < next->first + next->second.room ? next : allocations.end();
}

// False for a range that begins inside an allocation and ends behind it.
bool fits(const void* data, size_t bytes) {
  const auto* const begin = static_cast<const char*>(data);
  const auto found = allocation_of(begin);
  return found == allocations.end() || begin + bytes <= found->first + found->second.bytes;
}

bool on_device(const void* data) { return allocation_of(static_cast<const char*>(data)) != allocations.end(); }

cudaError_t put(cudaStream_t stream, std::function<std::string()> work) {
  if (fault != cudaSuccess) return remember(fault);
  if (stream == nullptr || stream->device != own.device) return remember(cudaErrorInvalidResourceHandle);
  stream->work.push_back(std::move(work));
  return cudaSuccess;
}

constexpr size_t kAlignment = 256;

void* take_device_memory(size_t bytes) {
  const size_t room = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (bytes_in_use + room > machine.memory_bytes) return nullptr;
  void* const data = std::aligned_alloc(kAlignment, room);
  if (data == nullptr) return nullptr;
  std::memset(data, 0xFF, room);  // NaN as a float: who reads what nobody wrote gets no zeros
#ifdef EMULATION_ASAN
  __asan_poison_memory_region(data, room);
#endif
  allocations[static_cast<const char*>(data)] = {bytes, room};
  bytes_in_use += room;
  return data;
}

bool launchable(const Launch& launch) {
  const dim3 &grid = launch.grid, &block = launch.block;
  return grid.x > 0 && grid.x <= 0x7FFFFFFFu && grid.y > 0 && grid.y <= 65535 && grid.z > 0 && grid.z <= 65535 &&
         block.count() > 0 && block.count() <= 1024 && block.z <= 64 && launch.dynamic_bytes <= 48 << 10;
}

}  // namespace

void reset(const Machine& now) {
  std::lock_guard lock(mutex);
  machine = now;
  fault = own.last_error = cudaSuccess;
  own.device = 0;
  for (Stream* stream : streams) stream->work.clear();
}

void seed_order(uint64_t seed) {
  std::lock_guard lock(mutex);
  rng.seed(seed);
  seeded = true;
}

size_t memory_in_use() {
  std::lock_guard lock(mutex);
  return bytes_in_use;
}

uint64_t bytes_over_bus() {
  std::lock_guard lock(mutex);
  return over_bus;
}

uint64_t waits() {
  std::lock_guard lock(mutex);
  return stream_waits;
}

void put_launch(Launch launch, cudaStream_t stream) {
  std::lock_guard lock(mutex);
  if (!launchable(launch)) {
    remember(cudaErrorInvalidConfiguration);
    return;
  }
  (void)put(stream, [launch = std::move(launch)] { return run_grid(launch, rng); });
}

}  // namespace emulation

using namespace emulation;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  if (machine.driver != cudaSuccess) return remember(machine.driver);
  *count = machine.devices;
  return remember(machine.devices == 0 ? cudaErrorNoDevice : cudaSuccess);
}
cudaError_t cudaGetDevice(int* device) {
  *device = own.device;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= machine.devices) return remember(cudaErrorInvalidDevice);
  own.device = device;
  return cudaSuccess;
}
cudaError_t cudaGetLastError() {
  std::lock_guard lock(mutex);
  const cudaError_t error = std::exchange(own.last_error, cudaSuccess);
  return error != cudaSuccess ? error : fault;
}

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration: return "cudaErrorInvalidConfiguration";
    case cudaErrorInsufficientDriver: return "cudaErrorInsufficientDriver";
    case cudaErrorNoDevice: return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
    case cudaErrorInvalidResourceHandle: return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotReady: return "cudaErrorNotReady";
    case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
  }
  return "no error of the emulation";
}
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorLaunchFailure ? fault_text.c_str() : cudaGetErrorName(error);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  std::lock_guard lock(mutex);
  if (fault != cudaSuccess) return remember(fault);
  if (flags != cudaStreamNonBlocking) return remember(cudaErrorInvalidValue);
  forget_destroyed();
  streams.push_back(*stream = new Stream{.device = own.device, .work = {}});
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  std::lock_guard lock(mutex);
  stream->destroyed = true;  // its work is still done, as on hardware, but nobody has waited for it
  forget_destroyed();
  return remember(fault);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  std::lock_guard lock(mutex);
  ++stream_waits;
  return remember(drain(*stream));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  if ((flags & ~cudaEventBlockingSync) != cudaEventDisableTiming) return remember(cudaErrorInvalidValue);
  *event = new Event;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  std::lock_guard lock(mutex);
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  std::lock_guard lock(mutex);
  const std::shared_ptr<Mark> mark(new Mark{stream});
  event->mark = mark;
  return put(stream, [mark] {
    mark->reached = true;
    return std::string();
  });
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  std::lock_guard lock(mutex);
  if (flags != 0) return remember(cudaErrorInvalidValue);
  return put(stream, [mark = event->mark] {
    (void)reach(mark);
    return std::string();
  });
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  std::lock_guard lock(mutex);
  if (fault != cudaSuccess) return remember(fault);
  if (event->mark == nullptr || event->mark->reached) return cudaSuccess;
  pass_time();
  return remember(cudaErrorNotReady);  // as it was when asked; CUDA keeps it as the last error
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  std::lock_guard lock(mutex);
  return remember(reach(event->mark));
}

cudaError_t cudaMalloc(void** data, size_t bytes) {
  std::lock_guard lock(mutex);
  if (fault != cudaSuccess) return remember(fault);
  *data = nullptr;
  if (bytes == 0) return cudaSuccess;
  *data = take_device_memory(bytes);
  return remember(*data == nullptr ? cudaErrorMemoryAllocation : cudaSuccess);
}
cudaError_t cudaFree(void* data) {
  std::lock_guard lock(mutex);
  if (data == nullptr) return remember(fault);
  (void)drain_all();  // cudaFree waits for the device
  const auto found = allocations.find(static_cast<const char*>(data));
  if (found == allocations.end()) return remember(cudaErrorInvalidValue);
#ifdef EMULATION_ASAN
  __asan_unpoison_memory_region(data, found->second.room);
#endif
  bytes_in_use -= found->second.room;
  allocations.erase(found);
  std::free(data);
  return remember(fault);
}
cudaError_t cudaMallocHost(void** data, size_t bytes) {
  std::lock_guard lock(mutex);
  if (fault != cudaSuccess) return remember(fault);
  *data = machine.pinned ? std::malloc(bytes) : nullptr;
  if (*data != nullptr) std::memset(*data, 0xFF, bytes);
  return remember(*data == nullptr ? cudaErrorMemoryAllocation : cudaSuccess);
}
cudaError_t cudaFreeHost(void* data) {
  std::lock_guard lock(mutex);
  (void)drain_all();
  std::free(data);
  return remember(fault);
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  std::lock_guard lock(mutex);
  if (fault != cudaSuccess) return remember(fault);
  *free = machine.memory_bytes - std::min(machine.memory_bytes, bytes_in_use);
  *total = machine.memory_bytes;
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  std::lock_guard lock(mutex);
  if (!fits(to, bytes) || !fits(from, bytes)) return remember(cudaErrorInvalidValue);
  if (on_device(to) != on_device(from)) over_bus += bytes;
  return put(stream, [=] {
    std::memcpy(to, from, bytes);
    return std::string();
  });
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  std::lock_guard lock(mutex);
  if (!fits(to, bytes)) return remember(cudaErrorInvalidValue);
  return put(stream, [=] {
    std::memset(to, value, bytes);
    return std::string();
  });
}
}
