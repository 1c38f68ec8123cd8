// libFuzzer's door; FUZZ_TARGET names the function behind it.
#include <cstdint>

#include "tests/fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  starling::FUZZ_TARGET({reinterpret_cast<const std::byte*>(data), size});
  return 0;
}
