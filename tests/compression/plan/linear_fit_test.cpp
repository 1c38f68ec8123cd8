#include "compression/plan/linear_fit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "tests/kernels/inputs.h"

namespace starling {
namespace {

TEST(LinearFit, FindsALineWithoutNoiseExactly) {
  std::vector<FitSample<1>> samples;
  for (int i = 0; i < 10; ++i) samples.push_back({{1000.0 * i}, 0.002 + 3e-9 * 1000 * i});
  const auto fit = fit_line<1>(samples);
  ASSERT_TRUE(fit);
  EXPECT_NEAR(fit->start, 0.002, 1e-12);
  EXPECT_NEAR(fit->slope[0], 3e-9, 1e-15);
  EXPECT_NEAR(fit->r_squared, 1, 1e-9);
  EXPECT_EQ(fit->used, 10u);
  EXPECT_EQ(fit->left_out, 0u);
}

TEST(LinearFit, IsLeastSquaresByHand) {
  // By hand: mean x 2.5, mean y 3.5, Sxy 17, Sxx 17.5, Syy 17.
  std::vector<FitSample<1>> samples;
  const double y[] = {1.5, 1.5, 3, 4, 5, 6};
  for (int i = 0; i < 6; ++i) samples.push_back({{static_cast<double>(i)}, y[i]});
  const auto fit = fit_line<1>(samples);
  ASSERT_TRUE(fit);
  ASSERT_EQ(fit->left_out, 0u);
  EXPECT_NEAR(fit->slope[0], 17.0 / 17.5, 1e-9);
  EXPECT_NEAR(fit->start, 3.5 - 2.5 * 17.0 / 17.5, 1e-9);
  EXPECT_NEAR(fit->r_squared, 17.0 * 17.0 / 17.5 / 17.0, 1e-9);
}

// Least squares by the normal equations, over those of the columns 1, x0, x1 that are asked for; the squares left.
double squares_left(std::span<const FitSample<2>> samples, const std::vector<size_t>& columns) {
  const size_t n = columns.size();
  const auto value = [&](const FitSample<2>& sample, size_t i) {
    return columns[i] == 0 ? 1.0L : static_cast<long double>(sample.x[columns[i] - 1]);
  };
  std::vector<std::vector<long double>> rows(n, std::vector<long double>(n + 1));
  for (const FitSample<2>& sample : samples) {
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) rows[i][j] += value(sample, i) * value(sample, j);
      rows[i][n] += value(sample, i) * static_cast<long double>(sample.y);
    }
  }
  for (size_t i = 0; i < n; ++i) {  // Gauss and Jordan
    for (size_t j = 0; j < n; ++j) {
      const long double share = j == i ? 0 : rows[j][i] / rows[i][i];
      for (size_t k = 0; k <= n; ++k) rows[j][k] -= share * rows[i][k];
    }
  }
  long double left = 0;
  for (const FitSample<2>& sample : samples) {
    long double away = sample.y;
    for (size_t i = 0; i < n; ++i) away -= rows[i][n] / rows[i][i] * value(sample, i);
    left += away * away;
  }
  return static_cast<double>(left);
}

// Where sizes repeat, the best line may pass through three samples that lie in a row: once in some hundred times.
TEST(LinearFit, FitsSamplesWhoseBestLinePassesThroughARow) {
  TestRng rng(draw_rng_seed());
  std::uniform_real_distribution<double> noise(-1, 1);
  for (int round = 0; round < 3000; ++round) {
    std::vector<FitSample<2>> samples;
    for (int i = 0; i < 40; ++i) {
      const double a = static_cast<double>(rng() % 20), b = 0.3 * a + static_cast<double>(rng() % 9);
      samples.push_back({{a, b}, 0.02 * a + 0.1 * b + noise(rng)});
    }
    const auto fit = fit_line<2>(samples);
    ASSERT_TRUE(fit) << "round " << round;
    EXPECT_NEAR(fit->slope[0], 0.02, 0.3);
    EXPECT_NEAR(fit->slope[1], 0.1, 0.4);
  }
}

