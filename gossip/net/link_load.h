// What open links hold of this process's memory before it is a whole frame. ZeroMQ reads a part of a handshake or of a
// message into memory at once, and collects messages of any number of parts, without a bound over all links. The kernel
// counts what each link has received; the reader says which links have brought it a frame.
#pragma once

#include <sys/socket.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace starling {

// Written by the thread that reads frames, read by the one that watches.
class FramesRead {
 public:
  FramesRead() : counts_(kConnectionsMax) {}
  void add(int connection) {
    if (std::atomic<uint32_t>* count = of(connection)) count->fetch_add(1, std::memory_order_relaxed);
  }
  void set_idle(bool idle) { idle_.store(idle, std::memory_order_relaxed); }
  uint32_t count(int connection) const {
    const std::atomic<uint32_t>* count = const_cast<FramesRead*>(this)->of(connection);
    return count ? count->load(std::memory_order_relaxed) : 0;
  }
  bool idle() const { return idle_.load(std::memory_order_relaxed); }  // all whole frames are read

 private:
  static constexpr size_t kConnectionsMax = 65536;
  std::atomic<uint32_t>* of(int connection) {
    const bool known = connection >= 0 && static_cast<size_t>(connection) < counts_.size();
    return known ? &counts_[static_cast<size_t>(connection)] : nullptr;
  }
  std::vector<std::atomic<uint32_t>> counts_;  // by file descriptor, over all links that ever had it
  std::atomic<bool> idle_ = true;
};

// Of one listening socket or several. Connections are file descriptors of this process, which another thread closes.
class LinkLoads {
 public:
  void opened(int connection, const FramesRead& read);
  void closed(int connection) { links_.erase(connection); }
  void measure(const FramesRead& read);
  size_t held() const;             // bytes, at the last measurement
  size_t shut_above(size_t most);  // those that held more at each of some measurements; how many
  bool shut_largest();             // first those that have brought no frame yet; false: none is left
  bool shut(int connection, const std::string& source);  // false: it is another link by now
  size_t count() const { return links_.size(); }

 private:
  struct Link {
    sockaddr_storage peer{};
    socklen_t peer_size = 0;
    uint64_t counted_from = 0;  // bytes received up to its last frame
    uint64_t held = 0;
    uint32_t frames = 0;
    int above = 0;  // measurements in a row
    bool brought_some = false;
  };
  static bool shut_down(int connection, const Link& link);
  std::map<int, Link> links_;
};

// The number of a peer's host in ZeroMQ's words; empty: the connection is gone already.
std::string source_of(int connection);

}  // namespace starling
