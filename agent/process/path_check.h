// Why a peer cannot be reached: what a connection to each number of its name gives. The one place that finds out.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bootstrap/path_found.h"
#include "gossip/clock.h"
#include "gossip/peer.h"

namespace starling {

struct Way {
  std::string number;  // an address
  uint16_t port = 0;
};
struct Tried {
  std::string source;  // the local address that the connection leaves from; empty: no way leads there
  int error = 0;       // 0: accepted; ETIMEDOUT: no answer
};

std::string local_number(int fd);  // that a connected socket sends from, as numbers; empty: it has none

// Connects to all at once, and closes again. `first_only`: ends with the first one that is accepted. Of the same index.
std::vector<Tried> try_to_connect(const std::vector<Way>& ways, Duration patience, bool first_only);

class PathCheck {
 public:
  PathCheck();
  ~PathCheck();  // waits for no answer
  PathCheck(const PathCheck&) = delete;
  PathCheck& operator=(const PathCheck&) = delete;

  // At once: what is known of both ports; asks anew, on a thread, if that is nothing or older than 20 s.
  PathFound find(const Endpoint& to);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;  // with the thread, which may outlive this object
};

// By waiting for it. For PathCheck, and for tests.
PathFound check_path(const Endpoint& to, Duration patience);

}  // namespace starling
