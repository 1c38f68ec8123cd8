#include <algorithm>

#include <spdlog/spdlog.h>

#include "agent/commands/commands.h"
#include "agent/commands/flags.h"
#include "agent/config/settings.h"
#include "agent/observe/log.h"
#include "agent/observe/member_report.h"
#include "agent/observe/warnings.h"
#include "agent/process/host_address.h"
#include "agent/process/signals.h"
#include "agent/process/state_folder.h"
#include "bootstrap/router.h"
#include "gossip/net/zmq_transport.h"

namespace starling {
namespace {

constexpr Duration kStatusEvery = std::chrono::seconds(1);

// A registry does not train, so it ignores everything but membership and joining, which its router answers.
class Registry final : public Router::Handler {
 public:
  Registry(const RouterOptions& options, Transport& transport, const Clock& clock, Observer& observer)
      : router_(options, transport, clock), transport_(transport), clock_(clock), observer_(observer),
        next_status_(clock.now()) {}

  Router& router() { return router_; }

  void tick() {
    router_.tick(*this);
    if (clock_.now() < next_status_) return;
    next_status_ = clock_.now() + kStatusEvery;
    AgentStatus status = member_status(router_, transport_.counters());
    status.phase = "registry";
    observer_.on(status);
  }
  TimePoint next_deadline() const { return std::min(router_.next_deadline(), next_status_); }

  void on_bootstrap(const FrameHeader&, const BootstrapMessage&, const SharedBytes&) override {}
  void on_exchange(const FrameHeader&, const ExchangeMessage&, const SharedBytes&) override {}
  void on_member(const MemberEvent& event) override {
    if (const auto changed = member_changed(router_.membership(), event)) observer_.on(*changed);
  }
  void on_settings_adopted() override {
    spdlog::info("adopted the settings of the first agent; this registry now serves its swarm");
  }

 private:
  Router router_;
  Transport& transport_;
  const Clock& clock_;
  Observer& observer_;
  TimePoint next_status_;
};

// An agent without a trainer.
int run_registry(const Config& config) {
  StopSignals signals;
  const SteadyClock clock;
  const StatePlace place(config.agent.state);
  ZmqContext context;
  ZmqTransport transport(config.agent.listen, context);
  const StopSignals::WakeScope wake_on_stop(signals, [&transport] { transport.wake(); });

  PeerRecord self{place.id(), {place.generation(), 0}, advertised(config.agent, transport.local()), {}};
  self.meta.role = Role::kBootstrap;
  self.meta.name = config.agent.name.empty() ? "bootstrap" : config.agent.name;
  Log log;
  Warnings warnings(clock, nullptr, [](const std::string& text) { spdlog::warn(text); });
  Observers observers({&log, &warnings});
  Registry registry({self, config.swarm.membership, config.agent.bootstrap,
                     own_rng_seed(place.id(), place.generation()), describe_difference},
                    transport, clock, observers);
  spdlog::info("registry {} listens on {}", place.id().short_name(), transport.local().to_string());
  spdlog::info("join with: starling agent --bootstrap {} --data FOLDER", self.endpoint.to_string());

  while (!signals.stop_asked()) {
    registry.tick();
    transport.wait_until(registry.next_deadline());
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
  add_bootstrap_flag(command, cli, "of others to stay in touch with (repeatable, or with commas)");
  for (const char* usage : {"--listen HOST:PORT", "--advertise HOST:PORT", "--state FOLDER", "--name NAME"}) {
    add_config_flag(command, cli, usage);
  }
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
