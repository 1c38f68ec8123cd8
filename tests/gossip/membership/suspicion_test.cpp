#include "gossip/membership/suspicion.h"

#include <gtest/gtest.h>

namespace starling {
namespace {

TEST(Suspicion, Timeouts) {
  struct Row {
    double suspicion;
    size_t members;
    uint32_t confirmations;
    double timeout_s;
  };
  const Row rows[] = {
      {4, 2, 0, 4},    {4, 3, 0, 4},                         // nobody else to ask: the minimum
      {4, 4, 0, 24},   {4, 4, 1, 11.381}, {4, 4, 2, 4},      // six times that, shortened by logarithm
      {4, 10, 0, 24},  {4, 10, 2, 4},     {4, 10, 9, 4},     // never below the minimum
      {4, 100, 0, 48}, {4, 100, 2, 8},    {4, 1000, 2, 12},  // gossip takes longer in a larger swarm
      {3, 4, 0, 18},   {3, 4, 1, 3},      {2, 100, 0, 4},   {6, 6, 4, 6},
  };
  for (const Row& row : rows) {
    const Duration timeout = suspicion_timeout(row.suspicion, std::chrono::seconds(1), row.members, row.confirmations);
    EXPECT_NEAR(seconds(timeout), row.timeout_s, 1e-3) << row.members << " members, " << row.confirmations;
  }
  EXPECT_NEAR(seconds(suspicion_timeout(4, std::chrono::milliseconds(100), 3, 0)), 0.4, 1e-9);
}

TEST(Suspicion, ConfirmationsWanted) {
  EXPECT_EQ(confirmations_wanted(4, 2), 0u);
  EXPECT_EQ(confirmations_wanted(4, 3), 0u);
  EXPECT_EQ(confirmations_wanted(4, 4), 2u);
  EXPECT_EQ(confirmations_wanted(4, 1000), 2u);
  EXPECT_EQ(confirmations_wanted(1, 1000), 0u);
}

TEST(Suspicion, RetransmitCount) {
  EXPECT_EQ(retransmit_count(1), 4u);
  EXPECT_EQ(retransmit_count(9), 4u);
  EXPECT_EQ(retransmit_count(10), 8u);
  EXPECT_EQ(retransmit_count(99), 8u);
  EXPECT_EQ(retransmit_count(100), 12u);
  EXPECT_EQ(retransmit_count(1000), 16u);
}

}  // namespace
}  // namespace starling
