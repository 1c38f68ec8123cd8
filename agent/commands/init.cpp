#include <fcntl.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "agent/commands/commands.h"
#include "agent/commands/flags.h"
#include "agent/config/values.h"
#include "agent/data/survey.h"
#include "agent/process/state_folder.h"
#include "agent/process/trained_model.h"
#include "compression/codec.h"

namespace starling {
namespace {

struct Task {
  std::string name, what, model, optimizer;
  bool has_test = true;    // the data have a part to judge the model by
  std::string remark{};    // on its data
  bool certified = false;  // as the swarm was whose model it goes on from
};

const Task& task_of(const std::string& name) {
  static const std::vector<Task> tasks = {
      {"digits", "handwritten digits", "{kind: cnn, input: [1, 28, 28], classes: 10, channels: 8}",
       "{kind: sgd, learning_rate: 0.03, momentum: 0.9, warmup: 60}"},
      {"cifar10", "the photographs of CIFAR-10", "{kind: cnn, input: [3, 32, 32], classes: 10, channels: 16}",
       "{kind: sgd, learning_rate: 0.02, momentum: 0.9, warmup: 60, schedule: cosine}"},
      {"text", "which byte of a text follows", "{kind: lstm, input: [1, 1, 64], classes: 256, hidden: [128]}",
       "{kind: sgd, learning_rate: 0.3, momentum: 0.9, warmup: 60}"},
  };
  std::vector<std::string> names;
  for (const Task& task : tasks) {
    if (task.name == name) return task;
    names.push_back(task.name);
  }
  names.push_back("own");
  throw_unknown("task", name, names);
}

constexpr const char* kIntro = R"(. The first agent brings this file. Further agents adopt its
# `swarm` half from any member; they need an address and their data. All keys with meaning and value:
#   starling agent --config FILE --print-config

swarm:                                # what all members agree on
)";

constexpr const char* kRest = R"(  batch: 64                           # samples in a step
  # Agents with different labels need one step between exchanges and a shared momentum. With similar data,
  # local_steps: 8 and share: [params] send a sixteenth of the bytes.
  local_steps: 1                      # optimizer steps between two exchanges
  exchange:
    kind: pairwise                    # any number of agents
    codec: modulo8                    # 1 byte an element, the mean stays exact; one of )";

constexpr const char* kAfterCodec = R"(
    share: [params, momentum]
    overlap: auto                     # on: exchanges run beside the steps, and each counts less
    deadline_max: auto                # follows the model's bytes; links below 10 Mb/s need a time, such as 5m
  membership: {probe_interval: 1s, probe_timeout: 500ms}
  wait_for: 2                         # the first step comes when so many agents are there; or --wait-for N
  stop_after: 2000                    # steps of the swarm; 0: until Ctrl-C (with schedule: constant)

agent:                                # this machine alone
  listen: 0.0.0.0:7400                # bulk data take the next port
)";

constexpr const char* kAfterState = R"(  checkpoint: {every: 30s, keep: 3}
  evaluate_every: 5s
)";

constexpr const char* kState = "starling-state";

constexpr const char* kNoPath =
    R"(    # path: FOLDER                    # or --data: IDX (the MNIST family), CIFAR-10, images in a folder for each
                                      #   class, .npz or text; for digits also: generated
)";

constexpr const char* kSharding = R"(    sharding: all                     # this machine's data are its own
    # sharding: labels                # or all machines have one folder, and each takes its part:
    # shard: 1/4                      #   here the first of four
)";

constexpr const char* kFromModel =
    R"(wrote %s: the model of %s, which the new swarm begins from.
Only this machine needs it; further ones fetch the model.
)";

constexpr const char* kNext =
    R"(wrote %s. Next, on this machine (HOST is its name or address, as other machines see it):
  starling agent --config %s%s
and on each further one, by the ticket that the first one prints (also in %s/ticket):
  starling agent --bootstrap HOST:7400#TICKET --data FOLDER
Training begins when 2 agents are there; add --wait-for N to the first one for another number.
)";

constexpr const char* kCertifiedNext =
    R"(wrote %s. It is certified, as the swarm of that model was. Next, on this machine (HOST as others see it):
  starling agent --config %s%s
and on each further one, whose id `starling key` prints, by the ticket that `starling admit ID --state %s` prints here:
  starling agent --bootstrap HOST:7400#TICKET --data FOLDER
