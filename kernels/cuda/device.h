// What owns memory and streams on the GPU, without a CUDA header in sight. Any CUDA failure throws DeviceFailure with
// what was tried and what CUDA said: nothing on this side can go on after one.
#pragma once

#include <cstddef>
#include <string>

namespace starling::cuda {

// GPUs this process can use; 0 on any error (no driver, none visible).
int device_count();
std::string why_no_device();  // and what to do; empty: there is one

// Throws if `error` (a cudaError_t) is not success. `what` says what was tried, `memory_remedy` what to do where memory
// lacks.
void check(int error, const char* what,
           const char* memory_remedy = "free GPU memory or train with a smaller model or batch");
// The same for the launch just made.
void check_launch(const char* kernel);

// Makes `device` current for the calling thread, and the one before it again at the end.
class CurrentDevice {
 public:
  explicit CurrentDevice(int device);
  ~CurrentDevice();
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  int previous_ = 0;
};

int current_device();
size_t free_bytes();  // of the current device's memory

// How many blocks a kernel that loops over any count gets: at most `most`, and `extra` beyond what the count needs.
// Only tests change it. REQUIRES: most > 0, extra >= 0, most + extra <= kMaxBlocks or extra = 0.
inline constexpr int kMaxBlocks = 1024;  // of kernels that keep something for each; enough to fill the largest GPUs
struct GridLimits {
  int most = 1 << 30;
  int extra = 0;
};
inline GridLimits grid_limits;

// A stream of its own that does not wait for the default stream.
class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  void* handle() const { return handle_; }
  void wait() const;  // until everything put on it is done

 private:
  void* handle_ = nullptr;
};

// A point in what a stream does.
class Event {
 public:
  Event();
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(void* stream);           // from now on it is the end of what `stream` holds now. Of one device
  void hold(void* stream) const;       // what is put on `stream` from now on waits until it is reached
  [[nodiscard]] bool reached() const;  // true of one that was never recorded
  void wait() const;                   // until it is; the thread sleeps

 private:
  void* handle_ = nullptr;
};

// Device memory, or host memory the GPU can copy at full speed. Grows, never shrinks; growing drops the contents.
enum class BufferKind { kDevice, kPinnedHost };

class Buffer {
 public:
  explicit Buffer(BufferKind kind) : kind_(kind) {}
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  // At least `bytes`, aligned for any type. The pointer stays valid until the next larger call.
  std::byte* reserve(size_t bytes);

 private:
  void release();
  BufferKind kind_;
  std::byte* data_ = nullptr;
  size_t capacity_bytes_ = 0;
};

// Asynchronous copies in either direction on `stream`; device and host pointers are told apart by CUDA.
void copy_async(void* to, const void* from, size_t bytes, void* stream);
void zero_async(void* to, size_t bytes, void* stream);

}  // namespace starling::cuda
