// starling eval: the model of a state folder, judged on labelled data.
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <nlohmann/json.hpp>

#include "agent/commands/commands.h"
#include "agent/commands/flags.h"
#include "agent/process/trained_model.h"
#include "agent/report/format.h"
#include "agent/report/redrawn.h"
#include "agent/state/class_names.h"
#include "agent/train/model_kinds.h"

namespace starling {
namespace {

using Json = nlohmann::ordered_json;

// Throws std::runtime_error: the data name other classes than the model was trained on.
Dataset load_judged(const std::string& path, const TrainedModel& trained) {
  const SwarmConfig& swarm = trained.settings.swarm;
  bool is_training = false;
  Dataset data = load_judged_data(path, swarm.model.samples(), swarm.rng_seed, &is_training);
  const std::string difference = class_difference(data.classes, trained.classes);
  if (!difference.empty()) {
    throw std::runtime_error(path + ": its classes are not those of the model: " + difference +
                             "; name its folders of classes as the agents' data do");
  }
  if (is_training)
    spdlog::warn(
        "{} holds no test files, so all of it is judged: if agents trained on these samples, their accuracy says "
        "nothing about new ones; then name other data by --data",
        path);
  if (data.classes.empty()) data.classes = trained.classes;
  return data;
}

double mean_loss(const ClassScore& score) { return score.loss_sum / static_cast<double>(score.samples); }
double accuracy(const ClassScore& score) {
  return static_cast<double>(score.correct) / static_cast<double>(score.samples);
}
double bits(double nats) { return nats / std::log(2); }

std::string print_score(const TrainedModel& trained, const EvalOptions& options, const ModelScore& score,
                        const std::vector<std::string>& names) {
  const ModelConfig& model = trained.settings.swarm.model;
  std::string text =
      fmt::format("{}: {}, step {}\n", trained.checkpoint.path, model.kind, trained.checkpoint.content.meta.steps);
  text += fmt::format("{}: {} samples, accuracy {:.2f} %, loss {:.4f}", options.data, score.all.samples,
                      100 * score.all.accuracy, score.all.loss);
  if (model.kind == "lstm") {
    return text +
           fmt::format(" ({:.3f} bits a byte, perplexity {:.2f})\n", bits(score.all.loss), std::exp(score.all.loss));
  }
  text += "\n\nclass  samples  accuracy    loss\n";
  for (size_t i = 0; i < score.classes.size(); ++i) {
    const ClassScore& one = score.classes[i];
    if (one.samples == 0) continue;
    text += fmt::format("{:>5}  {:>7}  {:>6.1f} %  {:>6.4f}", i, one.samples, 100 * accuracy(one), mean_loss(one));
    text += i < names.size() ? "  " + plain(names[i]) + "\n" : "\n";
  }
  return text;
}

Json as_json(const TrainedModel& trained, const EvalOptions& options, const ModelScore& score,
             const std::vector<std::string>& names) {
  const ModelConfig& model = trained.settings.swarm.model;
  Json json = {{"checkpoint", trained.checkpoint.path},
               {"model", model.kind},
               {"step", trained.checkpoint.content.meta.steps},
               {"data", options.data},
               {"samples", score.all.samples},
               {"accuracy", score.all.accuracy},
               {"loss", score.all.loss}};
  if (model.kind == "lstm") {
    json["bits_per_byte"] = bits(score.all.loss);
    json["perplexity"] = std::exp(score.all.loss);
    return json;
  }
  json["classes"] = Json::array();
  for (size_t i = 0; i < score.classes.size(); ++i) {
    const ClassScore& one = score.classes[i];
    if (one.samples == 0) continue;
    json["classes"].push_back(
        {{"class", i}, {"samples", one.samples}, {"accuracy", accuracy(one)}, {"loss", mean_loss(one)}});
    if (i < names.size()) json["classes"].back()["name"] = names[i];
  }
  return json;
}

int run_eval_command(const EvalOptions& options, const ModelJudge& judge) {
  require_engine(judge != nullptr, "eval");
  const TrainedModel trained = load_trained_model(options.state);
  refuse_attached(trained.settings.swarm.model);
  const Dataset data = load_judged(options.data, trained);
  const ModelScore score = judge(trained.settings.swarm.model, trained.checkpoint.content.params, data, options.device);
  if (options.json) {
    std::printf(
        "%s\n",
        as_json(trained, options, score, data.classes).dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
  } else {
    std::fputs(print_score(trained, options, score, data.classes).c_str(), stdout);
  }
  return 0;
}

}  // namespace

void add_eval(CLI::App& app, Cli& cli) {
  const auto options = std::make_shared<EvalOptions>();
  Subcommand command(app, "eval", "Judges an agent's model: accuracy and loss, in all and by class.");
  add_state_flag(command, options->state);
  command.text("--data FOLDER",
               "Labelled data, as --data of an agent takes them. Where there are test files, only those are used.",
               options->data);
  command.require("--data");
  command.option("--device DEVICE", "auto (a GPU if one is usable) | cpu | cuda. Default: auto.",
                 [options](const std::string& text) {
                   options->device = WordValue{{"auto", "cpu", "cuda"}}.read(scalar_tree(text));
                 });
  command.flag("--json", "Prints one JSON object instead of text.", options->json);
  command.then([&cli, options] {
    cli.choose("eval", *options, [judge = cli.engines.judge_model](const EvalOptions& chosen) {
      return run_eval_command(chosen, judge);
    });
  });
}

}  // namespace starling
