// One agent per state folder.
#pragma once

#include <string>

namespace starling {

class DirectoryLock {
 public:
  // Makes the folder if it is missing, closes it to other users (make_private_folder), and holds FOLDER/lock until
  // destroyed or until the process is gone, however it dies. Where the file system has no locks, that is only logged.
  // Throws std::runtime_error: another process holds it (its pid is named), or the folder cannot be used.
  explicit DirectoryLock(const std::string& folder);
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;
  bool in_place() const;  // false: the folder, or the file in it, was removed or moved away

 private:
  std::string path_;
  int fd_ = -1;
};

// Whether a living process holds FOLDER/lock. Waits for nothing and changes nothing there.
bool is_locked(const std::string& folder);

}  // namespace starling
