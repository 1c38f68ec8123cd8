#include <algorithm>

#include <spdlog/spdlog.h>

#include "agent/commands/commands.h"
#include "agent/commands/flags.h"
#include "agent/config/settings.h"
#include "agent/process/host_address.h"
#include "agent/process/signals.h"
#include "agent/process/state_folder.h"
#include "agent/run/router_log.h"
#include "bootstrap/router.h"
#include "gossip/net/zmq_transport.h"

namespace starling {
namespace {

// A registry does not train, so it ignores everything but membership and joining, which its router answers.
class Registry final : public Router::Handler {
 public:
  Registry(const RouterOptions& options, Transport& transport, const Clock& clock)
      : router_(options, transport, clock), log_(clock) {}

  Router& router() { return router_; }
  void tick() { router_.tick(*this); }

  void on_bootstrap(const FrameHeader&, const BootstrapMessage&, const SharedBytes&) override {}
  void on_exchange(const FrameHeader&, const ExchangeMessage&, const SharedBytes&) override {}
  void on_member(const MemberEvent& event) override { log_.member(router_.membership(), event); }
  void on_settings_adopted() override {
    spdlog::info("adopted the settings of the first agent; this registry now serves its swarm");
  }
  void on_frame_refused(const ReceivedFrame& frame, const char* cause) override {
    log_.refused(frame, cause, router_.counters());
  }

 private:
  Router router_;
  RouterLog log_;
};

// An agent without a trainer.
int run_registry(const Config& config) {
  StopSignals signals;
  const SteadyClock clock;
  const StatePlace place(config.agent.state);
  ZmqContext context;
  ZmqTransport transport(config.agent.listen, context);
  signals.set_wake([&transport] { transport.wake(); });

  PeerRecord self{place.id(), {place.generation(), 0}, advertised(config.agent, transport.local()), {}};
  self.meta.role = Role::kBootstrap;
  self.meta.name = config.agent.name.empty() ? "bootstrap" : config.agent.name;
  Registry registry({self, config.swarm.membership, config.agent.bootstrap,
                     own_rng_seed(place.id(), place.generation()), describe_difference},
                    transport, clock);
  spdlog::info("registry {} listens on {}", place.id().short_name(), transport.local().to_string());
  spdlog::info("join with: starling agent --bootstrap {} --data FOLDER", self.endpoint.to_string());

  while (!signals.stop_asked()) {
    registry.tick();
    transport.wait_until(std::min(registry.router().next_deadline(), clock.now() + std::chrono::seconds(1)));
  }
  registry.router().membership().announce_leave();
  const TimePoint end = clock.now() + kLastWords;
  while (clock.now() < end) {
    registry.tick();
    transport.wait_until(end);
  }
  return 0;
}

}  // namespace

void add_bootstrap(CLI::App& app, Cli& cli) {
  Subcommand command(app, "bootstrap", "a registry: answers joins, trains nothing; may die at any time");
  add_common_flags(command, cli);
  add_bootstrap_flag(command, cli, "HOST:PORT of others to stay in touch with (repeatable, or with commas)");
  for (const char* flag : {"--listen", "--advertise", "--state", "--name"}) add_config_flag(command, cli, flag);
  command.then([&cli] {
    // Not the folder of an agent, so that both can be started in the same directory.
    const char* state = std::getenv("STARLING_STATE");
    if (state == nullptr || *state == '\0') {
      cli.overrides.insert(cli.overrides.begin(), "agent.state=starling-registry");
    }
    cli.choose("bootstrap", BootstrapCommand{cli.config_path, cli.overrides}, [](const BootstrapCommand& chosen) {
      return run_registry(load_config(chosen.config_path, chosen.overrides));
    });
  });
}

}  // namespace starling
