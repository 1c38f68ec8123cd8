#include "agent/config/layer_table.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "agent/config/config.h"

namespace starling {
namespace {

using namespace std::chrono_literals;

class LayerTables : public testing::Test {
 protected:
  LayerTables() {
    std::string pattern = (std::filesystem::temp_directory_path() / "starling-layers-XXXXXX").string();
    EXPECT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    path_ = folder_ + "/table.yaml";
  }
  ~LayerTables() override { std::filesystem::remove_all(folder_); }

  LayerTable read(const std::string& text, std::optional<Duration> backward = {}) {
    std::ofstream(path_) << text;
    return read_layer_table(path_, backward);
  }

  // What is said after the file's name.
  std::string refusal(const std::string& text) {
    try {
      read(text);
    } catch (const ConfigError& error) {
      const std::string what = error.what();
      return what.starts_with(path_) ? what.substr(path_.size()) : what;
    }
    return "accepted";
  }

  std::string folder_, path_;
};

TEST_F(LayerTables, DividesBackwardByFlopsAndTurnsTheOrder) {
  const LayerTable table = read("model: two\nbackward: 30ms\nlayers:\n  a: [100, 1e6]\n  b: [2000, 2e6]\n");
  EXPECT_EQ(table.model, "two");
  EXPECT_DOUBLE_EQ(table.backward_s, 0.03);
  EXPECT_DOUBLE_EQ(table.forward_s, 0.015);
  ASSERT_EQ(table.layers.size(), 2u);
  EXPECT_EQ(table.layers[0].name, "b");  // backward begins with the last layer
  EXPECT_EQ(table.layers[0].elements, 2000u);
  EXPECT_DOUBLE_EQ(table.layers[0].backward_s, 0.02);
  EXPECT_DOUBLE_EQ(table.layers[1].backward_s, 0.01);
}

TEST_F(LayerTables, TakesMeasuredTimes) {
  const std::string text = "forward: 7ms\nlayers:\n  a: [100, 1.5ms]\n  b: [2000, 500us]\n";
  const LayerTable table = read(text);
  EXPECT_DOUBLE_EQ(table.backward_s, 0.002);
  EXPECT_DOUBLE_EQ(table.forward_s, 0.007);
  EXPECT_DOUBLE_EQ(table.layers[0].backward_s, 0.0005);
  EXPECT_DOUBLE_EQ(read(text, 20ms).layers[0].backward_s, 0.005);                        // scaled
  EXPECT_DOUBLE_EQ(read("backward: 1s\nlayers: {a: [1, 5]}\n", 20ms).backward_s, 0.02);  // the caller's counts
}

TEST_F(LayerTables, ATrainerPretendsAllOfATable) {
  (void)read("forward: 7ms\nlayers:\n  a: [100, 1.5ms]\n  b: [2000, 500us]\n");
  AgentConfig agent;
  EXPECT_TRUE(trainer_options({}, agent).layers.empty());
  agent.layers = path_;
  const TrainerOptions options = trainer_options({}, agent);
  EXPECT_DOUBLE_EQ(options.forward_s, 0.007);
  ASSERT_EQ(options.layers.size(), 2u);
  EXPECT_EQ(options.layers[0].params, 2000u) << "in the order of backward";
  EXPECT_DOUBLE_EQ(options.layers[0].backward_s, 0.0005);
}

TEST_F(LayerTables, RefusesWithFileAndLine) {
  const std::string row = "expected [params, FLOPs] or [params, time of backward] such as [9408, 1.5ms], found ";
  const std::pair<const char*, std::string> cases[] = {
      {"backward: 1s\nlayers:\n  a: [1, 5]\n  b:\n", ":4: layer 'b': " + row + "nothing"},
      {"backward: 1s\nlayers:\n  a: [1]\n", ":3: layer 'a': " + row + "a list"},
      {"backward: 1s\nlayers:\n  a: [1, ]\n", ":3: layer 'a': " + row + "a list"},
      {"backward: 1s\nlayers:\n  a: [0, 5]\n",
       ":3: layer 'a': expected a whole number from 1 to 1099511627776, found '0'"},
      {"backward: 1s\nlayers:\n  a: [1, -5]\n", ":3: layer 'a': expected a number from 0 to 1e+18, found '-5'"},
      {"backward: 1s\nlayers:\n  a: [1, nan]\n", ":3: layer 'a': expected a number from 0 to 1e+18, found 'nan'"},
      {"layers:\n  a: [1, -5ms]\n",
       ":2: layer 'a': expected a time with its unit, found '-5ms'; write 5s or 500ms (us, ms, s, m, h, d)"},
      {"layers:\n  a: [1, 5ms]\n  b: [1, 5]\n",
       ":3: layer 'b': some layers have times and others FLOPs; give all of them the same"},
      {"layers:\n  a: [1, 5]\n",
       ": the layers have FLOPs, but nothing says how long backward takes; add --backward "
       "150ms, or `backward: 150ms` in the file"},
      {"backward: 1s\nlayers:\n  a: [1, 0]\n", ": no layer computes anything"},
      {"backward: 0s\nlayers:\n  a: [1, 1]\n", ": backward takes no time in any layer"},
      {"backward: 1s\n", ": no layers; write `layers:` with NAME: [params, FLOPs] below"},
      {"backward: 1s\nlayer:\n  a: [1, 1]\n", ":2: layer: unknown key; there are model, forward, backward, layers"},
      {"backward: 1s\nlayers:\n  a: [1, 5]\n  a: [1, 5]\n", ":4: layer 'a': there is another one of this name above"},
      {"just text", ": no table of layers; its keys are model, forward, backward, layers"},
  };
  for (const auto& [text, expected] : cases) EXPECT_EQ(refusal(text), expected) << text;
  std::filesystem::remove(path_);
  const auto refusal_of = [](const std::string& path) {
    try {
      (void)read_layer_table(path, {});
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refusal_of(path_), "cannot read " + path_ +
                                   ": No such file or directory; it is to hold the layers of a "
                                   "model, as configs/layers/resnet50.yaml does");
  EXPECT_EQ(refusal_of(folder_), folder_ + " is no file that can be read; name a file");
  std::ofstream(path_) << std::string(300'000, 'x');
  EXPECT_EQ(refusal_of(path_), path_ + ": more than 262144 bytes; is this the right file?");
}

// As published: torchvision's VGG16 and ResNet-50, timm's Inception-v4, Zaremba's large LSTM.
TEST(LayerTablesOfConfigs, HaveThePublishedSizes) {
  const std::string folder = std::string(std::getenv("STARLING_CONFIGS")) + "/layers/";
  const std::pair<const char*, uint64_t> cases[] = {
      {"vgg16", 138'357'544}, {"resnet50", 25'557'032}, {"inception4", 42'679'816}, {"lstm", 66'034'000}};
  for (const auto& [name, params] : cases) {
    const LayerTable table = read_layer_table(folder + name + ".yaml", {});
    uint64_t sum = 0;
    double backward_s = 0;
    for (const PlanSection& layer : table.layers) {
      sum += layer.elements;
      backward_s += layer.backward_s;
    }
    EXPECT_EQ(sum, params) << name;
    EXPECT_NEAR(backward_s, table.backward_s, 1e-9) << name;
  }
}

}  // namespace
}  // namespace starling
