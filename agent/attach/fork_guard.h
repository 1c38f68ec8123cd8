// What a forked child must not keep: the lock of the state folder and the listening sockets. O_CLOEXEC closes them at
// exec alone, which a DataLoader's worker never calls, so they would outlive a killed parent.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace starling {

// While it lives, forked children close these. At most kGuardsMax at a time; throws std::runtime_error above.
class ForkGuard {
 public:
  static constexpr size_t kGuardsMax = 64;
  // `file`: open in this process. `port`: listened on here, and the next one.
  ForkGuard(const std::string& file, uint16_t port);
  ~ForkGuard();
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;

 private:
  size_t slot_;
};

// Grows in a forked child: what an older process made is of its parent.
uint64_t process_generation();

}  // namespace starling
