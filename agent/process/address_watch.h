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

struct AddressChange {
  Endpoint address;  // where others reach this process from now on; perhaps as before
  Duration slept{};  // the machine, or this process, stood still, or the wall clock was set ahead; zero: none of them
};

// Two clocks that the steady one falls behind in a sleep: that since boot in the machine's own, the wall clock also
// where the host of a virtual machine slept or held it.
struct Moment { Duration since_boot{}, wall{}; };
Moment moment();  // now

// How long this machine, or this process, stood still. Services that set the wall clock may fight: where it alone ran
// ahead, that counts once in five minutes. A state machine.
class Standstill {
 public:
  Duration between(const Moment& before, const Moment& now);  // short, unless it stood still

 private:
  Duration wall_counts_from_{};  // since boot
};

std::string describe_standstill(Duration slept);  // for the log, with what is done

// What each look at this machine means for the address. A state machine.
class MovingAddress {
 public:
  struct Look {
    std::vector<std::string> interfaces;  // their addresses, in order
    Duration since_last{};                // as Standstill says
    bool doubted = false;                 // no member answers
  };

  // `follows`: the address depends on interfaces. `derive`: says it anew.
  MovingAddress(bool follows, Endpoint current, std::vector<std::string> interfaces, std::function<Endpoint()> derive);

  std::optional<AddressChange> look(Look seen);  // nullopt: members need not be told

 private:
  const bool follows_;
  const std::function<Endpoint()> derive_;
  Endpoint current_;
  std::vector<std::string> interfaces_;
};

class AddressWatch {
 public:
  // `bound`: as for advertised(), and `current` is what that said. `wake` is called on the thread after a change.
  AddressWatch(const AgentConfig& config, const Endpoint& bound, const Endpoint& current, std::function<void()> wake);
  ~AddressWatch();
  AddressWatch(const AddressWatch&) = delete;
  AddressWatch& operator=(const AddressWatch&) = delete;

  std::optional<AddressChange> take();  // since the last call
  void doubt();                         // no member answers: the address is derived anew, and links are made anew

 private:
  void run();
  void note(const AddressChange& change);

  const std::function<void()> wake_;
  MovingAddress address_;  // the thread's, as is the next
  Standstill standstill_;
  std::mutex mutex_;  // for the rest
  std::condition_variable ends_;
  std::optional<AddressChange> change_;
  bool doubted_ = false, ended_ = false;
  std::thread thread_;
};

}  // namespace starling
