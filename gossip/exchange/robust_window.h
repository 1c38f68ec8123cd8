// The last 64 numbers of a series, with their median and spread. Deadline and guard derive from it what is usual.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

namespace starling {

// Of two middle values the smaller one. REQUIRES: there are any.
inline double lower_median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Of two middle values the larger one. REQUIRES: there are any.
inline double upper_median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

class RobustWindow {
 public:
  static constexpr size_t kCapacity = 64;

  void add(double value) {
    values_[next_] = value;
    next_ = (next_ + 1) % kCapacity;
    size_ = std::min(size_ + 1, kCapacity);
  }
  size_t size() const { return size_; }

  // The upper median (of two middle values the larger one). REQUIRES: size() > 0.
  double median() const { return part_of(values_, size_ / 2); }

  // A quarter of the values is smaller. REQUIRES: size() > 0.
  double lower_quartile() const { return part_of(values_, size_ / 4); }

  // Median absolute deviation from `center`. REQUIRES: size() > 0.
  double deviation(double center) const {
    std::array<double, kCapacity> distances{};
    for (size_t i = 0; i < size_; ++i) distances[i] = std::abs(values_[i] - center);
    return part_of(distances, size_ / 2);
  }

 private:
  // The value that so many others are not larger than.
  double part_of(std::array<double, kCapacity> values, size_t others) const {
    const auto at = values.begin() + static_cast<std::ptrdiff_t>(others);
    std::nth_element(values.begin(), at, values.begin() + static_cast<std::ptrdiff_t>(size_));
    return *at;
  }

  std::array<double, kCapacity> values_{};
  size_t size_ = 0, next_ = 0;
};

}  // namespace starling
