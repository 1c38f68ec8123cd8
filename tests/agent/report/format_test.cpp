#include "agent/report/format.h"

#include <gtest/gtest.h>

namespace starling {
namespace {

TEST(Format, CountsTakeThePluralButForOne) {
  EXPECT_EQ(print_count(0, "peer"), "0 peers");
  EXPECT_EQ(print_count(1, "peer"), "1 peer");
  EXPECT_EQ(print_count(2, "peer"), "2 peers");
}

TEST(ReportText, NumbersForPeople) {
  EXPECT_EQ(print_percent(0.9416), "94.2 %");
  EXPECT_EQ(print_percent(std::nullopt), "-");
  EXPECT_EQ(print_bytes(0), "0 B");
  EXPECT_EQ(print_bytes(999), "999 B");
  EXPECT_EQ(print_bytes(12'300), "12.3 kB");
  EXPECT_EQ(print_bytes(999'949), "999.9 kB");
  EXPECT_EQ(print_bytes(999'999), "1.0 MB");
  EXPECT_EQ(print_bytes(7'250'000'000), "7.2 GB");
  EXPECT_EQ(print_labels({}), "");
  EXPECT_EQ(print_labels({3, 7}), "3 7");
  EXPECT_EQ(print_labels({0, 1, 2, 3, 4, 5}), "0-5");
  EXPECT_EQ(print_labels({0, 1, 2, 3, 5}), "0 1 2 3 5");
}

TEST(ReportText, SpansOfTime) {
  EXPECT_EQ(print_span(-1), "0.0 s");
  EXPECT_EQ(print_span(0.34), "0.3 s");
  EXPECT_EQ(print_span(59.9), "59 s");
  EXPECT_EQ(print_span(60), "1 min");
  EXPECT_EQ(print_span(3599), "59 min");
  EXPECT_EQ(print_span(2 * 3600 + 600), "2 h 10 min");
  EXPECT_EQ(print_span(76 * 3600), "3 d 4 h");
  EXPECT_EQ(print_span(1e300), print_span(1e15)) << "a rate near 0";
}

}  // namespace
}  // namespace starling
