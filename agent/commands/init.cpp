#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>

#include "agent/commands/commands.h"
#include "agent/commands/flags.h"
#include "compression/codec.h"

namespace starling {
namespace {

struct Task {
  const char* name;
  const char* what;
  const char* model;
  const char* optimizer;
};

constexpr Task kTasks[] = {
    {"digits", "handwritten digits", "{kind: cnn, input: [1, 28, 28], classes: 10, channels: 8}",
     "{kind: sgd, learning_rate: 0.03, momentum: 0.9, warmup: 60}"},
    {"cifar10", "the photographs of CIFAR-10", "{kind: cnn, input: [3, 32, 32], classes: 10, channels: 16}",
     "{kind: sgd, learning_rate: 0.02, momentum: 0.9, warmup: 60, schedule: cosine}"},
    {"text", "which byte of a text follows", "{kind: lstm, input: [1, 1, 64], classes: 256, hidden: [128]}",
     "{kind: sgd, learning_rate: 0.3, momentum: 0.9, warmup: 60}"},
};

constexpr const char* kIntro = R"(. The first agent brings this file; the others adopt its
# `swarm` half from whoever answers, and need only an address and their data. Every key, its meaning, its value:
#   starling agent --config FILE --print-config

swarm:                                # what all members agree on
)";

constexpr const char* kRest = R"(  batch: 64
  # Where agents hold different labels, exchange after every step and let the momentum ride along. Where their data are
  # alike, local_steps: 8 and carry: [params] send sixteen times less.
  local_steps: 1
  exchange:
    kind: pairwise
    codec: modulo8                    # 1 byte an element, the mean stays exact; one of )";

constexpr const char* kAfterCodec = R"(
    carry: [params, momentum]
    overlap: auto                     # pairs take turns: the newest state, whole; on: beside the steps, in shares
    deadline_max: 2s                  # no exchange takes longer; slow links need more
  membership: {probe_interval: 1s, probe_timeout: 500ms}
  stop_after: 2000                    # steps on the swarm's clock; 0: until Ctrl-C

agent:                                # this machine only
  listen: 0.0.0.0:7410                # the bulk data take the next port; a registry on this machine may have 7400
  state: starling-state               # folder for the identity and the checkpoints; the same one resumes
  checkpoint: {every: 30s, keep: 3}
  evaluate_every: 5s
  data:
    # path: FOLDER                    # or --data: with IDX files (the MNIST family), CIFAR-10's binary files, or a
                                      #   text (train.txt, test.txt); for digits also: generated
    sharding: all                     # all: this machine's data are its own
    # sharding: labels                # or all machines have the same folder, and each takes its part:
    # shard: 1/4                      #   here the first of four
)";

constexpr const char* kNext = R"(wrote %s. Next, on this machine (HOST is its name or address, as others see it):
  starling bootstrap --listen 0.0.0.0:7400
  starling agent --config %s --bootstrap HOST:7400 --data FOLDER
and on every further one:
  starling agent --bootstrap HOST:7400 --data FOLDER
)";

std::string config_for(const std::string& name) {
  std::string names;
  for (const Task& task : kTasks) {
    if (name == task.name) {
      return std::string("# A swarm that learns ") + task.what + kIntro + "  name: " + name +
             "\n  rng_seed: 1                         # the first params, and who holds which data, follow from it\n"
             "  model: " + task.model + "\n  optimizer: " + task.optimizer + "\n" + kRest +
             codec_choices(", ") + kAfterCodec;
    }
    names += (names.empty() ? "" : ", ") + std::string(task.name);
  }
  throw std::runtime_error("there is no task '" + name + "', only: " + names);
}

}  // namespace

int run_init_command(const std::string& task, const std::string& path) {
  const std::string text = config_for(task);
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0 && errno == EEXIST) {
    throw std::runtime_error(path + " is there already and is not overwritten; choose another name");
  }
  if (fd < 0) throw std::runtime_error("cannot write " + path + ": " + std::strerror(errno) + "; choose another place");
  const bool written = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (close(fd) != 0 || !written) {
    const std::string cause = std::strerror(errno);
    unlink(path.c_str());   // half a config is none
    throw std::runtime_error("cannot write " + path + ": " + cause + "; make room or choose another place");
  }
  std::printf(kNext, path.c_str(), path.c_str());
  return 0;
}

void add_init(CLI::App& app, Cli& cli) {
  const auto options = std::make_shared<InitCommand>();
  Subcommand command(app, "init", "writes a commented config to start from");
  command.text("--task TASK", "digits | cifar10 | text", options->task);
  command.text("file", "where to", options->path);
  command.require("--task");
  command.require("file");
  command.then([&cli, options] {
    cli.choose("init", *options, [](const InitCommand& chosen) { return run_init_command(chosen.task, chosen.path); });
  });
}

}  // namespace starling
