#include "compression/plan/linear_fit.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace starling {
namespace {

constexpr int kReweightings = 50;
constexpr double kDeviationsMax = 4;
constexpr double kNormalMad = 1.4826;  // standard deviation of a normal law / its median absolute deviation
constexpr double kFlattest = 1e-9;     // a determinant of correlations below this spans no plane

template <size_t N>
struct Line {
  double start = 0;
  std::array<double, N> slope{};

  double at(const std::array<double, N>& x) const {
    double y = start;
    for (size_t i = 0; i < N; ++i) y += slope[i] * x[i];
    return y;
  }
};

template <size_t N>
bool solve(const std::array<std::array<double, N>, N>& a, const std::array<double, N>& b, std::array<double, N>& x) {
  if constexpr (N == 1) {
    if (a[0][0] < kFlattest) return false;
    x[0] = b[0] / a[0][0];
  } else {
    const double determinant = a[0][0] * a[1][1] - a[0][1] * a[1][0];
    if (determinant < kFlattest) return false;
    x[0] = (b[0] * a[1][1] - b[1] * a[0][1]) / determinant;
    x[1] = (b[1] * a[0][0] - b[0] * a[1][0]) / determinant;
  }
  return true;
}

// Diagonal of the inverse of a matrix that solve() solves.
template <size_t N>
std::array<double, N> inverse_diagonal(const std::array<std::array<double, N>, N>& a) {
  std::array<double, N> diagonal{};
  for (size_t i = 0; i < N; ++i) {
    std::array<double, N> unit{}, column{};
    unit[i] = 1;
    if (solve<N>(a, unit, column)) diagonal[i] = column[i];
  }
  return diagonal;
}

// Means of weighted samples and how they vary: each x centered and divided by its deviation, so that bytes and messages
// have like sizes.
template <size_t N>
struct Moments {
  double weight_sum = 0, mean_y = 0;
  std::array<double, N> mean{}, scale{};
  std::array<std::array<double, N>, N> a{};  // of x with x
  std::array<double, N> b{};                 // of x with y
};

template <size_t N>
std::optional<Moments<N>> moments_of(std::span<const FitSample<N>> samples, const std::vector<double>& weights) {
  Moments<N> moments;
  auto& [weight_sum, mean_y, mean, scale, a, b] = moments;
  for (size_t s = 0; s < samples.size(); ++s) {
    weight_sum += weights[s];
    mean_y += weights[s] * samples[s].y;
    for (size_t i = 0; i < N; ++i) mean[i] += weights[s] * samples[s].x[i];
  }
  if (!(weight_sum > 0)) return std::nullopt;
  mean_y /= weight_sum;
  for (double& one : mean) one /= weight_sum;
  for (size_t s = 0; s < samples.size(); ++s) {
    for (size_t i = 0; i < N; ++i) scale[i] += weights[s] * std::pow(samples[s].x[i] - mean[i], 2);
  }
  for (size_t i = 0; i < N; ++i) {
    scale[i] = std::sqrt(scale[i] / weight_sum);
    if (!(scale[i] > 1e-12 * std::abs(mean[i]))) return std::nullopt;
  }
  for (size_t s = 0; s < samples.size(); ++s) {
    const double w = weights[s] / weight_sum;
    for (size_t i = 0; i < N; ++i) {
      const double x = (samples[s].x[i] - mean[i]) / scale[i];
      b[i] += w * x * (samples[s].y - mean_y);
      for (size_t j = 0; j < N; ++j) a[i][j] += w * x * (samples[s].x[j] - mean[j]) / scale[j];
    }
  }
  return moments;
}

// Weighted least squares.
template <size_t N>
std::optional<Line<N>> least_squares(std::span<const FitSample<N>> samples, const std::vector<double>& weights) {
  const std::optional<Moments<N>> moments = moments_of<N>(samples, weights);
  std::array<double, N> slope{};
  if (!moments || !solve<N>(moments->a, moments->b, slope)) return std::nullopt;
  Line<N> line;
  line.start = moments->mean_y;
  for (size_t i = 0; i < N; ++i) {
    line.slope[i] = slope[i] / moments->scale[i];
    line.start -= line.slope[i] * moments->mean[i];
  }
  return line;
}

// The standard deviation around a line of `params` numbers, by the median. Such a line of least absolute deviations
// passes through as many samples, which say nothing of the noise.
double deviation(std::vector<double> away, size_t params) {
  const auto middle = away.begin() + static_cast<std::ptrdiff_t>((away.size() + params) / 2);
  std::nth_element(away.begin(), middle, away.end());
  return kNormalMad * *middle;
}

template <size_t N>
std::vector<double> distances(std::span<const FitSample<N>> samples, const Line<N>& line) {
  std::vector<double> result;
  for (const FitSample<N>& sample : samples) result.push_back(std::abs(sample.y - line.at(sample.x)));
  return result;
}

template <size_t N>
double rest_of(std::span<const FitSample<N>> samples, const Line<N>& line) {
  double rest = 0;
  for (const FitSample<N>& sample : samples) rest += std::pow(sample.y - line.at(sample.x), 2);
  return rest;
}

template <size_t N>
double explained(std::span<const FitSample<N>> samples, const Line<N>& line) {
  double mean = 0, total = 0;
  for (const FitSample<N>& sample : samples) mean += sample.y / static_cast<double>(samples.size());
  for (const FitSample<N>& sample : samples) total += std::pow(sample.y - mean, 2);
  return total > 0 ? 1 - rest_of(samples, line) / total : 1;
}

// Without a number the best line leaves number^2 / v more squares, where v is its entry on the diagonal of (X'X)^-1.
double partial(double number, double v, double rest) {
  const double taken = v > 0 ? number * number / v : 0;
  return taken > 0 ? taken / (taken + rest) : 0;
}

// What each number of the line explains alone; `line` is the least squares line of `samples`.
template <size_t N>
void explain_each(std::span<const FitSample<N>> samples, LinearFit<N>& fit) {
  const std::optional<Moments<N>> moments = moments_of<N>(samples, std::vector<double>(samples.size(), 1));
  const double rest = rest_of(samples, {fit.start, fit.slope}), count = static_cast<double>(samples.size());
  const std::array<double, N> diagonal = inverse_diagonal<N>(moments->a);
  std::array<double, N> mean{}, across{};
  for (size_t i = 0; i < N; ++i) {
    mean[i] = moments->mean[i] / moments->scale[i];
    fit.slope_r_squared[i] = partial(fit.slope[i] * moments->scale[i], diagonal[i] / count, rest);
  }
  double start_v = 1;
  if (solve<N>(moments->a, mean, across)) {
    for (size_t i = 0; i < N; ++i) start_v += mean[i] * across[i];
  }
  fit.start_r_squared = partial(fit.start, start_v / count, rest);
}

}  // namespace

