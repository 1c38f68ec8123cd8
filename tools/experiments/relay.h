// Carries the packets between the nodes of link_relay, each over its own link and the other's.
#pragma once

#include <poll.h>

#include <string>
#include <string_view>
#include <vector>

#include "tools/experiments/link_nodes.h"

class Relay {
 public:
  // `queue_ms`: how long a full uplink queue takes to drain. `nodes` outlive it.
  Relay(double queue_ms, std::vector<Node>& nodes);

  // Until `signals` has something to read, or `commands` ends. Commands, a line each, change one node's link or those
  // of all; what is not understood is said on stderr and changes nothing:
  //   rate NODE|all MBIT, delay NODE|all MS, loss NODE|all PART, side NODE|all 0|1, cut NODE|all, heal NODE|all
  void run(int signals, int commands);

 private:
  bool read_commands(int commands);
  void obey(const std::string& line);
  void take_in(int from);
  void send_off(int from, int to, std::string_view bytes);
  Nanos deliver();
  void arrive(Packet packet);
  double draw();

  const double queue_ms_;
  std::vector<Node>& nodes_;
  std::vector<pollfd> polled_;
  std::string unread_;  // of a command whose line has not ended
  uint64_t random_ = 88172645463325252ull;
};
