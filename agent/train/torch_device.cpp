#include "agent/train/torch_device.h"

#include <ATen/Parallel.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>
#include <link.h>

#include <filesystem>
#include <stdexcept>

namespace starling {
namespace {

const c10::Device kGpu(c10::DeviceType::CUDA, 0);

// Is there a driver with a GPU? Asks the driver itself, because LibTorch caches a negative answer if it is asked before
// its CUDA half is loaded, and loading that half costs 0.4 s and 360 MB. Empty: yes; else what is missing.
std::string ask_driver() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) return "the NVIDIA driver (libcuda.so.1) is not installed";
  using Init = int (*)(unsigned);
  using Count = int (*)(int*);
  const auto init = reinterpret_cast<Init>(dlsym(driver, "cuInit"));
  const auto get_count = reinterpret_cast<Count>(dlsym(driver, "cuDeviceGetCount"));
  if (init == nullptr || get_count == nullptr) return "libcuda.so.1 is not an NVIDIA driver";
  if (const int error = init(0); error != 0) {
    return "the NVIDIA driver finds no usable GPU (cuInit: error " + std::to_string(error) + ")";
  }
  int count = 0;
  if (get_count(&count) != 0 || count == 0) return "the NVIDIA driver finds no GPU";
  return "";
}

// Opens libtorch_cuda beside the libtorch_cpu that runs already, by full path: that of another install would not fit.
std::string load_cuda_half() {
  if (c10::impl::hasDeviceGuardImpl(c10::DeviceType::CUDA)) return "";
  void* cpu_half = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  if (cpu_half == nullptr) return "libtorch_cpu.so is not among the loaded libraries";
  link_map* map = nullptr;
  const int failed = dlinfo(cpu_half, RTLD_DI_LINKMAP, &map);
  const std::filesystem::path here = failed == 0 && map != nullptr ? map->l_name : "";
  dlclose(cpu_half);
  const std::filesystem::path path = here.parent_path() / "libtorch_cuda.so";
  if (here.empty() || !std::filesystem::exists(path)) {
    return "this LibTorch has no CUDA half (" + path.string() + " does not exist)";
  }
  if (dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    return std::string("LibTorch's CUDA half does not load: ") + dlerror();
  }
  if (!c10::impl::hasDeviceGuardImpl(c10::DeviceType::CUDA)) return path.string() + " holds no CUDA device";
  if (c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA).deviceCount() == 0) return "LibTorch sees no GPU";
  return "";
}

}  // namespace

TorchDevice::TorchDevice(const std::string& name, uint32_t threads) : threads_(threads) {
  if (name != "auto" && name != "cpu" && name != "cuda") {
    throw std::runtime_error("agent.device is `" + name + "`; it can be auto, cpu or cuda");
  }
  if (name == "cpu") return;
  std::string missing = ask_driver();
  if (missing.empty()) missing = load_cuda_half();
  if (missing.empty()) {
    try {
      const c10::impl::VirtualGuardImpl guard(c10::DeviceType::CUDA);
      stream_id_ = guard.getStreamFromGlobalPool(kGpu).id();
      is_cuda_ = true;
    } catch (const c10::Error& error) {
      missing = std::string("LibTorch cannot use the GPU: ") + error.what_without_backtrace();
    }
  }
  if (name == "cuda" && !is_cuda_) {
    throw std::runtime_error("agent.device is cuda, but " + missing +
                             "; install what is missing, or set agent.device: auto");
  }
}

void TorchDevice::enter() const {
  if (threads_ > 0 && at::get_num_threads() != static_cast<int>(threads_)) {
    at::set_num_threads(static_cast<int>(threads_));
  }
  if (!is_cuda_) return;
  const c10::impl::VirtualGuardImpl guard(c10::DeviceType::CUDA);
  guard.setDevice(kGpu);
  guard.exchangeStream(c10::Stream::unpack3(stream_id_, 0, c10::DeviceType::CUDA));
}

void TorchDevice::synchronize() const {
  if (!is_cuda_) return;
  const c10::impl::VirtualGuardImpl guard(c10::DeviceType::CUDA);
  guard.synchronizeStream(c10::Stream::unpack3(stream_id_, 0, c10::DeviceType::CUDA));
}

}  // namespace starling
