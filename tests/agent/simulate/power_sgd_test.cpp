// PowerSGD's arithmetic: what low rank reproduces, what error feedback keeps, which bytes it counts.
#include "agent/simulate/power_sgd.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "agent/train/model_plan.h"

namespace starling {
namespace {

using Gradients = std::vector<std::vector<float>>;

constexpr size_t kRows = 12, kColumns = 17, kOffset = 5, kElements = 240;
const Matrix kMatrix{kOffset, kRows, kColumns};

// Sums of so many outer products in the matrix, and values around it.
Gradients draw_gradients(size_t workers, size_t rank, uint64_t rng_seed) {
  Rng rng(rng_seed);
  const auto draw = [&] { return 2 * rng.uniform() - 1; };
  std::vector<double> right(kColumns * rank);
  for (double& value : right) value = draw();  // the same of all workers, so that their mean has this rank too
  Gradients gradients(workers, std::vector<float>(kElements));
  for (std::vector<float>& gradient : gradients) {
    for (float& value : gradient) value = static_cast<float>(draw());
    for (size_t row = 0; row < kRows; ++row) {
      std::vector<double> left(rank);
      for (double& value : left) value = draw();
      for (size_t column = 0; column < kColumns; ++column) {
        double sum = 0;
        for (size_t k = 0; k < rank; ++k) sum += left[k] * right[column * rank + k];
        gradient[kOffset + row * kColumns + column] = static_cast<float>(sum);
      }
    }
  }
  return gradients;
}

std::vector<double> mean_of(const Gradients& gradients) {
  std::vector<double> mean(kElements);
  for (const auto& gradient : gradients) {
    for (size_t i = 0; i < kElements; ++i) mean[i] += gradient[i] / static_cast<double>(gradients.size());
  }
  return mean;
}

double worst_difference(const std::vector<float>& a, const std::vector<double>& b) {
  double worst = 0;
  for (size_t i = 0; i < kElements; ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
  return worst;
}

TEST(MakeOrthonormal, KeepsWhatIsIndependentAndDropsTheRest) {
  std::vector<double> vectors = {-3, 4, 0, 6, -8, 0, 0, 0, 0, 1, 1, -2};  // four in three dimensions
  make_orthonormal(vectors, 3);
  const std::vector<double> expected = {0.6, -0.8, 0, 0, 0, 0, 0, 0, 0};
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(vectors[i], expected[i], 1e-15) << i;
  EXPECT_NEAR(vectors[9] * 0.6 - vectors[10] * 0.8, 0, 1e-15);
  EXPECT_NEAR(vectors[9] * vectors[9] + vectors[10] * vectors[10] + vectors[11] * vectors[11], 1, 1e-15);
  EXPECT_GT(vectors[9], 0);
}

TEST(PowerSgd, AMatrixOfItsRankIsReproducedInOneStep) {
  for (const size_t rank : {1, 2, 4}) {
    for (const size_t own : {size_t{1}, rank}) {
      const Gradients gradients = draw_gradients(3, own, 7 * rank + own);
      PowerSgd power({kMatrix}, kElements, 3, static_cast<uint32_t>(rank), 1);
      EXPECT_LT(worst_difference(power.reduce(gradients), mean_of(gradients)), 1e-6) << own << " of " << rank;
    }
    const Gradients above = draw_gradients(3, rank + 1, 7);
    PowerSgd power({kMatrix}, kElements, 3, static_cast<uint32_t>(rank), 1);
    EXPECT_GT(worst_difference(power.reduce(above), mean_of(above)), 1e-2) << rank;
  }
}

TEST(PowerSgd, ARankAboveASideIsThatSide) {
  const Gradients gradients = draw_gradients(2, kRows, 3);
  PowerSgd power({kMatrix}, kElements, 2, 1000, 1);
  EXPECT_LT(worst_difference(power.reduce(gradients), mean_of(gradients)), 1e-6);
  EXPECT_EQ(power.second_bytes(), 4.0 * kColumns * kRows);
}

// What was applied and what is still kept are together what was handed in, over any number of steps.
TEST(PowerSgd, ErrorFeedbackConserves) {
  constexpr size_t kWorkers = 3;
  PowerSgd power({kMatrix}, kElements, kWorkers, 2, 1);
  std::vector<double> given(kElements), applied(kElements);
  for (uint64_t step = 0; step < 50; ++step) {
    const Gradients gradients = draw_gradients(kWorkers, kRows, 100 + step);
    const std::vector<double> mean = mean_of(gradients);
    const std::vector<float> out = power.reduce(gradients);
    double kept = 0;
    for (size_t i = 0; i < kElements; ++i) {
      given[i] += mean[i];
      applied[i] += out[i];
      double error = 0;
      for (size_t w = 0; w < kWorkers; ++w) error += power.error(w)[i] / kWorkers;
      EXPECT_NEAR(applied[i] + error, given[i], 1e-4) << "element " << i << ", step " << step;
      kept += error * error;
      const bool in_matrix = i >= kOffset && i < kOffset + kRows * kColumns;
      EXPECT_TRUE(in_matrix || error == 0);
    }
    EXPECT_GT(kept, 1) << "nothing was left out: rank 2 of 12 cannot hold this";
  }
}

// A warm start finds the largest directions of a gradient that stays: without error feedback this is power iteration.
TEST(PowerSgd, TheNextStepBeginsWithTheQBefore) {
  std::vector<float> gradient(kElements);
  for (size_t row = 0; row < kRows; ++row) {  // singular values .8^row
    gradient[kOffset + row * kColumns + row] = static_cast<float>(std::pow(0.8, static_cast<double>(row)));
  }
  double first = 0, last = 0;
  PowerSgd warm({kMatrix}, kElements, 1, 1, 1);
  std::vector<float> handed_in = gradient;
  for (int step = 0; step < 30; ++step) {
    const std::vector<float> out = warm.reduce({handed_in});
    last = out[kOffset];
    if (step == 0) first = last;
    for (size_t i = 0; i < kElements; ++i) {  // takes the error out again, so that M is the same in each step
      handed_in[i] = static_cast<float>(gradient[i] - warm.error(0)[i]);
    }
  }
  EXPECT_LT(first, 0.95);
  EXPECT_GT(last, 0.999);
}

TEST(PowerSgd, AGradientOfZerosDoesNotEndItsIteration) {
  PowerSgd power({kMatrix}, kElements, 1, 2, 1);
  for (const float value : power.reduce({std::vector<float>(kElements)})) EXPECT_EQ(value, 0);
  const Gradients gradients = draw_gradients(1, 2, 5);
  EXPECT_LT(worst_difference(power.reduce(gradients), mean_of(gradients)), 1e-6);
}

// All columns of P are then the same but for their length and rounding.
TEST(PowerSgd, DependentColumnsAreNotCountedTwice) {
  std::vector<float> gradient(kElements);
  for (size_t i = 0; i < kRows * kColumns; ++i) {
    gradient[kOffset + i] = static_cast<float>((i / kColumns + 1) * (i % kColumns + 3));  // exactly of rank 1
  }
  PowerSgd power({kMatrix}, kElements, 1, 4, 1);
  for (int step = 0; step < 3; ++step) {
    EXPECT_LT(worst_difference(power.reduce({gradient}), mean_of({gradient})), 1e-4) << step;
  }
}

TEST(PowerSgd, BytesAreThoseOfTheFactorsAndOfWhatIsNoMatrix) {
  const PowerSgd two({kMatrix, {210, 3, 10}}, kElements, 4, 2, 1);
  EXPECT_EQ(two.first_bytes(), 4.0 * (kElements - kRows * kColumns - 30 + 2 * kRows + 2 * 3));
  EXPECT_EQ(two.second_bytes(), 4.0 * (2 * kColumns + 2 * 10));
}

TEST(PowerSgd, MatricesAreTheWeightsOfANetwork) {
  ModelConfig model;
  model.kind = "cnn";
  const ModelPlan plan = plan_model(model);
  const auto matrices = gradient_matrices(model);
  ASSERT_EQ(matrices.size(), 3u);
  EXPECT_EQ(matrices[1].rows, 16u);  // an output channel each
  EXPECT_EQ(matrices[1].columns, 8u * 5 * 5);
  EXPECT_EQ(matrices[1].offset, plan.slots[2].offset);
  model.kind = "quadratic";
  try {
    gradient_matrices(model);
    FAIL() << "a vector has no matrix";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("compare with allreduce"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace starling
