// Where LibTorch computes. The program links LibTorch's CPU half only; the CUDA half is opened here, at run time.
#pragma once

#include <cstdint>
#include <string>

namespace starling {

class TorchDevice {
 public:
  // `name`: auto (the first GPU if there is a usable one), cpu, cuda. `threads`: of CPU work; 0 = LibTorch's choice
  // until use_threads(). Throws std::runtime_error: cuda without a usable GPU, with what was tried and what to do; any
  // other name.
  TorchDevice(const std::string& name, uint32_t threads);

  bool is_cuda() const { return is_cuda_; }
  void use_threads(uint32_t threads) { threads_ = threads; }   // from the next enter() on
  void enter() const;        // the calling thread works here from now on (device, stream, number of threads)
  void synchronize() const;  // waits until the stream has done all that was asked; nothing on the CPU

 private:
  bool is_cuda_ = false;
  uint32_t threads_ = 0;
  int64_t stream_id_ = 0;    // our own stream of GPU 0
};

}  // namespace starling
