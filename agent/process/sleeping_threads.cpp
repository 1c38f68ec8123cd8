#include "agent/process/sleeping_threads.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>

namespace starling {
namespace {

constexpr size_t kVariablesMax = 4000, kPathMax = 4096;  // beyond them threads spin, which is slow and not wrong
char briefly[] = "GOMP_SPINCOUNT=1000";
char* told[kVariablesMax + 2];
char program[kPathMax];

// No libc, and no sanitizer: neither has been set up.
__attribute__((no_sanitize("address", "undefined", "thread"))) bool is(const char* variable, const char* name) {
  while (*name != '\0' && *variable == *name) ++variable, ++name;
  return *name == '\0' && *variable == '=';
}

}  // namespace

__attribute__((no_sanitize("address", "undefined", "thread"))) void restart_with_sleeping_threads(int, char** argv,
                                                                                                  char** environment) {
  size_t count = 0;
  for (; environment[count] != nullptr; ++count) {
    if (count == kVariablesMax || is(environment[count], "OMP_WAIT_POLICY") ||
        is(environment[count], "GOMP_SPINCOUNT")) {
      return;
    }
    told[count] = environment[count];
  }
  told[count] = briefly;
  const long length = syscall(SYS_readlink, "/proc/self/exe", program, kPathMax - 1);
  if (length > 0) syscall(SYS_execve, program, argv, told);
}

}  // namespace starling
