#include "agent/state/genesis_file.h"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "agent/train/model_kinds.h"
#include "kernels/cast.h"
#include "kernels/check.h"
#include "kernels/transfer.h"

namespace starling {
namespace {

constexpr uint64_t kSizeMax = 65536;  // of any side or width: as config files have it
constexpr size_t kSizesMax = 16;

constexpr const char* kTakeFromExport =
    "name a file that starling export wrote, or keep the text `model` of its metadata";

std::vector<int64_t> sizes_in(const nlohmann::json& network, const char* key, const std::string& path) {
  std::vector<int64_t> sizes;
  if (!network.contains(key)) return sizes;
  const nlohmann::json& list = network[key];
  for (const nlohmann::json& one : list.is_array() ? list : nlohmann::json::array({list})) {
    const uint64_t size = one.is_number_unsigned() ? one.get<uint64_t>() : 0;
    if (size == 0 || size > kSizeMax || sizes.size() == kSizesMax) {
      throw std::runtime_error(fmt::format("{}: its metadata name no network ({}); {}", path, key, kTakeFromExport));
    }
    sizes.push_back(static_cast<int64_t>(size));
  }
  return sizes;
}

std::string print_shape(const std::vector<int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

}  // namespace

std::string describe_network(const ModelConfig& model) {
  if (model_kind(model.kind).attached) return nlohmann::ordered_json{{"kind", model.kind}}.dump();
  nlohmann::ordered_json network = {{"kind", model.kind}, {"input", model.input}, {"classes", model.classes}};
  if (model.kind == "cnn" || model.kind == "vgg") network["channels"] = model.channels;
  if (model.kind != "cnn") network["hidden"] = model.hidden;
  return network.dump();
}

ModelConfig network_of(const TensorFile& file, const std::string& path) {
  const nlohmann::json network = nlohmann::json::parse(metadata_of(file, "model"), nullptr, false);
  const std::vector<std::string> kinds = model_kind_names();
  const std::string kind = network.is_object() && network.contains("kind") && network["kind"].is_string()
                               ? network["kind"].get<std::string>()
                               : "";
  if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end() || !model_kind(kind).needs_data) {
    throw std::runtime_error(path + ": its metadata name no network of Starling's; " + kTakeFromExport);
  }
  ModelConfig model;
  model.kind = kind;
  model.input = sizes_in(network, "input", path);
  const std::vector<int64_t> classes = sizes_in(network, "classes", path);
  const std::vector<int64_t> channels = sizes_in(network, "channels", path);
  if (const auto hidden = sizes_in(network, "hidden", path); !hidden.empty()) model.hidden = hidden;
  if (model.input.size() != 3 || classes.size() != 1 || channels.size() > 1) {
    throw std::runtime_error(path + ": its metadata name no sizes of a network; " + kTakeFromExport);
  }
  model.classes = classes[0];
  if (!channels.empty()) model.channels = channels[0];
  return model;
}

std::vector<float> flat_params(const TensorFile& file, const ModelPlan& plan, const std::string& path) {
  const auto refuse = [&path](const std::string& what) {
    throw std::runtime_error(path + " is of another model: " + what +
                             "; let starling init --from write the config, or name the file of this model");
  };
  for (const NamedTensor& tensor : file.tensors) {
    const auto same = [&tensor](const ParamSlot& slot) { return slot.name == tensor.name; };
    if (std::none_of(plan.slots.begin(), plan.slots.end(), same)) refuse(tensor.name + " is no part of it");
  }
  const auto tensor_of = [&](const ParamSlot& slot) {
    const auto found = std::find_if(file.tensors.begin(), file.tensors.end(),
                                    [&slot](const NamedTensor& tensor) { return tensor.name == slot.name; });
    if (found == file.tensors.end()) refuse(slot.name + " is missing");
    if (found->shape != slot.shape) {
      refuse(fmt::format("{} is {}, not {}", slot.name, print_shape(found->shape), print_shape(slot.shape)));
    }
    return found;
  };
  for (const ParamSlot& slot : plan.slots) (void)tensor_of(slot);  // before memory is asked for
  std::vector<float> params(plan.param_count);
  for (const ParamSlot& slot : plan.slots) {
    const auto found = tensor_of(slot);
    STARLING_CHECK(found->values.size() == slot.count);
    if (!all_finite_f32(std::as_bytes(found->values).data(), found->values.size())) {
      throw std::runtime_error(path + ": " + slot.name +
                               " is not finite, so nothing can be trained from it; name another");
    }
    std::copy(found->values.begin(), found->values.end(), params.begin() + static_cast<std::ptrdiff_t>(slot.offset));
  }
  return params;
}

void begin_from(const std::string& path, const ModelConfig& model, Trainer& trainer) {
  if (!model_kind(model.kind).needs_data) {
    throw std::runtime_error("agent.genesis: " + path + ": a " + model.kind + " has no such file; leave the key out");
  }
  try {
    const std::vector<float> params = flat_params(read_tensor_file(path).file, plan_model(model), path);
    STARLING_CHECK(trainer.params().count == params.size());
    copy_from_host(params.data(), trainer.params());
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(std::string("agent.genesis: ") + error.what() +
                             ". (Only the agent that begins the swarm needs this file: others start without --config, "
                             "and fetch the model.)");
  }
  trainer.params_changed();
}

}  // namespace starling
