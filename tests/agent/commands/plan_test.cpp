#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "agent/commands/commands.h"
#include "gossip/net/wire.h"
#include "gossip/updates/update_bundles.h"

namespace starling {
namespace {

using namespace std::chrono_literals;

std::string configs() { return std::getenv("STARLING_CONFIGS"); }

class PlanCommand : public testing::Test {
 protected:
  PlanCommand() {
    std::string pattern = (std::filesystem::temp_directory_path() / "starling-plan-XXXXXX").string();
    EXPECT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  ~PlanCommand() override { std::filesystem::remove_all(folder_); }

  PlanOptions table(const std::string& text) {
    std::ofstream(folder_ + "/table.yaml") << text;
    return {.layers = folder_ + "/table.yaml"};
  }

  std::string folder_;
};

std::string run(const PlanOptions& options) {
  testing::internal::CaptureStdout();
  try {
    EXPECT_EQ(run_plan_command(options), 0);
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
  }
  return testing::internal::GetCapturedStdout();
}

std::string refusal(const PlanOptions& options) {
  testing::internal::CaptureStdout();
  std::string what = "accepted";
  try {
    run_plan_command(options);
  } catch (const std::runtime_error& error) {
    what = error.what();
  }
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  return what;
}

nlohmann::json figures(PlanOptions options) {
  options.json = true;
  return nlohmann::json::parse(run(options));
}

// Two layers of 50,000 params, 8 agents, 1 ms, 10 Mb/s. Selecting takes 5 us + .02 ms; an all-gather takes
// 7 (1 ms + 4 kB / 1.25 MB/s) = 29.4 ms; the second waits for the first. Together they take
// 7 (1 ms + 8 kB / 1.25 MB/s) = 51.8 ms. Dense, all-reduces take 14 (1 ms + 25 kB / 1.25 MB/s) = 294 ms each.
TEST_F(PlanCommand, ShowsAPlanThatCanBeCheckedByHand) {
  PlanOptions options = table("model: two\nforward: 10ms\nlayers:\n  a: [50000, 20ms]\n  b: [50000, 20ms]\n");
  options.form = "collectives";
  options.bytes_per_s = 1.25e6;
  EXPECT_EQ(run(options), R"(two: 0.10 M params in 2 layers; topk, density 1 %
8 agents, links of 1ms and 10 Mbit/s; each bucket is one collective call, and they run one after the other
forward 10.0 ms, backward 40.0 ms a step

plan             buckets  messages     select  exposed sending       step    over best
best                   2        28    0.06 ms          38.8 ms    88.9 ms        0.0 %
greedy                 2        28    0.06 ms          38.8 ms    88.9 ms        0.0 %
per layer              2        28    0.06 ms          38.8 ms    88.9 ms        0.0 %
25 MB buckets          1        14    0.05 ms          51.8 ms     102 ms       14.7 %
one bucket             1        14    0.05 ms          51.8 ms     102 ms       14.7 %
dense                  2        56    0.00 ms           568 ms     618 ms      595.4 %

The best plan takes 0.0 % less time a step than the better naive one (per layer), with 28 messages instead of 28.
Whole fp32 gradients would take 618 ms a step, 7.0 times as long.

The best plan:
bucket  layers                                     params   complete   selected  sent from         to
     1  b                                          0.05 M    20.0 ms    20.0 ms    20.0 ms    49.4 ms
     2  a                                          0.05 M    40.0 ms    40.1 ms    49.4 ms    78.9 ms

From the begin of backward to 91.9 ms; digits are buckets:
best, ends at 78.9 ms
  backward |============================                                    |
  select   |             1             2                                    |
  send     |             111111111111111111111222222222222222222222         |
per layer, ends at 78.9 ms
  backward |============================                                    |
  select   |             1             2                                    |
  send     |             111111111111111111111222222222222222222222         |
one bucket, ends at 91.9 ms
  backward |============================                                    |
  select   |                           1                                    |
  send     |                           1111111111111111111111111111111111111|
)");
}

// What the planner counts beside a payload is what the wire needs, to a tenth.
TEST_F(PlanCommand, HeadersAreAsLargeAsOnTheWire) {
  constexpr size_t kAgents = 8;
  const FrameHeader header{1, {}, 1, {"10.0.0.1", 7400}};
  const std::vector<std::byte> payload(1000);
  Contribution contribution;
  contribution.round = contribution.seq = contribution.length = 1;
  LogEntry entry;
  entry.round = 1;
  entry.counted.resize(kAgents);
  const auto bytes_of = [&](const Message& message) {
    return static_cast<double>(encode_frame_header(header, message, payload, {}).size());
  };
  const double of_contribution = kFrameHeaderBytes + kContributionHeaderBytes;
  const double of_entry = kFrameHeaderBytes + kEntryHeaderBytes + kAgents * kCountedBytes;
  EXPECT_NEAR(of_contribution, bytes_of(contribution), 0.1 * bytes_of(contribution));
  EXPECT_NEAR(of_entry, bytes_of(entry), 0.1 * bytes_of(entry));
}

// 2^20 params in fp32 are 32 slices. Over links of 1 MB/s, without latency, all are there after 2 x 3/4 x 4 MiB, and
// 1.6 ns a param later the last owner's quarter is applied; the others are by then. Headers of 264 and 520 bytes a
// slice count too, and 1.8 % for TCP's answers.
TEST_F(PlanCommand, CountsHeadersAndWhatApplyingTakes) {
  PlanOptions options = table("forward: 0ms\nlayers:\n  a: [1048576, 1ms]\n");
  options.codec = "fp32";
  options.agents = 4;
  options.latency = Duration::zero();
  options.occupancy = Duration::zero();
  options.bytes_per_s = 1e6;
  const nlohmann::json plan = figures(options);
  ASSERT_EQ(plan["sections"], 32);
  const double bytes = 0.75 * (32 * (264 + 520) + 8 * 1048576), applied_s = 1.6e-9 * 1048576 / 4;
  const double sent_s = 1e-6 * bytes * (1 + 52.0 / 2896);
  EXPECT_NEAR(plan["plans"]["one bucket"]["step_s"].get<double>(), 0.001 + sent_s + applied_s, 1e-4);
}

TEST_F(PlanCommand, SaysWhereDenseIsFaster) {
  PlanOptions options = table("layers:\n  a: [10000000, 5ms]\n");
  options.bytes_per_s = 0;
  options.occupancy = 0us;
  const std::string verdict = "\nDense is faster here: whole fp32 gradients take 24.5 ms a step, topk, density 1 %";
  EXPECT_NE(run(options).find(verdict), std::string::npos) << run(options);
  options.bytes_per_s = 12.5e6;
  EXPECT_EQ(run(options).find("Dense is faster"), std::string::npos);
}

TEST_F(PlanCommand, PlansEveryTableThatComesWithIt) {
  for (const char* name : {"vgg16", "resnet50", "inception4", "lstm"}) {
    for (const char* form : {"group", "collectives"}) {
      const auto all = figures({.layers = configs() + "/layers/" + name + ".yaml", .form = form});
      const double best_s = all["plans"]["best"]["step_s"];
      EXPECT_GT(best_s, double(all["forward_s"]) + double(all["backward_s"]));
      for (const auto& [other, plan] : all["plans"].items()) {
        if (other == "dense") continue;
        EXPECT_LE(best_s, plan["step_s"]) << name << " " << form << " " << other;
        EXPECT_EQ(plan["ends"].back(), all["sections"]) << other;
      }
    }
  }
}

// A layer that is larger than all else is many slices, and is called by its own name.
TEST_F(PlanCommand, PlansALayerLargerThanAllElse) {
  PlanOptions options = table("layers:\n  emb: [90000000, 1ms]\n  body: [100000, 20ms]\n  head: [50000, 5ms]\n");
  const std::string text = run(options);
  EXPECT_NE(text.find("\n     1  head to emb "), std::string::npos) << text;
  EXPECT_NE(text.find("\n     2  emb "), std::string::npos) << text;
  EXPECT_EQ(text.find("emb to emb"), std::string::npos) << text;
  const auto plans = figures(options)["plans"];
  for (const auto& [name, plan] : plans.items()) EXPECT_LE(plans["best"]["step_s"], plan["step_s"]) << name;
}

// Slices of one owner fill its link while the others' stand idle, which the form does not count.
TEST_F(PlanCommand, TakesThePlanThatEndsFirstWhenPlayed) {
  PlanOptions options{.layers = configs() + "/layers/resnet50.yaml"};
  options.bytes_per_s = 12.5e6;
  const std::string text = run(options);
  EXPECT_NE(text.find("\nbest by form  "), std::string::npos) << text;
  const auto plans = figures(options)["plans"];
  EXPECT_LT(plans["best by form"]["form_step_s"], plans["best"]["form_step_s"]);
  EXPECT_GT(plans["best by form"]["step_s"], plans["best"]["step_s"]);
  EXPECT_LE(plans["best"]["messages"], plans["per slice"]["messages"]);
}

TEST_F(PlanCommand, PlansABuiltInModelOfAConfig) {
  const std::string text = run({.config_path = configs() + "/digits.yaml", .backward = 10ms});
  EXPECT_TRUE(text.starts_with("cnn: 5994 params in ")) << text;
  EXPECT_EQ(refusal({.config_path = configs() + "/digits.yaml"}),
            "nothing says how long backward takes; add --backward 10ms");
  EXPECT_NE(refusal({.config_path = configs() + "/digits.yaml", .overrides = {"swarm.local_steps=4"}, .backward = 10ms})
                .find("swarm.local_steps is 4: gradients are sent in every step"),
            std::string::npos);
}

// Whoever plans for a swarm's config gets the plan of what that swarm sends; flags say more.
TEST_F(PlanCommand, PlansForTheCodecOfAConfigThatSharesGradients) {
  const PlanOptions base{.config_path = configs() + "/gradients.yaml",
                         .overrides = {"swarm.exchange.update.codec=topk_bf16", "swarm.exchange.update.density=0.002"},
                         .backward = 10ms};
  const auto title_of = [&](auto change) {
    PlanOptions options = base;
    change(options);
    const std::string text = run(options);
    return text.substr(text.find("; ") + 2, text.find('\n') - text.find("; ") - 2);
  };
  EXPECT_EQ(title_of([](auto&) {}), "topk_bf16, density 0.2 %");
  EXPECT_EQ(title_of([](auto& o) { o.density = 0.05; }), "topk_bf16, density 5 %");
  EXPECT_EQ(title_of([](auto& o) { o.codec = "topk"; }), "topk, density 0.2 %");
  PlanOptions two = base;
  two.layers = configs() + "/layers/resnet50.yaml";
  two.overrides.push_back("swarm.exchange.update.slices=2");
  EXPECT_NE(run(two).find(" params in 2 slices; "), std::string::npos);
  EXPECT_EQ(title_of([&](auto& o) {
              o.config_path = configs() + "/digits.yaml";
              o.overrides = {};
            }),
            "topk, density 1 %")
      << "it shares params";
}

TEST_F(PlanCommand, RefusesWithARemedy) {
  const PlanOptions fine = table("layers:\n  a: [10, 5ms]\n");
  const auto with = [&](auto change) {
    PlanOptions options = fine;
    change(options);
    return refusal(options);
  };
  EXPECT_TRUE(run(fine).starts_with("model: 10 params in 1 slice; topk")) << "one small layer is a plan";
  EXPECT_EQ(with([](auto& o) { o.agents = 1; }), "--agents 1; a group has 2 to 32");
  EXPECT_EQ(with([](auto& o) { o.agents = 33; }), "--agents 33; a group has 2 to 32");
  EXPECT_EQ(with([](auto& o) { o.form = "ring"; }), "--form 'ring'; it is group or collectives");
  EXPECT_TRUE(with([](auto& o) { o.codec = "zip"; }).starts_with("there is no update codec 'zip'; choose one of "));
  EXPECT_TRUE(with([](auto& o) { o.codec = "sketch"; }).ends_with("plan for another one, --codec topk"));
  EXPECT_TRUE(with([](auto& o) { o.backward = 0ms; }).starts_with("--backward 0s leaves no time to send in"));
  EXPECT_EQ(refusal({}),
            "a plan needs layers: --config FILE for a built-in model, or --layers FILE with a table as in "
            "configs/layers");
  EXPECT_EQ(with([](auto& o) { o.overrides = {"swarm.exchange.codec=bf16"}; }),
            "--set changes a config, and there is none here: add --config FILE");
  EXPECT_NE(with([](auto& o) { o.svg = "/nowhere/x.svg"; }).find("cannot write /nowhere/x.svg"), std::string::npos);
}

TEST_F(PlanCommand, DrawsAllPlans) {
  PlanOptions options = table("model: a&b\nlayers:\n  a<b: [10000, 5ms]\n  emb: [90000000, 1ms]\n");
  options.svg = folder_ + "/plan.svg";
  EXPECT_NE(run(options).find("\ndrawn in " + options.svg + "\n"), std::string::npos);
  std::ifstream file(options.svg);
  const std::string svg(std::istreambuf_iterator<char>(file), {});
  EXPECT_TRUE(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
  for (const char* part :
       {"<title>a&amp;b: ", ">best</text>", ">greedy</text>", ">per slice</text>", ">dense</text>", "a&lt;b"}) {
    EXPECT_NE(svg.find(part), std::string::npos) << part;
  }
  for (const char* part : {"nan", "inf", "a<b", "=\"-"}) EXPECT_EQ(svg.find(part), std::string::npos) << part;
}

// compression/plan/README.md shows it; a change of plans or drawing draws it anew:
//   starling plan --layers configs/layers/resnet50.yaml --link 1ms,100mbit --svg agent/plan.svg
TEST_F(PlanCommand, DrawsThePictureOfTheReadme) {
  PlanOptions options{.layers = configs() + "/layers/resnet50.yaml"};
  options.bytes_per_s = 12.5e6;
  options.svg = folder_ + "/plan.svg";
  run(options);
  const auto text_of = [](const std::string& path) {
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  EXPECT_TRUE(text_of(options.svg) == text_of(configs() + "/../agent/plan.svg"));
}

}  // namespace
}  // namespace starling
