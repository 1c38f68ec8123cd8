// Straight lines through measured times, for the costs that a merge plan needs. Messages wait and processes are
// preempted, so some samples are far too long; a fit leaves those out and says how many.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "compression/plan/step_model.h"

namespace starling {

// y = start + slope[0] x[0] + slope[1] x[1] ...
template <size_t N>
struct FitSample {
  std::array<double, N> x{};
  double y = 0;
};

template <size_t N>
struct LinearFit {
  double start = 0;
  std::array<double, N> slope{};
  double r_squared = 0;  // of the samples used: the part of their variance that the line explains
  // Of each number alone, its partial R^2: of the squares that the best line without it leaves, the part that it takes
  // away. Near 0: the samples do not show that it is not 0.
  double start_r_squared = 0;
  std::array<double, N> slope_r_squared{};
  size_t used = 0, left_out = 0;
};

// First the line of least absolute deviations, by reweighted least squares, which a third of bad samples do not bend.
// Then least squares over the samples within four standard deviations of it; the median estimates the deviation. The
// result is nullopt for fewer than 2 (N + 1) samples, samples that are not finite, or x that do not span N dimensions
// (all messages of one size). Deterministic. N is 1 or 2.
template <size_t N>
std::optional<LinearFit<N>> fit_line(std::span<const FitSample<N>> samples);

// Time of an exchange = latency there and back + occupancy x messages + s_per_byte x bytes on the busiest link.
struct ExchangeSample {
  double messages = 0;  // that the busiest member sent or took
  double bytes = 0;
  double seconds = 0;
};

struct LinkFit {
  LinkCost cost;
  double r_squared = 0;  // of all three together; below of each alone, as in LinearFit, 0 where it is taken as 0
  double latency_r_squared = 0, s_per_byte_r_squared = 0, occupancy_r_squared = 0;
  size_t used = 0, left_out = 0;
};

enum class [[nodiscard]] FitNews {
  kFitted,       // there is a new cost
  kTooFew,       // not enough samples, or all alike; what was fitted before stays
  kNoRate,       // the fitted time of a byte is not above zero; what was fitted before stays. Worth a warning
  kNoRateAgain,  // the same, which was said before: where a byte costs little, noise turns it to and fro
};

// What the last exchanges say of the links. Keeps a bounded window of samples, so it follows links that change.
class LinkEstimate {
 public:
  static constexpr size_t kWindow = 512;  // samples

  void add(const ExchangeSample& sample);
  FitNews refresh();
  const std::optional<LinkFit>& fit() const { return fit_; }  // of the last refresh() that gave kFitted

 private:
  std::vector<FitSample<2>> samples_;  // a ring once it is full
  size_t next_ = 0;
  bool no_rate_said_ = false;
  std::optional<LinkFit> fit_;
};

}  // namespace starling
