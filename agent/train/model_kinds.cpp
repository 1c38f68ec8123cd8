#include "agent/train/model_kinds.h"

#include <algorithm>
#include <stdexcept>

#include "agent/train/model_plan.h"
#include "kernels/check.h"

namespace starling {
namespace {

uint64_t planned(const ModelConfig& model) { return plan_model(model).param_count; }

}  // namespace

const std::vector<ModelKind>& model_kinds() {
  static const std::vector<ModelKind> kinds = {
      {"attached",
       "a loop of your own, in Python or C",
       false,
       true,
       {"sgd"},
       [](const ModelConfig& model) -> uint64_t { return model.params; }},
      {"cnn", "", true, false, {"sgd", "adamw"}, planned},
      {"lstm", "of bytes of text", true, false, {"sgd", "adamw"}, planned},
      {"mlp", "", true, false, {"sgd", "adamw"}, planned},
      {"quadratic",
       "a toy with a known answer",
       false,
       false,
       {"sgd"},
       [](const ModelConfig& model) -> uint64_t { return model.dimension; }},
      {"vgg", "", true, false, {"sgd", "adamw"}, planned},
  };
  return kinds;
}

const ModelKind& model_kind(std::string_view name) {
  const std::vector<ModelKind>& kinds = model_kinds();
  const auto found = std::find_if(kinds.begin(), kinds.end(), [&](const ModelKind& kind) { return kind.name == name; });
  STARLING_CHECK(found != kinds.end());
  return *found;
}

uint64_t count_elements(const ModelConfig& model) {
  const ModelKind& kind = model_kind(model.kind);
  if (!kind.needs_data) return kind.param_count(model);
  uint64_t elements = 0;
  for (const ParamSlot& slot : plan_model(model).slots) elements += slot.count;
  return elements;
}

std::vector<std::string> model_kind_names() {
  std::vector<std::string> names;
  for (const ModelKind& kind : model_kinds()) names.emplace_back(kind.name);
  return names;
}

std::string describe_model_kinds() {
  std::string text;
  for (const ModelKind& kind : model_kinds()) {
    text += (text.empty() ? "" : " | ") + std::string(kind.name);
    if (!kind.remark.empty()) text += " (" + std::string(kind.remark) + ")";
  }
  return text;
}

void refuse_attached(const ModelConfig& model) {
  if (!model_kind(model.kind).attached) return;
  throw std::runtime_error("swarm.model.kind: attached: a loop of its users' own trains this model (" +
                           std::to_string(model.params) +
                           " params with padding), not this program. In Python load its file of starling export, and "
                           "begin a swarm with starling.join(model, optimizer, ...) and a state folder of its own");
}

void refuse_optimizer(std::string_view kind, const OptimizerConfig& optimizer) {
  const std::vector<std::string>& known = model_kind(kind).optimizers;
  if (std::find(known.begin(), known.end(), optimizer.kind) != known.end()) return;
  throw std::runtime_error("the " + std::string(kind) + " model is trained with " + known.front() + ", not " +
                           optimizer.kind + "; set swarm.optimizer.kind: " + known.front());
}

}  // namespace starling
