// The open links of one listening socket, as ZeroMQ tells of them. It tells that a link was accepted after it has
// handed the link to another thread, which may tell first that it is closed. Taken in that order, a link that closes at
// once would stay open for ever.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gossip/clock.h"

namespace starling {

class OpenLinks {
 public:
  explicit OpenLinks(Duration old) : old_(old) {}  // a link's age from which it counts

  // By file descriptor, of which each is accepted and closed in turn.
  bool opened(int connection, std::string source, TimePoint now) {  // false: it is closed already
    if (closed_first_.erase(connection) > 0) return false;
    links_[connection] = {std::move(source), ++number_, false};
    young_.push_back({now, connection, number_});
    return true;
  }
  // The source of the link, if it had grown old.
  std::vector<std::string> closed(int connection) {
    const auto link = links_.extract(connection);
    if (!link) closed_first_.insert(connection);
    return link && link.mapped().old ? std::vector{link.mapped().source} : std::vector<std::string>{};
  }
  // The sources of all that had grown old.
  std::vector<std::string> all_closed() {
    std::vector<std::string> sources;
    for (const auto& [connection, link] : links_) {
      if (link.old) sources.push_back(link.source);
    }
    links_.clear();
    return sources;
  }
  // The sources of those that have since the last call.
  std::vector<std::string> grown_old(TimePoint now) {
    std::vector<std::string> sources;
    for (; !young_.empty() && now - young_.front().accepted >= old_; young_.pop_front()) {
      const auto found = links_.find(young_.front().connection);
      if (found == links_.end() || found->second.number != young_.front().number) continue;  // closed meanwhile
      found->second.old = true;
      sources.push_back(found->second.source);
    }
    return sources;
  }
  bool some_grow_old() const { return !young_.empty(); }

 private:
  struct Link {
    std::string source;
    uint64_t number = 0;
    bool old = false;
  };
  struct Young {
    TimePoint accepted;
    int connection = 0;
    uint64_t number = 0;
  };

  Duration old_;
  std::map<int, Link> links_;
  std::set<int> closed_first_;  // before they were said to be accepted
  std::deque<Young> young_;     // oldest first
  uint64_t number_ = 0;
};

}  // namespace starling
