// Whether the program runs under a sanitizer, which brings a heap of its own. Asked at run time: a sanitized build
// compiles tests without one (tools/lib/usual_tests).
#pragma once

#include <dlfcn.h>

namespace starling {

inline bool under_asan() { return dlsym(RTLD_DEFAULT, "__asan_init") != nullptr; }
inline bool under_tsan() { return dlsym(RTLD_DEFAULT, "__tsan_init") != nullptr; }

}  // namespace starling