TEST(LinearFit, SaysOfEachNumberWhatIsLostWithoutIt) {
  TestRng rng(draw_rng_seed());
  int compared = 0;
  for (int round = 0; round < 200; ++round) {
    std::vector<FitSample<2>> samples;
    std::uniform_real_distribution<double> noise(-1, 1);
    const double start = noise(rng), slope = 0.3 * noise(rng);
    for (int i = 0; i < 40; ++i) {
      const double a = static_cast<double>(rng() % 20);
      const double b = 0.3 * a + static_cast<double>(rng() % 9);  // they grow together somewhat
      samples.push_back({{a, b}, start + slope * a + 0.2 * b + noise(rng)});
    }
    const auto fit = fit_line<2>(samples);
    ASSERT_TRUE(fit);
    if (fit->left_out > 0) continue;  // of the samples used alone it would be another sum
    ++compared;
    const double left = squares_left(samples, {0, 1, 2});
    EXPECT_NEAR(fit->start_r_squared, 1 - left / squares_left(samples, {1, 2}), 1e-9);
    EXPECT_NEAR(fit->slope_r_squared[0], 1 - left / squares_left(samples, {0, 2}), 1e-9);
    EXPECT_NEAR(fit->slope_r_squared[1], 1 - left / squares_left(samples, {0, 1}), 1e-9);
  }
  EXPECT_GT(compared, 150);
}

// Exchanges over a link of 2 ms there and back, 30 us a message, 8 ns a byte, with 2 % noise.
ExchangeSample draw_exchange(TestRng& rng) {
  std::normal_distribution<double> noise(1, 0.02);
  const double messages = static_cast<double>(2 + rng() % 60), bytes = static_cast<double>(1000 + rng() % 1'000'000);
  return {messages, bytes, (0.002 + 30e-6 * messages + 8e-9 * bytes) * noise(rng)};
}

TEST(LinkEstimate, TellsOccupancyLatencyAndRateApart) {
  TestRng rng(draw_rng_seed());
  LinkEstimate estimate;
  EXPECT_EQ(estimate.refresh(), FitNews::kTooFew);
  for (int i = 0; i < 500; ++i) estimate.add(draw_exchange(rng));
  ASSERT_EQ(estimate.refresh(), FitNews::kFitted);
  EXPECT_NEAR(estimate.fit()->cost.latency_s, 0.001, 0.0001);  // one way
  EXPECT_NEAR(estimate.fit()->cost.occupancy_s, 30e-6, 3e-6);
  EXPECT_NEAR(estimate.fit()->cost.s_per_byte, 8e-9, 2e-10);
  EXPECT_GT(estimate.fit()->r_squared, 0.98);
  for (const double alone :
       {estimate.fit()->latency_r_squared, estimate.fit()->occupancy_r_squared, estimate.fit()->s_per_byte_r_squared}) {
    EXPECT_GT(alone, 0.5);
    EXPECT_LE(alone, 1);
  }
}

// On a thin link far away messages cost nothing that could be seen.
TEST(LinkEstimate, SaysWhichCostIsNotShown) {
  TestRng rng(draw_rng_seed());
  std::normal_distribution<double> noise(0, 0.02);
  LinkEstimate estimate;
  for (int i = 0; i < 500; ++i) {
    const ExchangeSample sample = draw_exchange(rng);
    estimate.add({sample.messages, sample.bytes, 0.5 + 8e-7 * sample.bytes + noise(rng)});
  }
  ASSERT_EQ(estimate.refresh(), FitNews::kFitted);
  EXPECT_GT(estimate.fit()->s_per_byte_r_squared, 0.98);
  EXPECT_GT(estimate.fit()->latency_r_squared, 0.9);
  EXPECT_LT(estimate.fit()->occupancy_r_squared, 0.05);
}

