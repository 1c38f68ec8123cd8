#include "agent/process/trained_model.h"

#include <filesystem>
#include <optional>
#include <stdexcept>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "agent/process/tensor_list.h"
#include "agent/state/class_names.h"
#include "agent/state/genesis_file.h"
#include "agent/state/private_file.h"
#include "agent/train/model_kinds.h"
#include "bootstrap/router.h"
#include "gossip/limits.h"

namespace starling {
namespace {

constexpr const char* kRemedy =
    "name the --state folder of an agent (starling-state by default; of `starling swarm`: OUT/agent-0/state)";

std::string settings_text(const std::string& folder) {
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    throw std::runtime_error(folder + ": " + (error ? error.message() : "no such folder") + "; " + kRemedy);
  }
  const std::optional<std::string> text = read_private_file(folder + "/settings.yaml", kSettingsBytesMax);
  if (!text || text->empty()) {
    throw std::runtime_error(folder + " holds no settings of a swarm (settings.yaml): no agent has joined one there; " +
                             kRemedy);
  }
  return *text;
}

LoadedCheckpoint newest_checkpoint(const std::string& state_folder, uint64_t swarm_id) {
  const std::string checkpoints = state_folder + "/checkpoints";
  size_t damaged = 0;
  std::optional<LoadedCheckpoint> checkpoint = load_newest_checkpoint(
      checkpoints, swarm_id,
      [](const std::string& skipped) { spdlog::warn("passed over, trying the one before it: {}", skipped); }, &damaged);
  if (checkpoint && damaged > 0 && checkpoint->content.meta.steps == 0) {
    throw std::runtime_error(
        fmt::format("all checkpoints in {} but the model before the first step are damaged ({}, named above); put good "
                    "copies there, or take the model of another member",
                    checkpoints, damaged));
  }
  if (checkpoint) return std::move(*checkpoint);
  if (damaged > 0) {
    throw std::runtime_error(
        fmt::format("none of the checkpoints in {} can be read ({} damaged, named above); put a good copy there",
                    checkpoints, damaged));
  }
  throw std::runtime_error(checkpoints +
                           " holds no checkpoint of this swarm; an agent writes its first one before its first "
                           "exchange, so wait until it trains");
}

LoadedCheckpoint one_checkpoint(const std::string& path, uint64_t swarm_id) {
  std::string problem;
  std::optional<LoadedCheckpoint> checkpoint = read_checkpoint(path, &problem);
  if (checkpoint && checkpoint->content.meta.swarm_id != swarm_id) {
    problem = "of another swarm than the settings.yaml of its state folder";
  }
  if (!problem.empty()) throw std::runtime_error(path + ": " + problem + "; name another one, or the state folder");
  return std::move(*checkpoint);
}

// `checkpoint_path`: empty: the newest.
TrainedModel load_model(const std::string& state_folder, const std::string& checkpoint_path) {
  const std::string text = settings_text(state_folder);
  AgreedSettings settings = parse_agreed_settings(text, state_folder + "/settings.yaml");
  const ModelConfig& model = settings.swarm.model;
  const ModelKind& kind = model_kind(model.kind);
  if (!kind.needs_data && !kind.attached) {
    throw std::runtime_error(
        fmt::format("the model in {} is a {} ({}), which is no network", state_folder, model.kind, kind.remark));
  }
  ModelPlan plan = kind.attached ? stored_tensor_list(state_folder) : plan_model(model);
  const uint64_t swarm_id = swarm_id_of(text);
  LoadedCheckpoint checkpoint =
      checkpoint_path.empty() ? newest_checkpoint(state_folder, swarm_id) : one_checkpoint(checkpoint_path, swarm_id);
  const size_t found = checkpoint.content.params.size();
  if (found != plan.param_count) {
    throw std::runtime_error(
        fmt::format("{} holds {} params, but the model of {}/settings.yaml has {}; put back the "
                    "file that belongs there",
                    checkpoint.path, found, state_folder, plan.param_count));
  }
  return {std::move(settings), std::move(plan), std::move(checkpoint), read_class_names(state_folder)};
}

}  // namespace

TrainedModel load_trained_model(const std::string& state_folder) {
  TrainedModel trained = load_model(state_folder, "");
  if (trained.checkpoint.content.meta.steps == 0) {
    spdlog::warn(
        "{} is the model before the first step: this agent has saved no later one yet. Wait for the next checkpoint: "
        "one comes each agent.checkpoint.every, and at the end",
        trained.checkpoint.path);
  }
  return trained;
}

TensorFile as_tensor_file(const TrainedModel& trained) {
  const SwarmConfig& swarm = trained.settings.swarm;
  const CheckpointContent& content = trained.checkpoint.content;
  TensorFile file;
  for (const ParamSlot& slot : trained.plan.slots) {
    file.tensors.push_back({slot.name, slot.shape, content.params.subspan(slot.offset, slot.count)});
  }
  file.metadata = {{"format", "pt"}, {"model", describe_network(swarm.model)}};
  if (swarm.model.kind == "lstm") {
    file.metadata.emplace_back("vocabulary", "bytes");
  } else if (model_kind(swarm.model.kind).needs_data) {
    const PixelRange range = pixel_range(swarm.model.input[0]);
    file.metadata.emplace_back("mean", fmt::format("{}", range.mean));
    file.metadata.emplace_back("std", fmt::format("{}", range.deviation));
  }
  if (!trained.classes.empty()) file.metadata.emplace_back("class_names", print_class_names(trained.classes));
  file.metadata.emplace_back("swarm", swarm.name);
  file.metadata.emplace_back("swarm_id", fmt::format("{:016x}", content.meta.swarm_id));
  file.metadata.emplace_back("step", std::to_string(content.meta.steps));
  file.metadata.emplace_back(kDigestKey, values_digest(file));
  return file;
}

GivenModel load_given_model(const std::string& path) {
  if (tensor_format(path) != nullptr) {
    LoadedTensors loaded = read_tensor_file(path);
    ModelConfig model = network_of(loaded.file, path);
    (void)flat_params(loaded.file, plan_model(model), path);
    return {std::move(model), std::move(loaded.file), path, std::move(loaded.values)};
  }
  const bool is_checkpoint = path.ends_with(".ckpt");
  std::error_code error;
  if (!is_checkpoint && !std::filesystem::is_directory(path, error)) {
    throw std::runtime_error(path + ": " + (error ? error.message() : "no model") +
                             "; name a state folder, a checkpoint (.ckpt) in one, or a .safetensors or .pt file of "
                             "starling export");
  }
  const std::filesystem::path folder = std::filesystem::absolute(path).parent_path().parent_path();
  TrainedModel trained = is_checkpoint ? load_model(folder, path) : load_trained_model(path);
  refuse_attached(trained.settings.swarm.model);
  TensorFile file = as_tensor_file(trained);
  const SwarmConfig& swarm = trained.settings.swarm;
  return {swarm.model, std::move(file), trained.checkpoint.path, trained.checkpoint.file,
          swarm.trust.kind == Trust::kCertified};
}

}  // namespace starling
