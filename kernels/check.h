// STARLING_CHECK: a broken invariant is a bug in this program, and a bug aborts, in every build.
// Never used for what a peer, a file or a user can cause. (LibTorch owns the names CHECK, DCHECK and LOG.)
#pragma once

#include <cstdio>
#include <cstdlib>

namespace starling {

[[noreturn]] inline void check_failed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, expression);
  std::fflush(stderr);
  std::abort();
}

}  // namespace starling

#define STARLING_CHECK(expression)                                           \
  (__builtin_expect(static_cast<bool>(expression), 1) ? static_cast<void>(0) \
                                                      : ::starling::check_failed(#expression, __FILE__, __LINE__))
