// A folder that ends with its test, and a disk on which a call goes wrong, or at which the process dies.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "agent/state/file_ops.h"

namespace starling {

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "starling_state_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string path() const { return path_.string(); }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  std::filesystem::path path_;
};

struct Crash {};

// What the test decides about the coming calls; the store owns the FileOps itself.
struct Plan {
  int calls = 0;
  int at = -1;               // the call that goes wrong, counted from 0
  int status = 0;            // < 0: it fails with this errno; 0: the process dies there
  bool tear_writes = false;  // a failing or dying write leaves half of its bytes
  int64_t free_bytes = int64_t{1} << 40;
  std::vector<std::string> log;
  std::string failed;  // the call that went wrong
};

class PlannedFileOps final : public FileOps {
 public:
  explicit PlannedFileOps(Plan& plan) : plan_(plan), disk_(make_file_ops()) {}

  int open_new(const std::string& path) override { return step("open") ? plan_.status : disk_->open_new(path); }
  int64_t write(int fd, const std::byte* data, size_t size) override {
    const bool fails = plan_.calls == plan_.at;
    if (fails && plan_.tear_writes) disk_->write(fd, data, size / 2);
    if (step("write")) return plan_.status;
    return disk_->write(fd, data, std::min<size_t>(size, 1000));  // short writes are normal
  }
  int sync(int fd) override { return step("sync") ? plan_.status : disk_->sync(fd); }
  int close(int fd) override {
    disk_->close(fd);  // the kernel closes it whatever close says, and when a process dies
    return step("close") ? plan_.status : 0;
  }
  int rename(const std::string& from, const std::string& to) override {
    return step("rename") ? plan_.status : disk_->rename(from, to);
  }
  int remove(const std::string& path) override { return step("remove") ? plan_.status : disk_->remove(path); }
  int sync_folder(const std::string& folder) override {
    return step("sync_folder") ? plan_.status : disk_->sync_folder(folder);
  }
  int64_t free_bytes(const std::string&) override { return plan_.free_bytes; }

 private:
  bool step(const char* name) {
    if (plan_.log.empty() || plan_.log.back() != name) plan_.log.push_back(name);
    if (plan_.calls++ != plan_.at) return false;
    plan_.failed = name;
    if (plan_.status == 0) throw Crash{};
    return true;
  }

  Plan& plan_;
  std::unique_ptr<FileOps> disk_;
};

}  // namespace starling
