// Why a peer cannot be reached: what a connection to each number of its name gives. The one place that finds out.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
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

// What is known of paths, and which of them are to be looked at. A state machine.
class KnownPaths {
 public:
  // What is known at once of both ports. Marks the path for a look if that is nothing or older than 20 s.
  PathFound find(const Endpoint& to, TimePoint now);
  std::optional<Endpoint> next();  // to be looked at; nullopt: none
  void found(const Endpoint& to, PathFound found, TimePoint now);

 private:
  struct Known {
    PathFound found;
    TimePoint at, accepts_since;
    bool asked = false;
  };
  std::map<Endpoint, Known> known_;
  std::deque<Endpoint> asked_;
};

class PathCheck {
 public:
  PathCheck();
  ~PathCheck();  // waits for no answer
  PathCheck(const PathCheck&) = delete;
  PathCheck& operator=(const PathCheck&) = delete;

  PathFound find(const Endpoint& to);  // as KnownPaths; a thread looks

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;  // with the thread, which may outlive this object
};

// By waiting for it. For PathCheck, and for tests.
PathFound check_path(const Endpoint& to, Duration patience);

}  // namespace starling
