// PowerSGD (Vogels, Karimireddy, Jaggi 2019, arXiv:1905.13727, algorithms 1 and 2). Each matrix M of the gradient, plus
// what was left out earlier, becomes P Q^T of low rank by one step of power iteration, which begins with the last Q.
//
// All members take part in two all-reduces:
//   P = mean of M Q; P's columns made orthonormal; Q = mean of M^T P; all apply P Q^T and keep M - P Q^T
// Biases, and all that is no matrix, are averaged as they are. A convolution's kernel is a matrix with a row for each
// output channel. Computed in doubles: what fp32 rounds on the wire is left out, and so is the time all this takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "agent/train/model_plan.h"
#include "gossip/rng.h"

namespace starling {

// The columns of a matrix of `columns` vectors of `rows` values, one vector after the other: made orthonormal from the
// first on. One that depends on those before it becomes zero. The first nonzero element of each is positive.
void make_orthonormal(std::vector<double>& vectors, size_t rows);

// The matrices of a built-in network. Throws std::runtime_error with a remedy where there are none.
std::vector<Matrix> gradient_matrices(const ModelConfig& model);

class PowerSgd {
 public:
  // Gradients have `elements` elements. A matrix with fewer rows or columns than `rank` has those as its rank.
  // REQUIRES: matrices that do not overlap and lie within the elements; workers and rank at least 1.
  PowerSgd(std::vector<Matrix> matrices, size_t elements, size_t workers, uint32_t rank, uint64_t rng_seed);

  // One step. REQUIRES: a gradient of each worker, finite. Returns what all apply in place of the mean gradient.
  std::vector<float> reduce(const std::vector<std::vector<float>>& gradients);

  // What this worker has left out so far; zero outside the matrices.
  const std::vector<double>& error(size_t worker) const { return errors_[worker]; }

  // Of one member's payload in fp32: P of all matrices with all that is no matrix; Q.
  double first_bytes() const { return 4.0 * static_cast<double>(first_); }
  double second_bytes() const { return 4.0 * static_cast<double>(second_); }

 private:
  struct Factor {
    Matrix matrix;
    size_t rank = 0;
    std::vector<double> q;  // columns x rank, row by row: of the step before
  };
  void approximate(Factor& factor, std::vector<double>& mean);
  double draw();

  Rng rng_;
  std::vector<Factor> factors_;
  std::vector<bool> in_matrix_;              // by element
  std::vector<std::vector<double>> errors_;  // by worker
  size_t first_ = 0, second_ = 0;            // elements
};

}  // namespace starling
