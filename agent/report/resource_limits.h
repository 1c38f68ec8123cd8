// The limits of this process in words: what is full, how large it is, and what to do.
#pragma once

#include <cstdint>
#include <exception>
#include <string>

namespace starling {

// Of setrlimit(2): "ulimit -f: 102.4 kB"; "unlimited" in place of a number.
std::string print_limit(int resource);

// What to do where a file in `place` could not be written or opened, by errno: "make room, or set ...". With the limit
// that was met and its value. `bytes`: what the file needs; 0: not known.
std::string remedy_of_file(int error, const std::string& place, uint64_t bytes = 0);

// "out of memory", with the limits that may have caused it, and what to do. `bytes`: that were asked for; 0: not known.
std::string describe_out_of_memory(uint64_t bytes = 0);

// An error that says that memory or threads are used up, in those words; any other as it is.
std::string describe_error(const std::exception& error);
bool is_full_resource(const std::exception& error);

// Whether so many more descriptors, and threads, can be had: libraries end the process where they find none. Raises the
// soft limit of descriptors first. Throws std::runtime_error with the limit, its value and what is needed.
void require_room(uint64_t descriptors, uint64_t threads);
void require_threads(uint64_t count);

}  // namespace starling
