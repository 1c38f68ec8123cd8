// Draws the timelines of merge plans, into the terminal and as an SVG file.
#pragma once

#include <string>
#include <vector>

#include "compression/plan/comparison.h"

namespace starling {

struct PlanPicture {
  std::string title, subtitle;
  std::vector<const PlanRow*> rows;                    // from the top; borrowed
  const std::vector<PlanSection>* sections = nullptr;  // borrowed
};

// "fc to conv1": the first and the last layer of a bucket.
std::string name_bucket(const std::vector<PlanSection>& sections, const BucketTimes& bucket);

// Three lines: "=" while backward computes; buckets by the last digit of their number while they are selected and sent.
// `columns` characters are `until_s` seconds, from the begin of backward. REQUIRES: columns > 0, until_s > 0.
// What begins later is cut off.
std::string draw_lanes(const PlanRow& row, double until_s, size_t columns);

// Self-contained, dark on white. A bucket has one color in all three lanes; names and times are tooltips. A plan that
// takes more than twice as long as the first is cut off, with its end in words. REQUIRES: at least one row.
std::string draw_plan_svg(const PlanPicture& picture);

}  // namespace starling
