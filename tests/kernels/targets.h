// Runs a test body once for every instruction set this machine has, the plain scalar one among them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>

#include "hwy/highway.h"

namespace starling {

template <class Body>
void for_each_target(const Body& body) {
  const int64_t all = hwy::SupportedTargets() & HWY_TARGETS;
  int run_count = 0;
  for (int bit = 0; bit < 63; ++bit) {
    const int64_t target = int64_t{1} << bit;
    if ((all & target) == 0) continue;
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    body();
    ++run_count;
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().DeInit();
  EXPECT_GE(run_count, 2) << "nothing was compared";
}

}  // namespace starling
