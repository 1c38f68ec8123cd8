// Turns names of hosts into numbers on a thread of its own, so that nobody waits for a name server. Every answer is
// kept for a while, also that there is none.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gossip/clock.h"

namespace starling {

class NameCache {
 public:
  // A name's addresses in numbers, the best first; empty: it has none now. May take minutes. Called on the cache's own
  // thread, and at the end perhaps still running: it may use nothing that the owner frees.
  using LookUp = std::function<std::vector<std::string>(const std::string& name)>;

  // `changed` is called on the cache's thread when an answer has come, until the object is gone.
  explicit NameCache(std::function<void()> changed, LookUp look_up = system_look_up);
  ~NameCache();  // waits for no answer
  NameCache(const NameCache&) = delete;
  NameCache& operator=(const NameCache&) = delete;

  // At once: what is known of the name, and asks anew if that is nothing or old. Numbers are their own answer, and
  // "localhost" is that of both families.
  std::vector<std::string> find(const std::string& name);

  static std::vector<std::string> system_look_up(const std::string& name);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;  // with the thread, which may outlive this object
};

// Whether a host is an IPv4 or IPv6 address, perhaps with a zone ("fe80::1%eth0").
bool is_number(const std::string& host);
bool is_loopback(const std::string& host);  // reached from this machine alone
// "10.0.0.1" of "::ffff:10.0.0.1", which is how a port of both families names a host of the first; else as it is.
std::string unmapped(const std::string& number);

}  // namespace starling
