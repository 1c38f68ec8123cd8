// What a merge plan is made of: the parts of a model in the order in which backward finishes their gradients, the last
// layer first. "MGS-SGD" (Shi et al., "Communication-efficient distributed deep learning with merged gradient
// sparsification on GPUs", INFOCOM 2020) calls them layers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace starling {

inline constexpr size_t kPlanSectionsMax = 1024;
// A tensor below 4 KiB of fp32 gradient is sent with its neighbor in every plan.
inline constexpr uint64_t kSmallSection = 1024;  // elements

struct PlanSection {
  std::string name;
  uint64_t elements = 0;
  double backward_s = 0;  // from the end of the section before it until this one's gradient is complete
};

// What is wrong with these sections, for people; empty: nothing. Times may be zero, not all of them.
std::string describe_fault(const std::vector<PlanSection>& sections);

// Joins each section below `elements_min` to the one that is finished next (the last one to the one before).
// The parts of a joined section are complete when its last one is. REQUIRES: sections without a fault.
std::vector<PlanSection> join_small(const std::vector<PlanSection>& sections, uint64_t elements_min);

// The same elements in runs of so many, which need not end where a section does: each is complete when the last section
// that it has a part of is. Its name is theirs, as where sections are joined. REQUIRES: the sizes are not zero, and add
// up to the elements of all sections.
std::vector<PlanSection> cut_at(const std::vector<PlanSection>& sections, std::span<const uint64_t> sizes);

}  // namespace starling
