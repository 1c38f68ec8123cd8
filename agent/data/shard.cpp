// Divides samples among agents. Every agent computes the same division from the same rng seed and takes its own part.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "agent/data/dataset.h"
#include "gossip/rng.h"
#include "kernels/check.h"

namespace starling {
namespace {

constexpr uint64_t kShardStream = 0x5348415244ull;  // "SHARD": apart from every other use of the rng seed
constexpr uint64_t kHeldOutStream = 0x48454c44ull;  // "HELD"

double draw_normal(Rng& rng) {  // Box-Muller
  const double radius = std::sqrt(-2 * std::log(1 - rng.uniform()));
  return radius * std::cos(2 * 3.14159265358979323846 * rng.uniform());
}

// The logarithm of a Gamma(shape, 1) variate (Marsaglia and Tsang 2000). The logarithm, because with a small
// shape most variates underflow a double, and then all parts of a division could be zero.
double draw_log_gamma(Rng& rng, double shape) {
  if (shape < 1) {
    const double uniform = 1 - rng.uniform();
    return draw_log_gamma(rng, shape + 1) + std::log(uniform) / shape;
  }
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double normal = draw_normal(rng);
    const double cube = (1 + c * normal) * (1 + c * normal) * (1 + c * normal);
    const double uniform = 1 - rng.uniform();
    if (cube > 0 && std::log(uniform) < 0.5 * normal * normal + d - d * cube + d * std::log(cube)) {
      return std::log(d * cube);
    }
  }
}

std::vector<double> draw_proportions(Rng& rng, double alpha, uint32_t parts) {
  std::vector<double> weight(parts);
  for (double& w : weight) w = draw_log_gamma(rng, alpha);
  const double largest = *std::max_element(weight.begin(), weight.end());
  for (double& w : weight) w = std::exp(w - largest);
  const double sum = std::accumulate(weight.begin(), weight.end(), 0.0);
  for (double& w : weight) w /= sum;
  return weight;
}

// Cuts `items` where part `shard` of `parts` equal ones lies.
void take_even(const std::vector<uint32_t>& items, uint32_t shard, uint32_t parts, std::vector<uint32_t>& mine) {
  const uint64_t n = items.size();
  mine.insert(mine.end(), items.begin() + static_cast<ptrdiff_t>(n * shard / parts),
              items.begin() + static_cast<ptrdiff_t>(n * (shard + 1) / parts));
}

std::vector<uint32_t> take_dirichlet(const std::vector<uint8_t>& labels, int64_t classes, const DataConfig& config,
                                     Rng& rng) {
  if (!(config.alpha > 0) || !std::isfinite(config.alpha)) {
    throw std::runtime_error(
        "agent.data.alpha must be a positive number (small: each agent holds few classes; "
        "large: all hold the same mixture)");
  }
  std::vector<uint32_t> mine;
  for (int64_t label = 0; label < classes; ++label) {
    std::vector<uint32_t> items;
    for (uint32_t i = 0; i < labels.size(); ++i)
      if (labels[i] == label) items.push_back(i);
    rng.shuffle(items);
    const std::vector<double> proportions = draw_proportions(rng, config.alpha, config.shard_count);
    double before = 0;
    for (uint32_t s = 0; s < config.shard; ++s) before += proportions[s];
    const auto cut = [&](double share) { return static_cast<ptrdiff_t>(std::lround(share * items.size())); };
    const ptrdiff_t first = std::min(cut(before), cut(1));
    const bool is_last = config.shard + 1 == config.shard_count;
    const ptrdiff_t last = is_last ? cut(1) : std::min(cut(before + proportions[config.shard]), cut(1));
    mine.insert(mine.end(), items.begin() + first, items.begin() + last);
  }
  return mine;
}

}  // namespace

std::vector<uint32_t> shard_indices(const std::vector<uint8_t>& labels, int64_t classes, const DataConfig& config,
                                    uint64_t rng_seed) {
  STARLING_CHECK(config.shard < config.shard_count);
  Rng rng(rng_seed ^ kShardStream);
  std::vector<uint32_t> kept;
  for (uint32_t i = 0; i < labels.size(); ++i) {
    const bool wanted = config.labels.empty() ||
                        std::find(config.labels.begin(), config.labels.end(), labels[i]) != config.labels.end();
    if (wanted) kept.push_back(i);
  }
  std::vector<uint32_t> mine;
  if (config.sharding == "all") {
    mine = kept;
  } else if (config.sharding == "iid") {
    rng.shuffle(kept);
    take_even(kept, config.shard, config.shard_count, mine);
  } else if (config.sharding == "labels") {
    for (const uint32_t i : kept) {
      if (labels[i] * uint64_t{config.shard_count} / static_cast<uint64_t>(classes) == config.shard) mine.push_back(i);
    }
  } else if (config.sharding == "dirichlet") {
    mine = take_dirichlet(labels, classes, config, rng);
  } else {
    throw std::runtime_error("agent.data.sharding is `" + config.sharding +
                             "`; it can be all, iid, labels or dirichlet");
  }
  std::sort(mine.begin(), mine.end());
  return mine;
}

HeldOut hold_out(const std::vector<uint32_t>& shard, double part, uint64_t rng_seed) {
  HeldOut samples{shard, {}};
  Rng(rng_seed ^ kHeldOutStream).shuffle(samples.kept);
  const auto count = static_cast<ptrdiff_t>(part * static_cast<double>(shard.size()));
  samples.held.assign(samples.kept.end() - count, samples.kept.end());
  samples.kept.resize(samples.kept.size() - samples.held.size());
  std::sort(samples.kept.begin(), samples.kept.end());
  std::sort(samples.held.begin(), samples.held.end());
  return samples;
}

}  // namespace starling
