#include "agent/simulate/baselines.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <stdexcept>

#include "agent/simulate/asgd.h"
#include "agent/simulate/timed_trainer.h"
#include "agent/train/schedule.h"
#include "gossip/rng.h"
#include "gossip/sim/virtual_clock.h"
#include "kernels/check.h"

namespace starling {
namespace {

using OnProgress = std::function<void(const std::string& name, uint64_t step)>;

// Writes the arithmetic mean of views of equal size to all of them.
void average(const std::vector<View>& views) {
  for (size_t i = 0; i < views[0].count; ++i) {
    double sum = 0;
    for (const View& view : views) sum += view.data[i];
    const auto mean = static_cast<float>(sum / static_cast<double>(views.size()));
    for (const View& view : views) view.data[i] = mean;
  }
}

void copy(const View& from, const View& to) { std::copy(from.data, from.data + from.count, to.data); }

class Baselines {
 public:
  Baselines(const SimulateOptions& options, const SwarmConfig& swarm, SimTask& task, const OnProgress& on_progress)
      : options_(options), swarm_(swarm), task_(task), on_progress_(on_progress),
        every_(steps_between_scores(options, swarm.stop_after)), shards_(options.agents) {
    link_ = {seconds(options.latency) + 0.5 * seconds(options.jitter), options.bytes_per_s};
    std::iota(shards_.begin(), shards_.end(), 0);
    for (size_t a = 0; a < options.agents; ++a) {
      compute_s_.push_back(seconds(step_time_of(options, a)));
      slowest_s_ = std::max(slowest_s_, compute_s_.back());
    }
  }

  std::vector<CurvePoint> run(const std::string& name);

 private:
  struct Mark {
    uint64_t step;
    SimScore score;
  };
  using Team = std::vector<std::unique_ptr<TimedTrainer>>;

  size_t n() const { return options_.agents; }
  double payload() const { return 4.0 * static_cast<double>(param_count_); }   // fp32, nothing compressed
  uint32_t batch() const { return swarm_.batch; }
  double rate(double step) const {
    return swarm_.optimizer.learning_rate *
           schedule_factor(swarm_.optimizer, static_cast<uint64_t>(step), swarm_.stop_after);
  }
  bool wants_score(uint64_t step, uint64_t before) const {
    return step / every_ != before / every_ || step == swarm_.stop_after;
  }
  void require_sgd(const std::string& name) const;
  std::unique_ptr<TimedTrainer> wrap(const TimedTrainer::Make& make);
  Team make_team();
  SimScore score(const View& params) { return task_.score({params.data, params.count}, shards_); }
  bool step(TimedTrainer& trainer, double learning_rate) const;
  CurvePoint point(const std::string& name, double time_s, uint64_t step, double bytes, const SimScore& score) const;

  const std::vector<Mark>& averaged(const std::string& name, uint32_t period, bool with_momentum);
  std::vector<CurvePoint> run_allreduce(bool server);
  std::vector<CurvePoint> run_local_sgd();
  std::vector<CurvePoint> run_asgd();
  std::vector<CurvePoint> run_serial();

