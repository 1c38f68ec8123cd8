// starling export: the model of a state folder as a file for PyTorch and other programs.
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>

#include "agent/commands/commands.h"
#include "agent/commands/flags.h"
#include "agent/process/trained_model.h"
#include "agent/state/tensor_file.h"
#include "agent/train/model_kinds.h"

namespace starling {
namespace {

int run_export_command(const ExportOptions& options) {
  const TrainedModel trained = load_trained_model(options.state);
  const TensorFile file = as_tensor_file(trained);
  write_tensor_file(options.path, file);
  size_t params = 0;
  for (const NamedTensor& tensor : file.tensors) params += tensor.values.size();
  const std::string& kind = trained.settings.swarm.model.kind;
  std::printf("wrote %s: %s, %zu params%s, step %llu, from %s\n", options.path.c_str(), kind.c_str(), params,
              model_kind(kind).attached ? " that members share (frozen ones are the loop's)" : "",
              static_cast<unsigned long long>(trained.checkpoint.content.meta.steps), trained.checkpoint.path.c_str());
  return 0;
}

}  // namespace

void add_export(CLI::App& app, Cli& cli) {
  const auto options = std::make_shared<ExportOptions>();
  Subcommand command(app, "export", "Writes an agent's model to a file for PyTorch and safetensors.");
  add_state_flag(command, options->state);
  command.option("file", "File to write, replaced if it is there: NAME.safetensors, or NAME.pt for torch.load.",
                 [options](const std::string& path) {
                   if (tensor_format(path) == nullptr) {
                     throw std::invalid_argument("'" + path + "' must end in .safetensors or .pt");
                   }
                   options->path = path;
                 });
  command.require("file");
  command.then([&cli, options] { cli.choose("export", *options, run_export_command); });
}

}  // namespace starling
