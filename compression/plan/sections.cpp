#include "compression/plan/sections.h"

#include <algorithm>
#include <cmath>

#include "kernels/check.h"

namespace starling {
namespace {

constexpr uint64_t kElementsMax = uint64_t{1} << 40;  // sums of a whole plan stay exact in a double
constexpr double kSecondsMax = 1e6;

void join(PlanSection& section, const PlanSection& next) {
  const size_t more = section.name.find(" + ");  // a name stays short, however many are joined
  section.name = (more == std::string::npos ? section.name : section.name.substr(0, more)) + " + " + next.name;
  section.elements += next.elements;
  section.backward_s += next.backward_s;
}

}  // namespace

std::string describe_fault(const std::vector<PlanSection>& sections) {
  if (sections.empty()) return "there are no layers";
  if (sections.size() > kPlanSectionsMax) {
    return std::to_string(sections.size()) + " layers; a plan takes at most " + std::to_string(kPlanSectionsMax);
  }
  uint64_t elements = 0;
  double backward_s = 0;
  for (const PlanSection& section : sections) {
    if (section.elements == 0) return "layer '" + section.name + "' has no params";
    if (section.elements > kElementsMax - elements) return "the layers have more than 2^40 params";
    if (!std::isfinite(section.backward_s) || section.backward_s < 0) {
      return "layer '" + section.name + "' has a backward time that is negative or no number";
    }
    elements += section.elements;
    backward_s += section.backward_s;
  }
  if (!(backward_s > 0)) return "backward takes no time in any layer";
  if (backward_s > kSecondsMax) return "backward takes longer than 10^6 s";
  return {};
}

std::vector<PlanSection> join_small(const std::vector<PlanSection>& sections, uint64_t elements_min) {
  std::vector<PlanSection> joined;
  bool open = false;  // the last one is still too small
  for (const PlanSection& section : sections) {
    if (open)
      join(joined.back(), section);
    else
      joined.push_back(section);
    open = joined.back().elements < elements_min;
  }
  if (open && joined.size() > 1) {
    const PlanSection last = joined.back();
    joined.pop_back();
    join(joined.back(), last);
  }
  return joined;
}

std::vector<PlanSection> cut_at(const std::vector<PlanSection>& sections, std::span<const uint64_t> sizes) {
  std::vector<PlanSection> slices;
  size_t next = 0;
  uint64_t left = 0;  // of section next - 1
  for (const uint64_t size : sizes) {
    PlanSection slice{left > 0 ? sections[next - 1].name : std::string(), 0, 0};
    slice.elements = std::min(left, size);
    left -= slice.elements;
    while (slice.elements < size) {
      STARLING_CHECK(next < sections.size());
      PlanSection part = sections[next++];
      left = part.elements - std::min(part.elements, size - slice.elements);
      part.elements -= left;
      if (slice.name.empty())
        slice = part;
      else
        join(slice, part);
    }
    slices.push_back(slice);
  }
  STARLING_CHECK(left == 0 && next == sections.size());
  return slices;
}

}  // namespace starling
