#include <algorithm>

#include <spdlog/spdlog.h>

#include "agent/commands/commands.h"
#include "agent/process/host_address.h"
#include "agent/process/signals.h"
#include "agent/process/state_folder.h"
#include "agent/run/node.h"
#include "gossip/net/zmq_transport.h"

namespace starling {
namespace {

// A registry has nothing to train with: what is not membership or joining is not for it.
class Registry final : public Node::Handler {
 public:
  void on_bootstrap(const FrameHeader&, const BootstrapMessage&, const SharedBytes&) override {}
  void on_exchange(const FrameHeader&, const ExchangeMessage&, const SharedBytes&) override {}
  void on_member(const MemberEvent&) override {}
};

}  // namespace

int run_bootstrap_command(const Config& config) {
  StopSignals signals;
  const SteadyClock clock;
  const StatePlace place(config.agent.state);
  ZmqContext context;
  ZmqTransport transport(config.agent.listen, context);
  signals.set_wake([&transport] { transport.wake(); });

  PeerRecord self{place.id(), {place.generation(), 0}, advertised(config.agent, transport.local()), {}};
  self.meta.role = Role::kBootstrap;
  self.meta.name = config.agent.name.empty() ? "bootstrap" : config.agent.name;
  Node node(self, config.swarm.membership, config.agent.bootstrap, transport, clock,
            own_rng_seed(place.id(), place.generation()));
  Registry registry;
  spdlog::info("registry {} listens on {}", place.id().short_name(), transport.local().to_string());
  spdlog::info("join with: starling agent --bootstrap {} --data FOLDER", self.endpoint.to_string());

  while (!signals.stop_asked()) {
    node.tick(registry);
    transport.wait_until(std::min(node.next_deadline(), clock.now() + std::chrono::seconds(1)));
  }
  node.membership().announce_leave();
  const TimePoint end = clock.now() + kLastWords;
  while (clock.now() < end) {
    node.tick(registry);
    transport.wait_until(end);
  }
  return 0;
}

}  // namespace starling
