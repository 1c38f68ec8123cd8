// Small files, and the folder for them, that only this user may open. A symbolic link is refused, not followed, and
// opening a FIFO never waits for its other end. All throw std::runtime_error with cause and remedy.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "agent/state/file_ops.h"

namespace starling {

// The whole content; nullopt: no such file. A file of more than `bytes_max` is refused.
std::optional<std::string> read_private_file(const std::string& path, size_t bytes_max);

// Replaces the content of `path` by `text`, atomically and durably, with mode 0600. Only one process may write there at
// a time (DirectoryLock).
void write_private_file(const std::string& path, std::string_view text, FileOps& files);

// Creates the folder (0700) and its parents, or uses the existing one. An existing folder that is empty or holds an
// identity is closed to other users, and the value says so for people; otherwise the value is empty. Any other folder
// keeps its mode, and is refused if others may write to it, because they could replace the key.
[[nodiscard]] std::string make_private_folder(const std::string& folder);

// The first call that failed while a file was replaced.
struct FileFailure {
  const char* doing;  // "writing"
  std::string path;   // of the file or folder it was done to
  int status;         // a negative errno
};

// Replaces `path` by what `write` puts into the new file, which is called `unfinished` until it is whole and on disk.
// The order of the calls makes the file complete or absent after a crash at any point. `write` returns 0 or a negative
// errno. nullopt: done.
[[nodiscard]] std::optional<FileFailure> replace_file(FileOps& files, const std::string& path,
                                                      const std::string& unfinished,
                                                      const std::function<int(int fd)>& write);

}  // namespace starling
