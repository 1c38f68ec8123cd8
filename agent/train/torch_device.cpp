#include "agent/train/torch_device.h"

#include <ATen/Parallel.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <link.h>
#include <oneapi/dnnl/dnnl_common.hpp>

#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string_view>

#include "agent/report/resource_limits.h"

namespace starling {
namespace {

const c10::Device kGpu(c10::DeviceType::CUDA, 0);

std::string dotted(int cuda_version) {
  return std::to_string(cuda_version / 1000) + "." + std::to_string(cuda_version % 1000 / 10);
}

// The number that a function of CUDA writes; 0: there is no such function.
int version_from(void* library, const char* function) {
  const auto ask = reinterpret_cast<int (*)(int*)>(dlsym(library, function));
  int version = 0;
  return ask != nullptr && ask(&version) == 0 ? version : 0;
}

// In the driver's own words where it has any.
std::string driver_error(void* driver, int error) {
  const auto describe = reinterpret_cast<int (*)(int, const char**)>(dlsym(driver, "cuGetErrorString"));
  const char* text = nullptr;
  if (describe == nullptr || describe(error, &text) != 0 || text == nullptr) return "error " + std::to_string(error);
  return "error " + std::to_string(error) + ", " + text;
}

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
    return "the NVIDIA driver finds no usable GPU (cuInit: " + driver_error(driver, error) + "; see nvidia-smi)";
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
  if (c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA).deviceCount() > 0) return "";
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return why_torch_sees_none(driver == nullptr ? 0 : version_from(driver, "cuDriverGetVersion"),
                             version_from(RTLD_DEFAULT, "cudaRuntimeGetVersion"));
}

// Of "DefaultCPUAllocator: can't allocate memory: you tried to allocate 80150592 bytes"; nullopt: another trouble.
std::optional<uint64_t> bytes_refused(const std::string& text) {
  if (text.find("DefaultCPUAllocator") == std::string::npos) return {};
  constexpr std::string_view kBefore = "tried to allocate ";
  const size_t at = text.find(kBefore);
  return at == std::string::npos ? 0 : std::strtoull(text.c_str() + at + kBefore.size(), nullptr, 10);
}

// LibTorch repeats some warnings at every step: of an LSTM on a GPU, that its weights are views of the params.
class SayOnce final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (said_.size() < kSaidMax && said_.insert(warning.msg()).second) c10::WarningHandler::process(warning);
  }

 private:
  static constexpr size_t kSaidMax = 64;
  std::mutex mutex_;
  std::set<std::string> said_;
};

}  // namespace

std::string why_torch_sees_none(int driver_version, int torch_version) {
  // Within one major version a driver runs what was built with a later minor one.
  if (driver_version == 0 || torch_version == 0 || driver_version / 1000 >= torch_version / 1000) {
    return "LibTorch sees no GPU (see nvidia-smi and CUDA_VISIBLE_DEVICES)";
  }
  return "the NVIDIA driver is too old: it goes up to CUDA " + dotted(driver_version) + ", and this LibTorch needs " +
         dotted(torch_version);
}

void rethrow_torch_failure() {
  try {
    throw;
  } catch (const c10::Error& error) {
    const std::string text = std::string("LibTorch failed: ") + error.what_without_backtrace();
    if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) {
      throw DeviceFailure(text + "; lower agent.batch, free GPU memory, or set agent.device: cpu");
    }
    if (dynamic_cast<const c10::AcceleratorError*>(&error) != nullptr) {
      throw DeviceFailure(text + "; look at nvidia-smi and the driver's log, or set agent.device: cpu");
    }
    if (const std::optional<uint64_t> bytes = bytes_refused(text)) {
      throw std::runtime_error(describe_out_of_memory(*bytes));
    }
    throw std::runtime_error(text);
  } catch (const dnnl::error& error) {  // of oneDNN, which computes some layers for LibTorch
    if (error.status == dnnl_out_of_memory) throw std::runtime_error(describe_out_of_memory());
    throw std::runtime_error(std::string("LibTorch failed: oneDNN: ") + error.what());
  }
}

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

namespace {

// LibTorch computes in threads of libgomp, which ends the process where it cannot make one. Each thread that computes
// has its own, made here at once, as far as they can be had.
void make_threads() {
  thread_local int made = 1;
  const int threads = at::get_num_threads();
  if (threads > made) {
    require_threads(static_cast<uint64_t>(threads - made));
    at::parallel_for(0, threads, 1, [](int64_t, int64_t) {});
  }
  made = threads;  // fewer: the others end with the next step
}

}  // namespace

void TorchDevice::enter() const {
  static SayOnce& say_once = *new SayOnce;  // LibTorch's own threads may end after the statics
  c10::WarningUtils::set_warning_handler(&say_once);
  if (threads_ > 0 && at::get_num_threads() != static_cast<int>(threads_)) {
    at::set_num_threads(static_cast<int>(threads_));
  }
  if (!is_cuda_) return make_threads();
  const c10::impl::VirtualGuardImpl guard(c10::DeviceType::CUDA);
  guard.setDevice(kGpu);
  guard.exchangeStream(c10::Stream::unpack3(stream_id_, 0, c10::DeviceType::CUDA));
}

bool TorchDevice::entered() const {
  if (!is_cuda_) return true;
  const c10::impl::VirtualGuardImpl guard(c10::DeviceType::CUDA);
  return guard.getDevice() == kGpu && guard.getStream(kGpu).id() == stream_id_;
}

void* TorchDevice::native_stream() const {
  const c10::impl::VirtualGuardImpl guard(c10::DeviceType::CUDA);
  return guard.getStreamNativeHandle(c10::Stream::unpack3(stream_id_, 0, c10::DeviceType::CUDA));
}

void TorchDevice::synchronize() const {
  if (!is_cuda_) return;
  const c10::impl::VirtualGuardImpl guard(c10::DeviceType::CUDA);
  guard.synchronizeStream(c10::Stream::unpack3(stream_id_, 0, c10::DeviceType::CUDA));
}

}  // namespace starling
