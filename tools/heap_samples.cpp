// Preloaded into a program, writes every 20 ms how many bytes of its heap are allocated and how many are free, into
// $HEAP_SAMPLES/PID: the resident size alone does not tell what is held from what the heap keeps (tools/bench memory).
#include <malloc.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

namespace {

void sample(const std::string& path) {
  std::FILE* const file = std::fopen(path.c_str(), "w");
  while (file != nullptr) {
    const struct mallinfo2 heap = mallinfo2();
    std::fprintf(file, "%zu %zu\n", heap.uordblks + heap.hblkhd, heap.fordblks);
    std::fflush(file);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

[[gnu::constructor]] void begin() {
  const char* const folder = std::getenv("HEAP_SAMPLES");
  if (folder != nullptr) std::thread(sample, std::string(folder) + "/" + std::to_string(getpid())).detach();
}

}  // namespace
