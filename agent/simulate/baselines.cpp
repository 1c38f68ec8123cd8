#include "agent/simulate/baselines.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "agent/simulate/asgd.h"
#include "agent/simulate/averaged_baselines.h"
#include "gossip/rng.h"
#include "kernels/check.h"

namespace starling {
namespace {

void copy(const View& from, const View& to) { std::copy(from.data, from.data + from.count, to.data); }

std::vector<CurvePoint> run_asgd(BaselineBench& bench) {
  bench.require_sgd("asgd");
  const BaselineBench::Team team = bench.make_team();
  std::vector<TimedTrainer*> workers;
  for (const auto& trainer : team) workers.push_back(trainer.get());
  AsgdServer server(workers, bench.swarm().optimizer);
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
    if (next != at) {   // move the model to the trainer that holds the next batch
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
  static const std::vector<std::string> names = {"allreduce", "local-sgd", "parameter-server", "asgd", "serial"};
  return names;
}

std::vector<CurvePoint> run_baselines(const SimulateOptions& options, const SwarmConfig& swarm, SimTask& task,
                                      const BaselineBench::OnProgress& on_progress) {
  STARLING_CHECK(swarm.stop_after > 0);
  BaselineBench bench(options, swarm, task, on_progress);
  AveragedBaselines averaged(bench);
  const auto run = [&](const std::string& name) {
    if (name == "allreduce") return averaged.allreduce(false);
    if (name == "parameter-server") return averaged.allreduce(true);
    if (name == "local-sgd") return averaged.local_sgd();
    if (name == "asgd") return run_asgd(bench);
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
