// Stands in for libcuda.so.1 where a test needs a driver that says something in particular: STARLING_FAKE_DRIVER is
// `init CODE` (cuInit fails) or `devices COUNT`.
#include <cstdio>
#include <cstdlib>

namespace {

int told(const char* format) {
  const char* const text = std::getenv("STARLING_FAKE_DRIVER");
  int value = 0;
  return text != nullptr && std::sscanf(text, format, &value) == 1 ? value : 0;
}

}  // namespace

extern "C" {

int cuInit(unsigned) { return told("init %d"); }

int cuDeviceGetCount(int* count) {
  *count = told("devices %d");
  return 0;
}

int cuGetErrorString(int error, const char** text) {
  *text = error == 100 ? "no CUDA-capable device" : nullptr;
  return *text == nullptr;
}
}