template <size_t N>
std::optional<LinearFit<N>> fit_line(std::span<const FitSample<N>> samples) {
  if (samples.size() < 2 * (N + 1)) return std::nullopt;
  double largest = 0;
  for (const FitSample<N>& sample : samples) {
    bool finite = std::isfinite(sample.y);
    for (const double x : sample.x) finite = finite && std::isfinite(x);
    if (!finite) return std::nullopt;
    largest = std::max(largest, std::abs(sample.y));
  }
  const double tiny = 1e-12 * largest + 1e-300;  // a sample this near the line is on it
  std::vector<double> weights(samples.size(), 1);
  std::optional<Line<N>> line;
  for (int i = 0; i < kReweightings; ++i) {
    const std::optional<Line<N>> next = least_squares<N>(samples, weights);
    if (!next) break;  // the line passes through samples that lie in a row, and they have all the weight: near enough
    line = next;
    const std::vector<double> away = distances<N>(samples, *line);
    for (size_t s = 0; s < samples.size(); ++s) weights[s] = tiny / std::max(away[s], tiny);
  }
  if (!line) return std::nullopt;
  const std::vector<double> away = distances<N>(samples, *line);
  const double bound = std::max(kDeviationsMax * deviation(away, N + 1), 1e6 * tiny);
  std::vector<FitSample<N>> used;
  for (size_t s = 0; s < samples.size(); ++s) {
    if (away[s] <= bound) used.push_back(samples[s]);
  }
  line = least_squares<N>(std::span<const FitSample<N>>(used), std::vector<double>(used.size(), 1));
  if (!line || used.size() < 2 * (N + 1)) return std::nullopt;
  LinearFit<N> fit{.start = line->start,
                   .slope = line->slope,
                   .r_squared = explained<N>(used, *line),
                   .used = used.size(),
                   .left_out = samples.size() - used.size()};
  explain_each<N>(used, fit);
  return fit;
}

template std::optional<LinearFit<1>> fit_line(std::span<const FitSample<1>>);
template std::optional<LinearFit<2>> fit_line(std::span<const FitSample<2>>);

void LinkEstimate::add(const ExchangeSample& sample) {
  const FitSample<2> one{{sample.messages, sample.bytes}, sample.seconds};
  if (samples_.size() < kWindow)
    samples_.push_back(one);
  else
    samples_[next_] = one;
  next_ = (next_ + 1) % kWindow;
}

FitNews LinkEstimate::refresh() {
  const auto line = fit_line<2>(samples_);
  if (!line) return FitNews::kTooFew;
  if (!(line->slope[1] > 0)) return std::exchange(no_rate_said_, true) ? FitNews::kNoRateAgain : FitNews::kNoRate;
  // Noise may put the two small ones below zero; they cannot be.
  const LinkCost cost{.latency_s = std::max(0.0, line->start / 2),
                      .s_per_byte = line->slope[1],
                      .occupancy_s = std::max(0.0, line->slope[0])};
  fit_ = LinkFit{.cost = cost,
                 .r_squared = line->r_squared,
                 .latency_r_squared = cost.latency_s > 0 ? line->start_r_squared : 0,
                 .s_per_byte_r_squared = line->slope_r_squared[1],
                 .occupancy_r_squared = cost.occupancy_s > 0 ? line->slope_r_squared[0] : 0,
                 .used = line->used,
                 .left_out = line->left_out};
  return FitNews::kFitted;
}

}  // namespace starling