Training begins when 2 agents are there; add --wait-for N to the first one for another number.
)";

constexpr const char* kOwnIntro =
    R"(# A swarm that trains the model of a loop of your own: starling.join(model, optimizer, config="FILE"). Further
# machines adopt its `swarm` half by bootstrap=. All keys with meaning and value:
#   starling agent --config FILE --print-config

swarm:                                # what all members agree on
  name: own
  model: {kind: attached}             # the loop brings it, and its first weights are the swarm's
  # Loops with different labels need local_steps: 1 and share: [params, momentum], which takes torch.optim.SGD.
  local_steps: 8                      # optimizer steps between two exchanges
  exchange:
    kind: pairwise                    # any number of loops; group: few, and one mean of all
    codec: modulo8                    # 1 byte an element, the mean stays exact; a group takes bf16
    share: [params]
    deadline_max: auto                # follows the model's bytes; links below 10 Mb/s need a time, such as 5m
  membership: {probe_interval: 1s, probe_timeout: 500ms}
  wait_for: 2                         # the first step comes when so many loops are there
  stop_after: 2000                    # steps of the swarm, after which step() says False; 0: never

agent:                                # this machine alone
  checkpoint: {every: 30s, keep: 3}
)";

constexpr const char* kOwnNext = R"(wrote %s. Next, in the script that trains:
  import starling
  swarm = starling.join(model, optimizer, config="%s")
and on each further machine, by the ticket in this one's starling-state/ticket (HOST is this one, as others see it):
  swarm = starling.join(model, optimizer, bootstrap="HOST:7400#TICKET")
after each optimizer.step():
  if not swarm.step(loss): break
and behind the loop:
  swarm.finish()
Training begins when 2 loops are there; another number: wait_for in the file.
)";

// Short enough to be read out; two files of one seed are nearly impossible.
uint64_t drawn_seed() { return unguessable_seed() >> 32; }

std::string absolute(const std::string& path) {
  const std::string whole = std::filesystem::absolute(path).lexically_normal();
  return whole.size() > 1 && whole.back() == '/' ? whole.substr(0, whole.size() - 1) : whole;
}

// As much of a file's name as may be the name of a swarm.
std::string name_from(const std::string& path) {
  std::string name = std::filesystem::path(path).stem();
  std::erase_if(name, [](unsigned char c) { return c >= 0x80 || (std::isalnum(c) == 0 && c != '-' && c != '_'); });
  return name.empty() ? "data" : name.substr(0, 32);
}

Task task_from(const std::string& data) {
  const DataSurvey survey = survey_data(data, nullptr, false);
  const std::string like = survey.is_text() ? "text" : survey.shape[0] == 1 ? "digits" : "cifar10";
  return {name_from(data), "the data below", survey.model, task_of(like).optimizer, survey.has_test, survey.remark};
}

// As a config file has it.
std::string print_model(const ModelConfig& model) {
  std::string text = "{kind: " + model.kind + ", input: " + CountsValue::print(model.input) +
                     ", classes: " + std::to_string(model.classes);
  if (model.kind == "cnn" || model.kind == "vgg") text += ", channels: " + std::to_string(model.channels);
  if (model.kind != "cnn") text += ", hidden: " + CountsValue::print(model.hidden);
  return text + "}";
}

Task task_from(const GivenModel& given, const std::string& config_path) {
  const ModelConfig& model = given.model;
  const std::string like = model.kind == "lstm" ? "text" : model.input[0] == 1 ? "digits" : "cifar10";
  return {name_from(config_path), "further from a trained model", print_model(model), task_of(like).optimizer, true, "",
          given.certified};
}

// A folder that no agent has used, as a new swarm needs.
std::string free_state() {
  std::string state = kState;
  for (int i = 2; std::filesystem::exists(state); ++i) state = kState + ("-" + std::to_string(i));
  return state;
}

