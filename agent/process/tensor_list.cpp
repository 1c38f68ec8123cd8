#include "agent/process/tensor_list.h"

#include <optional>
#include <sstream>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "agent/state/private_file.h"

namespace starling {
namespace {

constexpr size_t kBytesMax = 64 << 20;
constexpr size_t kDimensionsMax = 64;

std::string path_of(const std::string& folder) { return folder + "/tensors"; }

// "OFFSET DIMENSIONS D1 D2 ... NAME". nullopt: it is no such line, or its tensor does not lie behind `end`.
std::optional<ParamSlot> parse_slot(const std::string& line, size_t end, size_t param_count) {
  std::istringstream words(line);
  ParamSlot slot;
  size_t dimensions = 0;
  if (!(words >> slot.offset >> dimensions) || dimensions > kDimensionsMax) return std::nullopt;
  slot.count = 1;
  for (size_t i = 0; i < dimensions; ++i) {
    int64_t side = 0;
    if (!(words >> side) || side < 0) return std::nullopt;
    if (__builtin_mul_overflow(slot.count, static_cast<size_t>(side), &slot.count)) return std::nullopt;
    slot.shape.push_back(side);
  }
  words.get();
  if (!std::getline(words, slot.name) || slot.offset < end || slot.offset > param_count) return std::nullopt;
  return slot.count <= param_count - slot.offset ? std::optional(slot) : std::nullopt;
}

}  // namespace

void store_tensor_list(const std::string& folder, const ModelPlan& plan) {
  std::string text = fmt::format("{}\n", plan.param_count);
  for (const ParamSlot& slot : plan.slots) {
    text += fmt::format("{} {} {}{}{}\n", slot.offset, slot.shape.size(), fmt::join(slot.shape, " "),
                        slot.shape.empty() ? "" : " ", slot.name);
  }
  const std::optional<std::string> before = read_private_file(path_of(folder), kBytesMax);
  if (before != text) write_private_file(path_of(folder), text, *make_file_ops());
}

ModelPlan stored_tensor_list(const std::string& folder) {
  const std::optional<std::string> text = read_private_file(path_of(folder), kBytesMax);
  if (!text) {
    throw std::runtime_error(path_of(folder) +
                             " is missing, which names the tensors of this folder's model; copy it from "
                             "another member of the swarm");
  }
  std::istringstream lines(*text);
  ModelPlan plan;
  std::string line;
  bool whole = static_cast<bool>(std::getline(lines, line)) && std::istringstream(line) >> plan.param_count;
  size_t end = 0;
  while (whole && std::getline(lines, line)) {
    const std::optional<ParamSlot> slot = parse_slot(line, end, plan.param_count);
    whole = slot.has_value();
    if (!whole) break;
    end = slot->offset + slot->count;
    plan.slots.push_back(*slot);
  }
  if (whole) return plan;
  throw std::runtime_error(path_of(folder) + " is damaged; copy it from another member of the swarm");
}

}  // namespace starling