TEST(LinkEstimate, LeavesOutliersOut) {
  TestRng rng(draw_rng_seed());
  LinkEstimate estimate;
  for (int i = 0; i < 400; ++i) {
    ExchangeSample sample = draw_exchange(rng);
    if (i % 5 == 0) sample.seconds += 0.2 + 0.001 * static_cast<double>(rng() % 1000);  // a retransmission, a pause
    estimate.add(sample);
  }
  ASSERT_EQ(estimate.refresh(), FitNews::kFitted);
  EXPECT_GE(estimate.fit()->left_out, 80u);
  EXPECT_LE(estimate.fit()->left_out, 100u);
  EXPECT_NEAR(estimate.fit()->cost.s_per_byte, 8e-9, 3e-10);
  EXPECT_NEAR(estimate.fit()->cost.occupancy_s, 30e-6, 4e-6);
}

TEST(LinkEstimate, FollowsALinkThatChanges) {
  TestRng rng(draw_rng_seed());
  LinkEstimate estimate;
  for (int i = 0; i < 600; ++i) estimate.add(draw_exchange(rng));
  for (size_t i = 0; i < LinkEstimate::kWindow; ++i) {
    ExchangeSample sample = draw_exchange(rng);
    sample.seconds += 72e-9 * sample.bytes;  // ten times slower
    estimate.add(sample);
  }
  ASSERT_EQ(estimate.refresh(), FitNews::kFitted);
  EXPECT_NEAR(estimate.fit()->cost.s_per_byte, 80e-9, 2e-9);
}

TEST(LinkEstimate, KeepsTheLastFitWhenBytesSeemToCostNothing) {
  TestRng rng(draw_rng_seed());
  LinkEstimate estimate;
  for (int i = 0; i < 100; ++i) estimate.add(draw_exchange(rng));
  ASSERT_EQ(estimate.refresh(), FitNews::kFitted);
  const double before = estimate.fit()->cost.s_per_byte;
  for (size_t i = 0; i < LinkEstimate::kWindow; ++i) {
    const ExchangeSample sample = draw_exchange(rng);
    estimate.add({sample.messages, sample.bytes, 0.01 - 1e-9 * sample.bytes});
  }
  EXPECT_EQ(estimate.refresh(), FitNews::kNoRate);
  EXPECT_EQ(estimate.refresh(), FitNews::kNoRateAgain) << "said once";
  EXPECT_EQ(estimate.fit()->cost.s_per_byte, before);
  for (size_t i = 0; i < LinkEstimate::kWindow; ++i) estimate.add(draw_exchange(rng));
  EXPECT_EQ(estimate.refresh(), FitNews::kFitted);
  for (size_t i = 0; i < LinkEstimate::kWindow; ++i) {
    const ExchangeSample sample = draw_exchange(rng);
    estimate.add({sample.messages, sample.bytes, 0.01 - 1e-9 * sample.bytes});
  }
  EXPECT_EQ(estimate.refresh(), FitNews::kNoRateAgain) << "not anew after each good fit";
}

TEST(LinearFit, RefusesSamplesThatSayNothing) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<FitSample<2>> alike, in_line, with_nan;
  for (int i = 0; i < 20; ++i) {
    alike.push_back({{4, 1000}, 0.001 * i});
    in_line.push_back({{1.0 * i, 1000.0 * i}, 0.001 * i});  // messages and bytes cannot be told apart
    with_nan.push_back({{1.0 * (i % 3), 1000.0 * i}, i == 7 ? nan : 0.001 * i});
  }
  EXPECT_FALSE(fit_line<2>(alike));
  EXPECT_FALSE(fit_line<2>(in_line));
  EXPECT_FALSE(fit_line<2>(with_nan));
  EXPECT_FALSE(fit_line<2>(std::span<const FitSample<2>>(alike).first(5)));
}

}  // namespace
}  // namespace starling