// `data`: where this agent's lie; empty: not said. `genesis`: the file that the swarm begins from; empty: none.
std::string config_for(const Task& task, const std::string& data, const std::string& genesis,
                       const std::string& state) {
  std::string seed = "  rng_seed: " + std::to_string(drawn_seed());
  seed.resize(38, ' ');
  std::string begins;
  if (!genesis.empty()) {
    begins = "  genesis: " + TextValue::print(genesis) + "   # the trained model that the swarm begins from\n";
  }
  return "# A swarm that learns " + task.what + kIntro + "  name: " + task.name + "\n" +
         (task.certified ? "  trust: certified                    # its first agent admits each further one\n" : "") +
         seed +
         (genesis.empty() ? "# drawn; the first params and the division of the data follow from it"
                          : "# drawn; the division of the data follows from it") +
         "\n  model: " + task.model + "\n  optimizer: " + task.optimizer + "\n" + kRest + codec_choices(", ") +
         kAfterCodec +
         fmt::format("  state: {:<29}# folder of the identity and the checkpoints; the same one resumes\n", state) +
         kAfterState + begins + "  data:\n" + (data.empty() ? kNoPath : "    path: " + TextValue::print(data) + "\n") +
         kSharding +
         fmt::format("    {:<34}# a tenth of these data is never trained on, and judges the model\n",
                     task.has_test ? "# hold_out: 0.1" : "hold_out: 0.1");
}

[[noreturn]] void refuse_overwriting(const std::string& path) {
  throw std::runtime_error(path + " is there already and is not overwritten; choose another name");
}

void refuse_existing(const std::string& path) {
  std::error_code error;
  if (std::filesystem::exists(std::filesystem::symlink_status(path, error))) refuse_overwriting(path);
}

void write_config(const std::string& path, const std::string& text) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0 && errno == EEXIST) refuse_overwriting(path);
  if (fd < 0) throw std::runtime_error("cannot write " + path + ": " + std::strerror(errno) + "; choose another place");
  const bool written = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (close(fd) != 0 || !written) {
    const std::string cause = std::strerror(errno);
    unlink(path.c_str());  // half a config is none
    throw std::runtime_error("cannot write " + path + ": " + cause + "; make room or choose another place");
  }
}

}  // namespace

int run_init_command(const InitCommand& command) {
  const std::string& path = command.path;
  if (command.task == "own") {
    write_config(path, kOwnIntro);
    std::printf(kOwnNext, path.c_str(), path.c_str());
    return 0;
  }
  const std::string data = command.data.empty() || command.data == "generated" ? command.data : absolute(command.data);
  Task task;
  std::string genesis;
  if (command.from.empty()) {
    refuse_existing(path);
    task = data.empty() ? task_of(command.task) : task_from(data);
  } else {
    genesis = absolute(std::filesystem::path(path).replace_extension(".genesis.safetensors"));
    for (const std::string& file : {path, genesis}) refuse_existing(file);
    const GivenModel given = load_given_model(command.from);
    const SampleSpec samples = given.model.samples();
    if (!data.empty()) (void)survey_data(data, &samples, false);
    task = task_from(given, path);
    write_tensor_file(genesis, given.file);
    std::printf(kFromModel, genesis.c_str(), given.from.c_str());
  }
  const std::string state = command.from.empty() ? kState : free_state();
  try {
    write_config(path, config_for(task, data, genesis, state));
  } catch (...) {
    if (!genesis.empty()) unlink(genesis.c_str());
    throw;
  }
  if (!task.remark.empty()) std::printf("%s: %s\n", data.c_str(), task.remark.c_str());
  std::printf(task.certified ? kCertifiedNext : kNext, path.c_str(), path.c_str(), data.empty() ? " --data FOLDER" : "",
              state.c_str());
  return 0;
}

void add_init(CLI::App& app, Cli& cli) {
  const auto options = std::make_shared<InitCommand>();
  Subcommand command(app, "init", "Writes a commented config to start from.");
  command.text("--task TASK", "What the swarm learns: digits | cifar10 | text | own (a loop of your own).",
               options->task);
  command.text("--data PATH", "Folder or file with data, in place of a task: the model follows from it.",
               options->data);
  command.text("--from MODEL",
               "A trained model that a new swarm goes on from: a state folder, a checkpoint in one, or a file of "
               "starling export. It is copied beside the config.",
               options->from);
  command.text("file", "File to write; an existing file is kept.", options->path);
  command.require_any({"--task", "--data", "--from"});
  command.exclude("--task", "--data");
  command.exclude("--task", "--from");
  command.require("file");
  command.then([&cli, options] { cli.choose("init", *options, run_init_command); });
}

}  // namespace starling