  const SimulateOptions& options_;
  const SwarmConfig& swarm_;
  SimTask& task_;
  const OnProgress& on_progress_;
  const uint64_t every_;
  SimLink link_;
  std::vector<size_t> shards_;
  std::vector<double> compute_s_;
  double slowest_s_ = 0;
  size_t param_count_ = 0;
  VirtualClock clock_;     // stands still: times are computed
  std::map<std::pair<uint32_t, bool>, std::vector<Mark>> averaged_;   // one trajectory, timed for several baselines
};

// Averaging params equals averaging gradients only for SGD: Adam's second moment is not linear in the gradients, and
// Trainer does not expose it.
void Baselines::require_sgd(const std::string& name) const {
  if (swarm_.optimizer.kind == "sgd") return;
  throw std::runtime_error("--baseline " + name + " averages gradients, which needs swarm.optimizer.kind sgd, not " +
                           swarm_.optimizer.kind + "; compare with local-sgd or serial");
}

std::unique_ptr<TimedTrainer> Baselines::wrap(const TimedTrainer::Make& make) {
  auto trainer = std::make_unique<TimedTrainer>(make, clock_, Duration::zero());
  param_count_ = trainer->params().count;
  return trainer;
}

Baselines::Team Baselines::make_team() {
  Team team;
  for (size_t a = 0; a < n(); ++a) {
    team.push_back(wrap([&](std::function<void()> on_idle) {
      return task_.make(a, swarm_, clock_, std::move(on_idle));
    }));
  }
  return team;
}

// False: the loss is not finite any more.
bool Baselines::step(TimedTrainer& trainer, double learning_rate) const {
  trainer.start_steps({1, learning_rate});
  return trainer.take_steps().finite;
}

CurvePoint Baselines::point(const std::string& name, double time_s, uint64_t step, double bytes,
                            const SimScore& score) const {
  CurvePoint point{name, std::nullopt, time_s};
  point.step = step;
  point.samples = step * n() * batch();
  point.bytes = static_cast<uint64_t>(std::llround(bytes));
  point.score = score;
  return point;
}

// Every `period` steps all params become their mean. With period 1 and the momentum averaged too this *is* SGD on the
// mean gradient: from equal params and momentum, one step of each is linear in its own gradient.
const std::vector<Baselines::Mark>& Baselines::averaged(const std::string& name, uint32_t period, bool with_momentum) {
  const auto [found, fresh] = averaged_.try_emplace({period, with_momentum});
  std::vector<Mark>& marks = found->second;
  if (!fresh) return marks;
  const Team team = make_team();
  std::vector<View> params, momenta;
  for (const auto& trainer : team) {
    params.push_back(trainer->params());
    momenta.push_back(trainer->momentum());
  }
  marks.push_back({0, score(params[0])});
  for (uint64_t done = 0; done < swarm_.stop_after;) {
    const uint64_t before = done;
    bool finite = true;
    for (uint32_t i = 0; i < period && done < swarm_.stop_after; ++i, ++done) {
      for (const auto& trainer : team) finite = step(*trainer, rate(static_cast<double>(done))) && finite;
    }
    average(params);
    if (with_momentum) average(momenta);
    for (const auto& trainer : team) trainer->params_changed();
    on_progress_(name, done);
    if (!finite) {
      marks.push_back({done, {std::numeric_limits<double>::quiet_NaN(), std::nullopt}});
      break;
    }
    if (wants_score(done, before)) marks.push_back({done, score(params[0])});
  }
  return marks;
}

std::vector<CurvePoint> Baselines::run_allreduce(bool server) {
  const std::string name = server ? "parameter-server" : "allreduce";
  require_sgd(name);
  std::vector<CurvePoint> points;
  for (const Mark& mark : averaged(name, 1, true)) {
    const auto steps = static_cast<double>(mark.step), agents = static_cast<double>(n());
    const double talk_s = server ? server_seconds(n(), payload(), link_) : allreduce_seconds(n(), payload(), link_);
    const double sent = server ? 2 * agents * payload() : 2 * (agents - 1) * payload();
    points.push_back(point(name, steps * (slowest_s_ + talk_s), mark.step, steps * sent, mark.score));
  }
  return points;
}

// Momentum is not averaged, as in post-local SGD.
std::vector<CurvePoint> Baselines::run_local_sgd() {
  const uint32_t period = swarm_.local_steps > 1 ? swarm_.local_steps : kLocalSgdStepsDefault;
  std::vector<CurvePoint> points;
  for (const Mark& mark : averaged("local-sgd", period, false)) {
    const auto rounds = static_cast<double>((mark.step + period - 1) / period), agents = static_cast<double>(n());
    const double time_s =
        static_cast<double>(mark.step) * slowest_s_ + rounds * allreduce_seconds(n(), payload(), link_);
    points.push_back(point("local-sgd", time_s, mark.step, rounds * 2 * (agents - 1) * payload(), mark.score));
  }
  return points;
}

std::vector<CurvePoint> Baselines::run_asgd() {
  require_sgd("asgd");
  const Team team = make_team();
  std::vector<TimedTrainer*> workers;
  for (const auto& trainer : team) workers.push_back(trainer.get());
  AsgdServer server(workers, swarm_.optimizer);
  std::vector<std::vector<float>> gradients(n());
  std::vector<CurvePoint> points = {point("asgd", 0, 0, 0, score(server.params()))};
  AsgdTimeline timeline(compute_s_, link_, payload());
  uint64_t applied = 0;
  double time_s = 0;
  bool finite = true;
  for (size_t a = 0; a < n(); ++a) finite = server.compute(a, &gradients[a]) && finite;
  while (applied < swarm_.stop_after * n() && finite) {
    const AsgdTimeline::Arrival arrival = timeline.next();
    time_s = arrival.time_s;
    const auto agents = static_cast<double>(n());
    server.apply(gradients[arrival.worker], rate(static_cast<double>(applied) / agents) / agents);
    ++applied;
    if (applied % n() == 0) on_progress_("asgd", applied / n());
    if (applied % n() == 0 && wants_score(applied / n(), applied / n() - 1)) {
      points.push_back(point("asgd", time_s, applied / n(), 2 * payload() * static_cast<double>(applied),
                             score(server.params())));
    }
    timeline.send_params(arrival);
    finite = server.compute(arrival.worker, &gradients[arrival.worker]);
  }
  if (!finite) {
    points.push_back(point("asgd", time_s, applied / n(), 2 * payload() * static_cast<double>(applied),
                           {std::numeric_limits<double>::quiet_NaN(), std::nullopt}));
  }
  return points;
}

// One model that sees all shards in random order, as many samples as all agents together: the reference over samples.
std::vector<CurvePoint> Baselines::run_serial() {
  Team team;
  if (task_.has_trainer_for_all()) {
    team.push_back(wrap([this](std::function<void()> on_idle) {
      return task_.make_for_all(swarm_, clock_, std::move(on_idle));
    }));
  } else {
    team = make_team();
  }
  Rng rng(swarm_.rng_seed ^ 0x53455249414cull);
  std::vector<size_t> order(team.size());
  std::iota(order.begin(), order.end(), 0);
  TimedTrainer* at = team[0].get();
  std::vector<CurvePoint> points = {point("serial", 0, 0, 0, score(at->params()))};
  for (uint64_t done = 0; done < swarm_.stop_after * n();) {
    if (done % team.size() == 0) rng.shuffle(order);
    TimedTrainer* next = team[order[done % team.size()]].get();
    if (next != at) {   // move the model to the trainer that holds the next batch
      copy(at->params(), next->params());
      copy(at->momentum(), next->momentum());
      next->params_changed();
      at = next;
    }
    const bool finite = step(*at, rate(static_cast<double>(done) / static_cast<double>(n())));
    ++done;
    if (done % n() != 0 && finite) continue;
    const uint64_t steps = done / n();
    on_progress_("serial", steps);
    const SimScore bad{std::numeric_limits<double>::quiet_NaN(), std::nullopt};
    if (!finite || wants_score(steps, steps - 1)) {
      points.push_back(point("serial", static_cast<double>(done) * seconds(options_.compute), steps, 0,
                             finite ? score(at->params()) : bad));
    }
    if (!finite) break;
  }
  return points;
}

std::vector<CurvePoint> Baselines::run(const std::string& name) {
  if (name == "allreduce") return run_allreduce(false);
  if (name == "parameter-server") return run_allreduce(true);
  if (name == "local-sgd") return run_local_sgd();
  if (name == "asgd") return run_asgd();
  STARLING_CHECK(name == "serial");
  return run_serial();
}

}  // namespace

double allreduce_seconds(size_t agents, double bytes, const SimLink& link) {
  const auto n = static_cast<double>(agents);
  return 2 * (n - 1) * (link.latency_s + link.transfer_s(bytes / n));
}

double server_seconds(size_t agents, double bytes, const SimLink& link) {
  return 2 * link.latency_s + link.transfer_s(2 * static_cast<double>(agents) * bytes);
}

const std::vector<std::string>& baseline_names() {
  static const std::vector<std::string> names = {"allreduce", "local-sgd", "parameter-server", "asgd", "serial"};
  return names;
}

std::vector<CurvePoint> run_baselines(const SimulateOptions& options, const SwarmConfig& swarm, SimTask& task,
                                      const OnProgress& on_progress) {
  STARLING_CHECK(swarm.stop_after > 0);
  Baselines baselines(options, swarm, task, on_progress);
  std::vector<CurvePoint> all;
  for (const std::string& name : options.baselines) {
    for (CurvePoint& point : baselines.run(name)) all.push_back(std::move(point));
  }
  return all;
}

}  // namespace starling
