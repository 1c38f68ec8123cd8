// Where LibTorch computes. The program links LibTorch's CPU half only; the CUDA half is opened here, at run time.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/device_failure.h"

namespace starling {

class TorchDevice {
 public:
  // `name`: auto (the first GPU if there is a usable one), cpu, cuda. `threads`: of CPU work; 0 = LibTorch's choice
  // until use_threads(). Throws std::runtime_error: cuda without a usable GPU, with what was tried and what to do; any
  // other name.
  TorchDevice(const std::string& name, uint32_t threads);

  bool is_cuda() const { return is_cuda_; }
  void use_threads(uint32_t threads) { threads_ = threads; }  // from the next enter() on
  // The calling thread works here from now on (device, stream, number of threads). Throws std::runtime_error where
  // those threads cannot be made.
  void enter() const;
  bool entered() const;         // the calling thread works here now
  void* native_stream() const;  // as CUDA knows it; throws c10::Error. REQUIRES: is_cuda()
  void synchronize() const;     // waits until the stream has done all that was asked; nothing on the CPU

 private:
  bool is_cuda_ = false;
  uint32_t threads_ = 0;
  int64_t stream_id_ = 0;  // our own stream of GPU 0
};

// In a handler, of what LibTorch threw as it computed. An error of a GPU or of its memory becomes a DeviceFailure with
// the remedy. A refused allocation names the bytes and the limit. c10::Error and dnnl::error become std::runtime_error.
[[noreturn]] void rethrow_torch_failure();

// Why LibTorch finds no GPU where the driver has one. CUDA's numbers for what the driver goes up to and what LibTorch
// was built with (12040 is 12.4); 0: not known.
std::string why_torch_sees_none(int driver_version, int torch_version);

}  // namespace starling
