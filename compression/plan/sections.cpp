#include "compression/plan/sections.h"

#include <algorithm>
#include <cmath>

#include "kernels/check.h"

namespace starling {
namespace {

constexpr uint64_t kElementsMax = uint64_t{1} << 40;   // sums of a whole plan stay exact in a double
constexpr double kSecondsMax = 1e6;
constexpr uint64_t kSlice = 16384;   // elements: smaller parts of a layer are not worth a message

void join(PlanSection& section, const PlanSection& next) {
  const size_t more = section.name.find(" + ");   // a name stays short, however many are joined
  section.name = (more == std::string::npos ? section.name : section.name.substr(0, more)) + " + " + next.name;
  section.elements += next.elements;
  section.backward_s += next.backward_s;
}

// Cut into parts of at most `elements_max`, which are complete together: the first one carries the time.
void append_cut(std::vector<PlanSection>& slices, const PlanSection& section, uint64_t elements_max) {
  const uint64_t parts = (section.elements + elements_max - 1) / elements_max;
  for (uint64_t part = 0; part < parts; ++part) {
    const uint64_t begin = section.elements * part / parts, end = section.elements * (part + 1) / parts;
    const std::string name = parts == 1 ? section.name
                                        : section.name + " " + std::to_string(part + 1) + "/" + std::to_string(parts);
    slices.push_back({name, end - begin, part == 0 ? section.backward_s : 0});
  }
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
  bool open = false;   // the last one is still too small
  for (const PlanSection& section : sections) {
    if (open) join(joined.back(), section);
    else joined.push_back(section);
    open = joined.back().elements < elements_min;
  }
  if (open && joined.size() > 1) {
    const PlanSection last = joined.back();
    joined.pop_back();
    join(joined.back(), last);
  }
  return joined;
}

std::vector<PlanSection> cut_slices(const std::vector<PlanSection>& sections, size_t count_max) {
  STARLING_CHECK(count_max >= 1);
  uint64_t total = 0;
  for (const PlanSection& section : sections) total += section.elements;
  // Joined sections have at least `least` elements each, so there are at most total / least of them, and cutting adds
  // at most total / most. The sizes grow until both together keep to the limit.
  for (uint64_t least = std::max<uint64_t>(1, total / (4 * count_max));; least += (least + 3) / 4) {
    const uint64_t most = std::max({2 * least, (total + count_max - 1) / count_max, kSlice});
    std::vector<PlanSection> slices;
    for (const PlanSection& section : join_small(sections, least)) append_cut(slices, section, most);
    if (slices.size() <= count_max) return slices;
  }
}

std::vector<PlanSection> cut_at(const std::vector<PlanSection>& sections, std::span<const uint64_t> sizes) {
  std::vector<PlanSection> slices;
  size_t next = 0;
  uint64_t left = 0;   // of section next - 1
  for (const uint64_t size : sizes) {
    PlanSection slice{left > 0 ? sections[next - 1].name : std::string(), 0, 0};
    slice.elements = std::min(left, size);
    left -= slice.elements;
    while (slice.elements < size) {
      STARLING_CHECK(next < sections.size());
      PlanSection part = sections[next++];
      left = part.elements - std::min(part.elements, size - slice.elements);
      part.elements -= left;
      if (slice.name.empty()) slice = part;
      else join(slice, part);
    }
    slices.push_back(slice);
  }
  STARLING_CHECK(left == 0 && next == sections.size());
  return slices;
}

}  // namespace starling
