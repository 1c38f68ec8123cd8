#include "agent/simulate/power_sgd.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "kernels/check.h"

namespace starling {
namespace {

constexpr double kDependent = 1e-9;  // of a vector's length: what is left of it after those before is rounding

}  // namespace

void make_orthonormal(std::vector<double>& vectors, size_t rows) {
  const auto dot = [&](size_t a, size_t b) {
    double sum = 0;
    for (size_t i = 0; i < rows; ++i) sum += vectors[a + i] * vectors[b + i];
    return sum;
  };
  for (size_t at = 0; at < vectors.size(); at += rows) {
    const double whole = std::sqrt(dot(at, at));
    for (size_t before = 0; before < at; before += rows) {
      const double share = dot(before, at);
      for (size_t i = 0; i < rows; ++i) vectors[at + i] -= share * vectors[before + i];
    }
    const double left = std::sqrt(dot(at, at));
    const auto begin = vectors.begin() + static_cast<std::ptrdiff_t>(at);
    const auto end = begin + static_cast<std::ptrdiff_t>(rows);
    if (left <= kDependent * whole) {
      std::fill(begin, end, 0.0);
      continue;
    }
    const auto first = std::find_if(begin, end, [](double value) { return value != 0; });
    const double factor = (*first < 0 ? -1 : 1) / left;
    std::transform(begin, end, begin, [factor](double value) { return value * factor; });
  }
}

std::vector<Matrix> gradient_matrices(const ModelConfig& model) {
  std::vector<Matrix> matrices;
  if (model.kind != "quadratic") matrices = model_matrices(model);
  if (matrices.empty()) {
    throw std::runtime_error("--baseline powersgd-N compresses the matrices of a network, and model " + model.kind +
                             " has none; compare with allreduce, or train a network");
  }
  return matrices;
}

PowerSgd::PowerSgd(std::vector<Matrix> matrices, size_t elements, size_t workers, uint32_t rank, uint64_t rng_seed)
    : rng_(rng_seed ^ 0x504f574552ull),
      in_matrix_(elements),
      errors_(workers, std::vector<double>(elements)),
      first_(elements) {  // "POWER"
  STARLING_CHECK(workers >= 1 && rank >= 1);
  for (const Matrix& matrix : matrices) {
    const size_t count = matrix.rows * matrix.columns;
    STARLING_CHECK(matrix.offset + count <= elements);
    Factor factor{matrix, std::min({size_t{rank}, matrix.rows, matrix.columns}), {}};
    for (size_t i = 0; i < matrix.columns * factor.rank; ++i) factor.q.push_back(draw());
    first_ = first_ - count + matrix.rows * factor.rank;
    second_ += matrix.columns * factor.rank;
    std::fill_n(in_matrix_.begin() + static_cast<std::ptrdiff_t>(matrix.offset), count, true);
    factors_.push_back(std::move(factor));
  }
}

// Nearly normal, and without functions that differ between machines.
double PowerSgd::draw() {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += rng_.uniform();
  return sum;
}

// M -> P Q^T in place, of the workers' mean: the mean of products with one Q is the product with the mean.
void PowerSgd::approximate(Factor& factor, std::vector<double>& mean) {
  const auto [offset, rows, columns] = factor.matrix;
  const size_t rank = factor.rank;
  double* const m = mean.data() + offset;
  std::vector<double> p(rows * rank), q(columns * rank);
  for (size_t row = 0; row < rows; ++row) {
    for (size_t column = 0; column < columns; ++column) {
      for (size_t k = 0; k < rank; ++k) p[k * rows + row] += m[row * columns + column] * factor.q[column * rank + k];
    }
  }
  make_orthonormal(p, rows);
  for (size_t row = 0; row < rows; ++row) {
    for (size_t column = 0; column < columns; ++column) {
      for (size_t k = 0; k < rank; ++k) q[column * rank + k] += m[row * columns + column] * p[k * rows + row];
    }
  }
  for (size_t row = 0; row < rows; ++row) {
    for (size_t column = 0; column < columns; ++column) {
      double value = 0;
      for (size_t k = 0; k < rank; ++k) value += p[k * rows + row] * q[column * rank + k];
      m[row * columns + column] = value;
    }
  }
  factor.q = std::move(q);
  for (size_t k = 0; k < rank; ++k) {  // a column of zeros would stay one in all steps to come
    bool zero = true;
    for (size_t column = 0; column < columns && zero; ++column) zero = factor.q[column * rank + k] == 0;
    for (size_t column = 0; column < columns && zero; ++column) factor.q[column * rank + k] = draw();
  }
}

std::vector<float> PowerSgd::reduce(const std::vector<std::vector<float>>& gradients) {
  STARLING_CHECK(gradients.size() == errors_.size());
  std::vector<double> mean(in_matrix_.size());
  for (size_t w = 0; w < errors_.size(); ++w) {
    STARLING_CHECK(gradients[w].size() == mean.size());
    for (size_t i = 0; i < mean.size(); ++i) {
      errors_[w][i] += gradients[w][i];
      mean[i] += errors_[w][i] / static_cast<double>(errors_.size());
    }
  }
  for (Factor& factor : factors_) approximate(factor, mean);
  for (std::vector<double>& error : errors_) {
    for (size_t i = 0; i < mean.size(); ++i) error[i] = in_matrix_[i] ? error[i] - mean[i] : 0;
  }
  return {mean.begin(), mean.end()};
}

}  // namespace starling
