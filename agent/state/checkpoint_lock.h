// One agent per state folder.
#pragma once

#include <string>

namespace starling {

class DirectoryLock {
 public:
  // Makes the folder if it is missing, closes it to other users (make_private_folder), and holds FOLDER/lock until
  // destroyed or until the process is gone, however it dies. Throws std::runtime_error: another process holds it (its
  // pid is named), or the folder cannot be used.
  explicit DirectoryLock(const std::string& folder);
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

 private:
  int fd_ = -1;
};

// Whether a living process holds FOLDER/lock. Waits for nothing and changes nothing there.
bool is_locked(const std::string& folder);

}  // namespace starling
