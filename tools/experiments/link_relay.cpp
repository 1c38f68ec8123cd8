// Links with delay, rate and loss for programs on this machine, where the kernel has no netem.
//
// N nodes, each a network namespace of its own with one interface "link" (a TUN device) and the address 10.77.0.1 to
// .N. This process carries the packets between them. A packet waits in the sender's uplink queue (drop-tail), takes
// its bytes / rate, flies for the one-way delay, and takes the receiver's downlink, of the same rate, in turn.
//
//   link_relay [--nodes N] [--delay-ms MS] [--rate-mbit MBIT, 0: no limit] [--loss PART] [--queue-ms MS] [--mtu BYTES]
//   link_relay ... --check     measures an empty link between two nodes, prints it, and ends
//
// Prints one line of JSON when the links are up: `nsenter --net=NAMESPACE PROGRAM` runs on a node. Lines on its
// standard input change links while they are in use (NODE: 0 to N - 1, or `all`):
//
//   rate NODE MBIT | delay NODE MS | loss NODE PART | side NODE 0|1 | cut NODE | heal NODE
//
// Between two nodes the longer delay and the higher loss of both counts. A cut link drops all that comes, goes or is on
// its way, without a word to anybody. Ends, and takes the namespaces with it, on SIGINT, SIGTERM or the end of its
// standard input. Needs root, or CAP_NET_ADMIN and CAP_SYS_ADMIN.
#include <sched.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "tools/experiments/link_check.h"
#include "tools/experiments/relay.h"

namespace {

constexpr int kNodesMax = 64;

struct Options {
  int nodes = 8;
  Link link;  // of every node, as it begins
  double queue_ms = 200;
  int mtu = 1500;
  bool check = false;
};

Options parse(int argc, char** argv) {
  Options options;
  const std::vector<std::pair<std::string, double*>> numbers = {{"--delay-ms", &options.link.delay_ms},
                                                                {"--rate-mbit", &options.link.rate_mbit},
                                                                {"--loss", &options.link.loss},
                                                                {"--queue-ms", &options.queue_ms}};
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--check") {
      options.check = true;
      continue;
    }
    char* end = nullptr;
    const double value = i + 1 < argc ? std::strtod(argv[i + 1], &end) : -1;
    const auto known = std::find_if(numbers.begin(), numbers.end(), [&](const auto& n) { return n.first == name; });
    const bool whole = name == "--nodes" || name == "--mtu";
    if ((known == numbers.end() && !whole) || end == nullptr || *end != '\0' || !(value >= 0 && value < 1e9)) {
      fail("do not understand " + name +
           "; usage: link_relay [--nodes N] [--delay-ms MS] [--rate-mbit MBIT] "
           "[--loss PART] [--queue-ms MS] [--mtu BYTES] [--check]");
    }
    if (known != numbers.end()) *known->second = value;
    if (name == "--nodes") options.nodes = static_cast<int>(value);
    if (name == "--mtu") options.mtu = static_cast<int>(value);
    ++i;
  }
  if (options.nodes < 2 || options.nodes > kNodesMax) fail("--nodes: 2 to " + std::to_string(kNodesMax));
  if (options.link.loss > 0.9) fail("--loss: a part of all packets, 0 to 0.9");
  if (options.mtu < 576 || options.mtu > 65000) fail("--mtu: 576 to 65000");
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  std::vector<Node> nodes = make_nodes(options.nodes, options.link, options.mtu);
  prctl(PR_SET_TIMERSLACK, 1);
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT), sigaddset(&ends, SIGTERM);
  signal(SIGPIPE, SIG_IGN);
  // Late packets would be ours, not the link's: go before others where that is allowed.
  const sched_param priority{.sched_priority = 1};
  const bool first = sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &priority) == 0;
  if (options.check) return check_link(options.link, options.queue_ms, nodes);

  sigprocmask(SIG_BLOCK, &ends, nullptr);
  const int signals = signalfd(-1, &ends, SFD_CLOEXEC);
  std::printf("{\"pid\": %d, \"realtime\": %s, \"nodes\": [", getpid(), first ? "true" : "false");
  for (size_t i = 0; i < nodes.size(); ++i) {
    std::printf("%s{\"address\": \"%s\", \"namespace\": \"/proc/%d/fd/%d\"}", i == 0 ? "" : ", ",
                address_of(static_cast<int>(i)).c_str(), getpid(), nodes[i].ns);
  }
  std::printf("]}\n");
  std::fflush(stdout);
  Relay(options.queue_ms, nodes).run(signals, STDIN_FILENO);
  for (size_t i = 0; i < nodes.size(); ++i) {
    std::fprintf(stderr, "%s: %lu packets, %.1f MB on the wire, %lu dropped from a full queue, %lu lost\n",
                 address_of(static_cast<int>(i)).c_str(), nodes[i].sent, static_cast<double>(nodes[i].bytes) / 1e6,
                 nodes[i].dropped_full, nodes[i].dropped_lost);
  }
  return 0;
}
