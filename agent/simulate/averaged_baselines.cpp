#include "agent/simulate/averaged_baselines.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "agent/train/model_plan.h"
#include "compression/plan/merge_plan.h"
#include "kernels/check.h"

namespace starling {
namespace {

// Writes the arithmetic mean of views of equal size to all of them.
void average(const std::vector<View>& views) {
  for (size_t i = 0; i < views[0].count; ++i) {
    double sum = 0;
    for (const View& view : views) sum += view.data[i];
    const auto mean = static_cast<float>(sum / static_cast<double>(views.size()));
    for (const View& view : views) view.data[i] = mean;
  }
}

}  // namespace

double AllreduceTimes::best_s() const { return std::min({ring_s, halving_doubling_s, two_latencies_s}); }

AllreduceTimes allreduce_times(size_t agents, double bytes, const SimLink& link) {
  if (agents < 2) return {};
  const auto n = static_cast<double>(agents);
  const auto power = static_cast<double>(std::bit_floor(agents));
  AllreduceTimes times;
  times.ring_s = 2 * (n - 1) * (link.latency_s + link.transfer_s(bytes / n));
  times.halving_doubling_s = 2 * (std::log2(power) * link.latency_s + link.transfer_s(bytes * (power - 1) / power));
  if (power < n) times.halving_doubling_s += 2 * (link.latency_s + link.transfer_s(bytes));
  times.two_latencies_s = 2 * (link.latency_s + link.transfer_s(bytes * (n - 1) / n));
  return times;
}

std::vector<ReadyGradient> ready_gradients(const ModelConfig& model, double backward_s) {
  std::vector<ReadyGradient> gradients;
  if (model.kind == "quadratic") return {{model.dimension, backward_s}};
  const ModelPlan plan = plan_model(model);
  for (const ParamSlot& slot : plan.slots) gradients.push_back({slot.count, 0});
  std::reverse(gradients.begin(), gradients.end());
  double elements = 0;
  for (const ReadyGradient& gradient : gradients) elements += static_cast<double>(gradient.elements);
  for (ReadyGradient& gradient : gradients) {
    gradient.backward_s = backward_s * static_cast<double>(gradient.elements) / elements;
  }
  return gradients;
}

StepModel backward_model(const std::vector<ReadyGradient>& gradients, const std::vector<double>& bytes,
                         double latency_s, const std::function<double(double bytes)>& send_s) {
  STARLING_CHECK(gradients.size() == bytes.size());
  std::vector<double> backward_s;
  std::vector<uint64_t> elements;
  std::vector<BucketCost> buckets;
  for (size_t first = 0; first < gradients.size(); ++first) {
    backward_s.push_back(gradients[first].backward_s);
    elements.push_back(gradients[first].elements);
    double sum = 0;
    for (size_t last = first; last < gradients.size(); ++last) {
      sum += bytes[last];
      buckets.push_back({.send_s = send_s(sum)});
    }
  }
  return StepModel(std::move(backward_s), std::move(elements), std::move(buckets), latency_s);
}

double bucketed_seconds(const std::vector<ReadyGradient>& gradients, size_t agents, const SimLink& link) {
  std::vector<double> bytes;
  for (const ReadyGradient& gradient : gradients) bytes.push_back(4.0 * static_cast<double>(gradient.elements));
  const StepModel model = backward_model(gradients, bytes, 0,
                                         [&](double bucket) { return allreduce_times(agents, bucket, link).best_s(); });
  double best_s = std::numeric_limits<double>::infinity();
  for (const uint64_t bytes : kBucketBytes) best_s = std::min(best_s, step_end_s(model, plan_by_bytes(model, bytes)));
  return best_s;
}

double server_seconds(size_t agents, double bytes, const SimLink& link) {
  return 2 * link.latency_s + link.transfer_s(2 * static_cast<double>(agents) * bytes);
}

// Every `period` steps all params become their mean. With period 1 and the momentum averaged too this *is* SGD on the
// mean gradient: from equal params and momentum, one step of each is linear in its own gradient.
const std::vector<AveragedBaselines::Mark>& AveragedBaselines::averaged(const std::string& name, uint32_t period,
                                                                        bool with_momentum) {
  const auto [found, fresh] = averaged_.try_emplace({period, with_momentum});
  std::vector<Mark>& marks = found->second;
  if (!fresh) return marks;
  const BaselineBench::Team team = bench_.make_team();
  std::vector<View> params, momenta;
  for (const auto& trainer : team) {
    params.push_back(trainer->params());
    momenta.push_back(trainer->momentum());
  }
  marks.push_back({0, bench_.score(params[0])});
  const uint64_t stop_after = bench_.swarm().stop_after;
  for (uint64_t done = 0; done < stop_after;) {
    const uint64_t before = done;
    bool finite = true;
    for (uint32_t i = 0; i < period && done < stop_after; ++i, ++done) {
      const double rate = bench_.rate(static_cast<double>(done));
      for (const auto& trainer : team) finite = bench_.step(*trainer, rate) && finite;
    }
    average(params);
    if (with_momentum) average(momenta);
    for (const auto& trainer : team) trainer->params_changed();
    bench_.progress(name, done);
    if (!finite) {
      marks.push_back({done, {std::numeric_limits<double>::quiet_NaN(), std::nullopt}});
      break;
    }
    if (bench_.wants_score(done, before)) marks.push_back({done, bench_.score(params[0])});
  }
  return marks;
}

std::vector<CurvePoint> AveragedBaselines::timed(const std::string& name, double step_s, double step_bytes) {
  std::vector<CurvePoint> points;
  for (const Mark& mark : averaged(name, 1, true)) {
    const auto steps = static_cast<double>(mark.step);
    points.push_back(bench_.point(name, steps * step_s, mark.step, steps * step_bytes, mark.score));
  }
  return points;
}

std::vector<CurvePoint> AveragedBaselines::allreduce() {
  const auto others = static_cast<double>(bench_.agents() - 1);
  averaged("allreduce", 1, true);  // payload() is known then
  const double talk_s = allreduce_times(bench_.agents(), bench_.payload(), bench_.link()).best_s();
  return timed("allreduce", bench_.slowest_compute_s() + talk_s, 2 * others * bench_.payload());
}

std::vector<CurvePoint> AveragedBaselines::allreduce_buckets() {
  const auto others = static_cast<double>(bench_.agents() - 1);
  averaged("allreduce-buckets", 1, true);
  const double forward_s = bench_.slowest_compute_s() / TimedTrainer::kForwardPart;
  const auto gradients = ready_gradients(bench_.swarm().model, bench_.slowest_compute_s() - forward_s);
  const double rest_s = bucketed_seconds(gradients, bench_.agents(), bench_.link());
  return timed("allreduce-buckets", forward_s + rest_s, 2 * others * bench_.payload());
}

std::vector<CurvePoint> AveragedBaselines::parameter_server() {
  const auto agents = static_cast<double>(bench_.agents());
  averaged("parameter-server", 1, true);
  const double talk_s = server_seconds(bench_.agents(), bench_.payload(), bench_.link());
  return timed("parameter-server", bench_.slowest_compute_s() + talk_s, 2 * agents * bench_.payload());
}

// Momentum is not averaged, as in post-local SGD.
std::vector<CurvePoint> AveragedBaselines::local_sgd() {
  const uint32_t own = bench_.swarm().local_steps, period = own > 1 ? own : kLocalSgdStepsDefault;
  const std::vector<Mark>& marks = averaged("local-sgd", period, false);
  const double payload = bench_.payload(), talk_s = allreduce_times(bench_.agents(), payload, bench_.link()).best_s();
  std::vector<CurvePoint> points;
  for (const Mark& mark : marks) {
    const auto rounds = static_cast<double>((mark.step + period - 1) / period);
    const auto agents = static_cast<double>(bench_.agents());
    const double time_s = static_cast<double>(mark.step) * bench_.slowest_compute_s() + rounds * talk_s;
    points.push_back(bench_.point("local-sgd", time_s, mark.step, rounds * 2 * (agents - 1) * payload, mark.score));
  }
  return points;
}

}  // namespace starling
