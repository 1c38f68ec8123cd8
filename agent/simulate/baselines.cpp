#include "agent/simulate/baselines.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string_view>

#include "agent/simulate/asgd.h"
#include "agent/simulate/averaged_baselines.h"
#include "agent/simulate/gradient_steps.h"
#include "agent/simulate/layer_top_k.h"
#include "agent/simulate/power_sgd.h"
#include "gossip/rng.h"
#include "kernels/check.h"

namespace starling {
namespace {

constexpr std::string_view kPowerSgd = "powersgd-";  // and its rank
constexpr std::string_view kTopkLayers = "topk-layers";

void copy(const View& from, const View& to) { std::copy(from.data, from.data + from.count, to.data); }

std::vector<TimedTrainer*> workers_of(const BaselineBench::Team& team) {
  std::vector<TimedTrainer*> workers;
  for (const auto& trainer : team) workers.push_back(trainer.get());
  return workers;
}

std::vector<CurvePoint> run_asgd(BaselineBench& bench) {
  const BaselineBench::Team team = bench.make_team();
  GradientSteps server(workers_of(team), bench.swarm().optimizer);
  const size_t n = bench.agents();
  std::vector<std::vector<float>> gradients(n);
  std::vector<CurvePoint> points = {bench.point("asgd", 0, 0, 0, bench.score(server.params()))};
  AsgdTimeline timeline(bench.compute_s(), bench.link(), bench.payload());
  uint64_t applied = 0;
  double time_s = 0;
  bool finite = true;
  const auto mark = [&](const SimScore& score) {
    const double bytes = 2 * bench.payload() * static_cast<double>(applied);
    points.push_back(bench.point("asgd", time_s, applied / n, bytes, score));
  };
  for (size_t a = 0; a < n; ++a) finite = server.compute(a, &gradients[a]) && finite;
  while (applied < bench.swarm().stop_after * n && finite) {
    const AsgdTimeline::Arrival arrival = timeline.next();
    time_s = arrival.time_s;
    const auto agents = static_cast<double>(n);
    server.apply(gradients[arrival.worker], bench.rate(static_cast<double>(applied) / agents) / agents);
    ++applied;
    if (applied % n == 0) bench.progress("asgd", applied / n);
    if (applied % n == 0 && bench.wants_score(applied / n, applied / n - 1)) mark(bench.score(server.params()));
    timeline.send_params(arrival);
    finite = server.compute(arrival.worker, &gradients[arrival.worker]);
  }
  if (!finite) mark({std::numeric_limits<double>::quiet_NaN(), std::nullopt});
  return points;
}

// Steps of gradients that are sent compressed. The momentum, the swarm's, lies behind the compression.
template <class Reduce>
std::vector<CurvePoint> run_compressed(BaselineBench& bench, const std::string& name, GradientSteps& steps,
                                       double step_s, double step_bytes, const Reduce& reduce) {
  std::vector<CurvePoint> points;
  const auto mark = [&](uint64_t step, const SimScore& score) {
    const auto so_many = static_cast<double>(step);
    points.push_back(bench.point(name, so_many * step_s, step, so_many * step_bytes, score));
  };
  mark(0, bench.score(steps.params()));
  std::vector<std::vector<float>> gradients(bench.agents());
  for (uint64_t done = 0; done < bench.swarm().stop_after;) {
    bool finite = true;
    for (size_t a = 0; a < gradients.size(); ++a) finite = steps.compute(a, &gradients[a]) && finite;
    if (!finite) {
      mark(done, {std::numeric_limits<double>::quiet_NaN(), std::nullopt});
      break;
    }
    steps.apply(reduce(gradients), bench.rate(static_cast<double>(done)));
    ++done;
    bench.progress(name, done);
    if (bench.wants_score(done, done - 1)) mark(done, bench.score(steps.params()));
  }
  return points;
}

// As in the paper's algorithm 2.
std::vector<CurvePoint> run_power_sgd(BaselineBench& bench, const std::string& name, uint32_t rank) {
  const std::vector<Matrix> matrices = gradient_matrices(bench.swarm().model);
  const BaselineBench::Team team = bench.make_team();
  const size_t n = bench.agents();
  GradientSteps steps(workers_of(team), bench.swarm().optimizer);
  PowerSgd power(matrices, steps.params().count, n, rank, bench.swarm().rng_seed);
  const double step_s = bench.slowest_compute_s() + allreduce_times(n, power.first_bytes(), bench.link()).best_s() +
                        allreduce_times(n, power.second_bytes(), bench.link()).best_s();
  const double step_bytes = 2 * static_cast<double>(n - 1) * (power.first_bytes() + power.second_bytes());
  return run_compressed(bench, name, steps, step_s, step_bytes,
                        [&](const std::vector<std::vector<float>>& gradients) { return power.reduce(gradients); });
}

// With the density of the swarm's updates.
std::vector<CurvePoint> run_layer_top_k(BaselineBench& bench) {
  const BaselineBench::Team team = bench.make_team();
  const size_t n = bench.agents();
  GradientSteps steps(workers_of(team), bench.swarm().optimizer);
  const std::vector<GradientLayer> layers = gradient_layers(bench.swarm().model);
  LayerTopK top(layers, steps.params().count, n, bench.swarm().exchange.update.density);
  std::vector<double> bytes;
  for (size_t layer = layers.size(); layer-- > 0;) bytes.push_back(top.layer_bytes(layer));  // backward's order
  const double forward_s = bench.slowest_compute_s() / TimedTrainer::kForwardPart;
  const auto gradients = ready_gradients(bench.swarm().model, bench.slowest_compute_s() - forward_s);
  const double step_s = forward_s + layer_top_k_seconds(gradients, bytes, n, bench.link());
  const auto agents = static_cast<double>(n);
  return run_compressed(bench, std::string(kTopkLayers), steps, step_s, agents * (agents - 1) * top.bytes(),
                        [&](const std::vector<std::vector<float>>& found) { return top.reduce(found); });
}

// One model that sees all shards in random order, as many samples as all agents together: the reference over samples.
std::vector<CurvePoint> run_serial(BaselineBench& bench) {
  const size_t n = bench.agents();
  const BaselineBench::Team team = bench.make_single();
  Rng rng(bench.swarm().rng_seed ^ 0x53455249414cull);
  std::vector<size_t> order(team.size());
  std::iota(order.begin(), order.end(), 0);
  TimedTrainer* at = team[0].get();
  std::vector<CurvePoint> points = {bench.point("serial", 0, 0, 0, bench.score(at->params()))};
  for (uint64_t done = 0; done < bench.swarm().stop_after * n;) {
    if (done % team.size() == 0) rng.shuffle(order);
    TimedTrainer* next = team[order[done % team.size()]].get();
    if (next != at) {  // move the model to the trainer that holds the next batch
      copy(at->params(), next->params());
      copy(at->momentum(), next->momentum());
      next->params_changed();
      at = next;
    }
    const bool finite = bench.step(*at, bench.rate(static_cast<double>(done) / static_cast<double>(n)));
    ++done;
    if (done % n != 0 && finite) continue;
    const uint64_t steps = done / n;
    bench.progress("serial", steps);
    const SimScore bad{std::numeric_limits<double>::quiet_NaN(), std::nullopt};
    if (!finite || bench.wants_score(steps, steps - 1)) {
      points.push_back(bench.point("serial", static_cast<double>(done) * bench.usual_compute_s(), steps, 0,
                                   finite ? bench.score(at->params()) : bad));
    }
    if (!finite) break;
  }
  return points;
}

}  // namespace

const std::vector<std::string>& baseline_names() {
  static const std::vector<std::string> names = {
      "allreduce",   "allreduce-buckets", "powersgd-1",       "powersgd-2", "powersgd-4",
      "topk-layers", "local-sgd",         "parameter-server", "asgd",       "serial"};
  return names;
}

// Averaging params equals averaging gradients only for SGD: Adam's second moment is not linear in the gradients, and
// Trainer does not expose it.
void refuse_baselines(const std::vector<std::string>& names, const SwarmConfig& swarm) {
  for (const std::string& name : names) {
    const bool any_optimizer = name == "local-sgd" || name == "serial";
    if (!any_optimizer && swarm.optimizer.kind != "sgd") {
      throw std::runtime_error("--baseline " + name +
                               " averages gradients, which needs swarm.optimizer.kind sgd, "
                               "not " +
                               swarm.optimizer.kind + "; compare with local-sgd or serial");
    }
    if (name.starts_with(kPowerSgd)) (void)gradient_matrices(swarm.model);
  }
}

std::vector<CurvePoint> run_baselines(const SimulateOptions& options, const SwarmConfig& swarm, SimTask& task,
                                      const BaselineBench::OnProgress& on_progress) {
  STARLING_CHECK(swarm.stop_after > 0);
  refuse_baselines(options.baselines, swarm);
  BaselineBench bench(options, swarm, task, on_progress);
  AveragedBaselines averaged(bench);
  const auto run = [&](const std::string& name) {
    if (name == "allreduce") return averaged.allreduce();
    if (name == "allreduce-buckets") return averaged.allreduce_buckets();
    if (name == "parameter-server") return averaged.parameter_server();
    if (name == "local-sgd") return averaged.local_sgd();
    if (name == "asgd") return run_asgd(bench);
    if (name.starts_with(kPowerSgd)) {
      return run_power_sgd(bench, name, static_cast<uint32_t>(std::stoul(name.substr(kPowerSgd.size()))));
    }
    if (name == kTopkLayers) return run_layer_top_k(bench);
    STARLING_CHECK(name == "serial");
    return run_serial(bench);
  };
  std::vector<CurvePoint> all;
  for (const std::string& name : options.baselines) {
    for (CurvePoint& point : run(name)) all.push_back(std::move(point));
  }
  return all;
}

}  // namespace starling
