#include "kernels/cuda/device.h"

#include <cuda_runtime_api.h>

#include <string>

#include "kernels/device_failure.h"

namespace starling::cuda {
namespace {

cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t event_of(void* event) { return static_cast<cudaEvent_t>(event); }

cudaError_t count_devices(int* count) {
  const cudaError_t error = cudaGetDeviceCount(count);
  if (error != cudaSuccess) (void)cudaGetLastError();  // it is our answer; leave no trace of it for the next check
  return error;
}

}  // namespace

int device_count() {
  int count = 0;
  return count_devices(&count) == cudaSuccess ? count : 0;
}

std::string why_no_device() {
  int count = 0;
  const cudaError_t error = count_devices(&count);
  if (error == cudaErrorInsufficientDriver) {
    return "the NVIDIA driver is missing or too old for this program; update it";
  }
  if (error == cudaErrorNoDevice || (error == cudaSuccess && count == 0)) {
    return "CUDA finds none; look at nvidia-smi and CUDA_VISIBLE_DEVICES";
  }
  if (error == cudaSuccess) return "";
  return std::string("CUDA says ") + cudaGetErrorString(error) + " (" + cudaGetErrorName(error) +
         "); look at nvidia-smi and the driver's log";
}

void check(int error, const char* what, const char* memory_remedy) {
  const auto code = static_cast<cudaError_t>(error);
  if (code == cudaSuccess) return;
  (void)cudaGetLastError();  // CUDA keeps it there too, where the next launch would find it and be blamed
  const bool full = code == cudaErrorMemoryAllocation;
  const char* remedy = full ? memory_remedy : "look at nvidia-smi and the driver's log, or run on the CPU";
  throw DeviceFailure(std::string(what) + " failed on the GPU: " + cudaGetErrorString(code) + " (" +
                      cudaGetErrorName(code) + "); " + remedy);
}

void check_launch(const char* kernel) { check(cudaGetLastError(), kernel); }

int current_device() {
  int device = 0;
  check(cudaGetDevice(&device), "asking for the current device");
  return device;
}

size_t free_bytes() {
  size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "asking for the free memory");
  return free;
}

CurrentDevice::CurrentDevice(int device) : previous_(current_device()) {
  check(cudaSetDevice(device), "choosing the device");
}
CurrentDevice::~CurrentDevice() { (void)cudaSetDevice(previous_); }

Stream::Stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a stream");
  handle_ = stream;
}
Stream::~Stream() { (void)cudaStreamDestroy(stream_of(handle_)); }
void Stream::wait() const { check(cudaStreamSynchronize(stream_of(handle_)), "waiting for a stream"); }

Event::Event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventBlockingSync), "creating an event");
  handle_ = event;
}
Event::~Event() { (void)cudaEventDestroy(event_of(handle_)); }
void Event::record(void* stream) { check(cudaEventRecord(event_of(handle_), stream_of(stream)), "recording an event"); }
void Event::hold(void* stream) const {
  check(cudaStreamWaitEvent(stream_of(stream), event_of(handle_), 0), "holding a stream until an event");
}
bool Event::reached() const {
  const cudaError_t error = cudaEventQuery(event_of(handle_));
  if (error != cudaErrorNotReady)
    check(error, "asking for an event");
  else
    (void)cudaGetLastError();  // it is our answer; leave no trace of it for the next check
  return error == cudaSuccess;
}
void Event::wait() const { check(cudaEventSynchronize(event_of(handle_)), "waiting for an event"); }

Buffer::~Buffer() { release(); }

void Buffer::release() {
  if (data_ == nullptr) return;
  (void)(kind_ == BufferKind::kDevice ? cudaFree(data_) : cudaFreeHost(data_));
  data_ = nullptr;
  capacity_bytes_ = 0;
}

std::byte* Buffer::reserve(size_t bytes) {
  if (bytes <= capacity_bytes_) return data_;
  release();
  void* fresh = nullptr;
  if (kind_ == BufferKind::kDevice) {
    check(cudaMalloc(&fresh, bytes), "allocating device memory");
  } else {
    check(cudaMallocHost(&fresh, bytes), "allocating pinned memory of this machine",
          "free memory of the machine, or raise the limit of its container");
  }
  data_ = static_cast<std::byte*>(fresh);
  capacity_bytes_ = bytes;
  return data_;
}

void copy_async(void* to, const void* from, size_t bytes, void* stream) {
  if (bytes == 0) return;
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_of(stream)), "a copy");
}

void zero_async(void* to, size_t bytes, void* stream) {
  if (bytes == 0) return;
  check(cudaMemsetAsync(to, 0, bytes, stream_of(stream)), "clearing memory");
}

}  // namespace starling::cuda
