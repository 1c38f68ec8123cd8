#include "agent/state/spare_descriptors.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <vector>

namespace starling {
namespace {

struct Spare {
  std::mutex mutex;
  std::vector<int> descriptors;
};

Spare& spare() {
  static Spare kept;
  return kept;
}

// One at a time: whoever else waits for a descriptor may take it first.
bool give_one_back() {
  Spare& kept = spare();
  const std::lock_guard lock(kept.mutex);
  if (kept.descriptors.empty()) return false;
  ::close(kept.descriptors.back());
  kept.descriptors.pop_back();
  return true;
}

}  // namespace

void keep_spare_descriptors() {
  Spare& kept = spare();
  const std::lock_guard lock(kept.mutex);
  while (kept.descriptors.size() < kSpareDescriptors) {
    const int descriptor = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return;
    kept.descriptors.push_back(descriptor);
  }
}

int open_with_spare(const std::function<int()>& open) {
  while (true) {
    const int result = open();
    const int error = errno;
    const bool too_many = result < 0 && (error == EMFILE || error == ENFILE);
    if (!too_many || !give_one_back()) {
      errno = error;
      return result;
    }
  }
}

}  // namespace starling
