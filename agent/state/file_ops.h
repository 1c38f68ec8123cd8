// The system calls that make a file durable, one virtual function each, so that a test can fail or stop at
// every one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace starling {

// Each returns 0 or more, or a negative errno. write may do less than asked.
class FileOps {
 public:
  virtual ~FileOps() = default;
  virtual int open_new(const std::string& path) = 0;  // a descriptor; the file must not exist; mode 0600
  virtual int64_t write(int fd, const std::byte* data, size_t size) = 0;
  virtual int sync(int fd) = 0;
  virtual int close(int fd) = 0;
  virtual int rename(const std::string& from, const std::string& to) = 0;
  virtual int remove(const std::string& path) = 0;
  virtual int sync_folder(const std::string& folder) = 0;
  virtual int64_t free_bytes(const std::string& folder) = 0;
};

std::unique_ptr<FileOps> make_file_ops();  // the real disk

}  // namespace starling
