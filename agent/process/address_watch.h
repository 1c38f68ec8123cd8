// Notices that this machine has another address, or that it slept, on a thread of its own.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "agent/config/config.h"
#include "gossip/clock.h"
#include "gossip/peer.h"

namespace starling {

class AddressWatch {
 public:
  struct Change {
    Endpoint address;  // where others reach this process from now on; perhaps as before
    Duration slept{};  // the machine, or this process, stood still; zero: it did not
  };

  // `bound`: as for advertised(), and `current` is what that said. `wake` is called on the thread after a change.
  AddressWatch(const AgentConfig& config, const Endpoint& bound, const Endpoint& current, std::function<void()> wake);
  ~AddressWatch();
  AddressWatch(const AddressWatch&) = delete;
  AddressWatch& operator=(const AddressWatch&) = delete;

  std::optional<Change> take();  // since the last call
  void doubt();                  // all members have fallen silent: the address is derived anew, and links are

 private:
  void run();
  void look(Duration slept, bool doubted);

  const AgentConfig config_;
  const Endpoint bound_;
  const std::function<void()> wake_;
  Endpoint current_;                     // the thread's, as the next
  std::vector<std::string> interfaces_;  // their addresses
  std::mutex mutex_;                     // for the rest
  std::condition_variable ends_;
  std::optional<Change> change_;
  bool doubted_ = false, ended_ = false;
  std::thread thread_;
};

}  // namespace starling
