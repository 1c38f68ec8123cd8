#include "agent/config/config.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "agent/config/fields.h"
#include "agent/config/settings.h"
#include "agent/train/model_kinds.h"
#include "gossip/limits.h"
#include "gossip/rng.h"

namespace starling {
namespace {

using namespace std::chrono_literals;

// "a, b, c". A list that grows with what can be named is not written out in what a test expects.
std::string listed(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

class ConfigTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"STARLING_BOOTSTRAP", "STARLING_LISTEN", "STARLING_STATE", "STARLING_TEST_COMPUTE_MS",
                             "STARLING_TEST_LAYERS"}) {
      unsetenv(name);
    }
    std::string pattern = (std::filesystem::temp_directory_path() / "starling-config-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
    path_ = (dir_ / "f.yaml").string();
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  // Lines of notice stand in `notices_` afterwards.
  Config load(const std::string& text, const std::vector<std::string>& overrides = {}) {
    std::ofstream(path_, std::ios::binary) << text;
    notices_.clear();
    return load_config(path_, overrides, [this](const std::string& line) { notices_ += without_path(line) + "\n"; });
  }

  std::string without_path(std::string text) const {
    for (size_t at; (at = text.find(path_)) != std::string::npos;) text.replace(at, path_.size(), "F");
    return text;
  }

  // What is said about this file, with its path left out; "" when nothing is wrong.
  std::string error(const std::string& text, const std::vector<std::string>& overrides = {}) {
    try {
      load(text, overrides);
      return "";
    } catch (const ConfigError& error) {
      return without_path(error.what());
    }
  }

  std::string override_error(const std::string& text) {
    try {
      load_config("", {text});
      return "";
    } catch (const ConfigError& error) {
      return error.what();
    }
  }

  std::filesystem::path dir_;
  std::string path_, notices_;
};

using Cases = std::vector<std::pair<std::string, std::string>>;

TEST_F(ConfigTest, TicketsComeWithAddressesAndFromFilesAndAreNotShown) {
  const Ticket one{{"10.0.0.1", 7400}, PeerId{{1}}, KeySeed{7}}, two{{"10.0.0.2", 7400}, PeerId{{2}}, KeySeed{7}};
  const Ticket other{{"10.0.0.3", 7400}, PeerId{{3}}, KeySeed{8}};
  const std::string file = (dir_ / "tickets").string();
  std::ofstream(file) << one.to_string() << "\n" << two.to_string() << "\n";
  for (const std::string& text : {one.to_string() + "," + two.to_string(), "@" + file}) {
    const Config config = load_config("", {"--bootstrap=" + text});
    EXPECT_EQ(config.agent.tickets, (std::vector<Ticket>{one, two}));
    EXPECT_EQ(config.agent.bootstrap, (std::vector<Endpoint>{one.at, two.at}));
    EXPECT_EQ(print_config(config).find('#' + one.to_string().substr(15, 8)), std::string::npos);
  }
  const std::string of_several = one.to_string() + "," + other.to_string();  // for a registry
  EXPECT_EQ(load_config("", {"--bootstrap=" + of_several}).agent.tickets, (std::vector<Ticket>{one, other}));
  const std::string cut = one.to_string().substr(0, 90), mixed = one.to_string() + "," + cut;
  for (const std::string& text : {"--bootstrap=" + mixed, "agent.bootstrap=" + mixed, "--bootstrap=" + cut}) {
    const std::string said = error("", {text});
    EXPECT_NE(said, "");
    EXPECT_EQ(said.find(one.to_string().substr(20, 12)), std::string::npos) << said;
  }
  EXPECT_NE(error("", {"--bootstrap=@/no/such"}).find("cannot be read"), std::string::npos);
  std::ofstream(file) << std::string(100'000, 'a');
  EXPECT_NE(error("", {"--bootstrap=@" + file}).find("more than"), std::string::npos);
}

TEST_F(ConfigTest, AnEmptyFileGivesTheDefaultsAndNoSwarm) {
  for (const char* text : {"", "# nothing\n", "---\n", "swarm:\nagent:\n"}) {
    const Config config = load(text);
    EXPECT_FALSE(config.has_swarm) << text;
    EXPECT_EQ(print_config(config), print_config(Config{})) << text;
  }
  EXPECT_TRUE(load("swarm: {}\n").has_swarm);
  EXPECT_TRUE(load("swarm: {optimizer: {momentum: 0.5}}\n").has_swarm);
  EXPECT_FALSE(load("agent: {batch: 3}\n").has_swarm);
}

TEST_F(ConfigTest, ReadsEveryKindOfValue) {
  const Config c = load(R"(
swarm:
  name: "a b"
  model: {kind: mlp, input: [3, 32, 32], classes: 5, hidden: []}
  optimizer:
    kind: adamw
    learning_rate: 1e-3
    nesterov: true
  weight: data
  consensus_timeout: 1.5s
  exchange: {kind: none, codec: bf16, share: params, overlap: on, deadline_max: 2m}
agent:
  listen: "[::1]:0"
  advertise: gpu-1.example.org:7500
  bootstrap: [10.0.0.1:7400, "[fe80::1%eth0]:7400"]
  checkpoint: {every: 0s, keep: 7}
  data: {shard: 2/4, labels: [4, 0]}
)");
  EXPECT_EQ(c.swarm.name, "a b");
  EXPECT_EQ(c.swarm.model.input, (std::vector<int64_t>{3, 32, 32}));
  EXPECT_TRUE(c.swarm.model.hidden.empty());
  EXPECT_EQ(c.swarm.optimizer.learning_rate, 1e-3);
  EXPECT_TRUE(c.swarm.optimizer.nesterov);
  EXPECT_EQ(c.swarm.settle_max, 1500ms);
  EXPECT_EQ(c.swarm.exchange.kind, ExchangeKind::kNone);
  EXPECT_EQ(c.swarm.exchange.codec, CodecKind::kBf16);
  EXPECT_EQ(c.swarm.exchange.overlap, Overlap::kOn);
  EXPECT_EQ(c.swarm.exchange.deadline_max, 2min);
  EXPECT_EQ(c.agent.listen, (Endpoint{"::1", 0}));
  EXPECT_EQ(c.agent.advertise, (Endpoint{"gpu-1.example.org", 7500}));
  ASSERT_EQ(c.agent.bootstrap.size(), 2u);
  EXPECT_EQ(c.agent.bootstrap[1].host, "fe80::1%eth0");
  EXPECT_EQ(c.agent.checkpoint_every, 0s);
  EXPECT_EQ(c.agent.data.shard, 1u);
  EXPECT_EQ(c.agent.data.shard_count, 4u);
  EXPECT_EQ(c.agent.data.labels, (std::vector<int64_t>{4, 0}));
}

TEST_F(ConfigTest, NamesUnknownKeysAndWhatWasMeant) {
  const Cases cases = {
      {"swarm:\n  optimizer:\n    lerning_rate: 0.1\n",
       "F:3: unknown key 'lerning_rate' in swarm.optimizer; did you mean 'learning_rate'?"},
      {"swarm: {\n  codec: fp32}\n", "F:2: unknown key 'codec' in swarm; did you mean 'swarm.exchange.codec'?"},
      {"swarm: {learning_rat: 1}\n",
       "F:1: unknown key 'learning_rat' in swarm; did you mean 'swarm.optimizer.learning_rate'?"},
      {"exchange: {kind: none}\n", "F:1: unknown key 'exchange'; did you mean 'swarm.exchange'?"},
      {"agnet: {}\n", "F:1: unknown key 'agnet'; did you mean 'agent'?"},
      {"agent:\n  checkpoint: {every: 5s, often: 3}\n",
       "F:2: unknown key 'often' in agent.checkpoint; known keys: every, keep"},
      {"agent:\n  batch: 1\n  batch: 2\n", "F:3: agent.batch stands here a second time; keep one of them"},
  };
  for (const auto& [text, expected] : cases) EXPECT_EQ(error(text), expected) << text;
}

TEST_F(ConfigTest, SaysWhatWasExpectedAndWhatWasFound) {
  const Cases cases = {
      {"swarm: 5\n", "F:1: swarm: expected keys with values (name: ...)"},
      {"[1, 2]\n", "F:1: expected keys with values (swarm: ...)"},
      {"swarm:\n  batch: many\n", "F:2: swarm.batch: expected a whole number from 1 to 1000000, found 'many'"},
      {"swarm:\n  batch: 0\n", "F:2: swarm.batch: expected a whole number from 1 to 1000000, found '0'"},
      {"swarm:\n  batch: 6.5\n", "F:2: swarm.batch: expected a whole number from 1 to 1000000, found '6.5'"},
      {"swarm:\n  batch: [1]\n", "F:2: swarm.batch: expected a whole number from 1 to 1000000, found a list"},
      {"swarm:\n  batch:\n", "F:2: swarm.batch: expected a whole number from 1 to 1000000, found nothing"},
      {"swarm:\n  batch: {a: 1}\n", "F:2: swarm.batch: expected a whole number from 1 to 1000000, found keys below it"},
      {"swarm:\n  stop_after: -1\n", "F:2: swarm.stop_after: expected a whole number, 0 or more, found '-1'"},
      {"swarm: {optimizer: {learning_rate: nan}}\n",
       "F:1: swarm.optimizer.learning_rate: expected a number from 0 to 1000, found 'nan'"},
      {"swarm: {optimizer: {learning_rate: inf}}\n",
       "F:1: swarm.optimizer.learning_rate: expected a number from 0 to 1000, found 'inf'"},
      {"swarm: {optimizer: {nesterov: yes}}\n",
       "F:1: swarm.optimizer.nesterov: expected one of true, false, found 'yes'"},
      {"swarm: {model: {kind: cmm}}\n",
       "F:1: swarm.model.kind: expected one of " + listed(model_kind_names()) + ", found 'cmm'; did you mean 'cnn'?"},
      {"swarm: {model: {input: [28, 28]}}\n", "F:1: swarm.model.input: expected 3 numbers, found 2"},
      {"swarm: {exchange: {block: 2000000}}\n",
       "F:1: swarm.exchange.block: expected a whole number from 64 to 1048576, found '2000000'"},
      {"swarm: {exchange: {share: [momentum]}}\n",
       "F:1: swarm.exchange.share: expected [params] or [params, momentum], found [momentum]"},
      {"agent: {evaluate_every: 5}\n",
       "F:1: agent.evaluate_every: expected a time with its unit, found '5'; write 5s or 500ms (us, ms, s, m, h, d)"},
      {"agent: {evaluate_every: 25h}\n", "F:1: agent.evaluate_every: expected a time from 0s to 24h, found '25h'"},
      {"agent: {listen: here}\n", "F:1: agent.listen: expected HOST:PORT such as 192.168.1.5:7400, found 'here'"},
      {"agent: {listen: \"0.0.0.0:65535\"}\n",
       "F:1: agent.listen: port 65535 leaves no next port for the bulk data; choose a smaller one"},
      {"agent: {listen: \"0.0.0.0:70000\"}\n",
       "F:1: agent.listen: there is no port 70000, they end at 65535; choose another in '0.0.0.0:70000'"},
      {"agent: {bootstrap: \"a:0\"}\n",
       "F:1: agent.bootstrap: port 0 means 'any' and nobody can dial it; name the port in 'a:0'"},
      {"agent: {data: {shard: 0/4}}\n",
       "F:1: agent.data.shard: in '0/4': expected a whole number from 1 to 4, found '0'"},
      {"agent: {data: {shard: 5/4}}\n",
       "F:1: agent.data.shard: in '5/4': expected a whole number from 1 to 4, found '5'"},
      {"agent: {data: {shard: 2}}\n",
       "F:1: agent.data.shard: expected NUMBER/COUNT such as 2/4, the second of four, found '2'"},
      {"agent: {data: {hold_out: 0.6}}\n", "F:1: agent.data.hold_out: expected a number from 0 to 0.5, found '0.6'"},
      {"agent: {data: {hold_out: -0.1}}\n", "F:1: agent.data.hold_out: expected a number from 0 to 0.5, found '-0.1'"},
      {"agent: {name: \"a\\\"b\"}\n", "F:1: agent.name: expected a name without quotes and backslashes, found 'a\"b'"},
      {"agent: {name: \"a\\nb\"}\n", "F:1: agent.name: expected one line of UTF-8 text without control characters"},
      {"agent: {name: " + std::string(33, 'n') + "}\n", "F:1: agent.name: expected at most 32 bytes, found 33"},
  };
  for (const auto& [text, expected] : cases) EXPECT_EQ(error(text), expected) << text;
}

TEST_F(ConfigTest, TellsWhatDoesNotExistAndWhatToTakeInstead) {
  const std::string topk =
      "'topk' has no legal delta for a pair of params: what one side leaves out the other cannot "
      "know; take modulo8, or source: updates with update.codec";
  EXPECT_EQ(error("swarm: {exchange: {codec: topk}}\n"), "F:1: swarm.exchange.codec: " + topk);
  for (const char* name : {"sign", "dgc", "topk+ef"}) {
    EXPECT_NE(error(std::string("swarm: {exchange: {codec: ") + name + "}}\n").find("no legal delta for a pair"),
              std::string::npos)
        << name;
  }
  for (const char* name : {"int8", "int4", "ternary", "sketch"}) {
    EXPECT_EQ(error(std::string("swarm: {exchange: {codec: ") + name + "}}\n"),
              std::string("F:1: swarm.exchange.codec: '") + name +
                  "' is a codec of updates, and a pair shares params; "
                  "take modulo8 (1 byte an element, the mean stays exact), or write kind: group, source: updates and "
                  "update.codec: " +
                  name);
  }
  EXPECT_EQ(error("swarm: {exchange: {codec: powergossip}}\n"),
            "F:1: swarm.exchange.codec: 'powergossip': Starling 0.2.0 is the last version that has it; take modulo4");
  EXPECT_EQ(error("swarm: {exchange: {codec: qsgd}}\n"),
            "F:1: swarm.exchange.codec: 'qsgd': Starling 0.2.0 is the last version that has this codec; take modulo8");
  EXPECT_NE(error("swarm: {exchange: {codec: bf16+ef}}\n").find("error feedback needs updates"), std::string::npos);
  EXPECT_EQ(
      error("swarm: {exchange: {codec: fp23}}\n"),
      "F:1: swarm.exchange.codec: expected one of " + codec_choices(", ") + ", found 'fp23'; did you mean 'fp32'?");
  const std::string ring = error("swarm: {exchange: {kind: ring}}\n");
  EXPECT_TRUE(ring.starts_with("F:1: swarm.exchange.kind: expected one of none, pairwise, neighborhood")) << ring;
  EXPECT_TRUE(ring.ends_with(", found 'ring'")) << ring;
  EXPECT_NE(error("swarm: {exchange: {group_size: 17}}\n").find("16"), std::string::npos);
}

TEST_F(ConfigTest, TheMomentumOfAnUpdateFollowsItsCodecUnlessItIsGiven) {
  const auto momentum = [this](const std::string& update) {
    const Config config =
        load("swarm: {optimizer: {momentum: 0}, exchange: {kind: group, source: updates, update: {" + update + "}}}\n");
    const std::string text = print_swarm_settings(config.swarm);
    EXPECT_EQ(momentum_of(parse_swarm_settings(text).exchange.update), momentum_of(config.swarm.exchange.update));
    return momentum_of(config.swarm.exchange.update);
  };
  EXPECT_EQ(momentum("codec: dgc"), 0.9);
  EXPECT_EQ(momentum("codec: dgc, momentum: 0"), 0);
  EXPECT_EQ(momentum("codec: sketch"), 0);
  EXPECT_EQ(momentum("momentum: 0.5, codec: sketch"), 0.5);
}

TEST_F(ConfigTest, PairsHaveAGuardUnlessItIsTurnedOff) {
  const auto clip = [this](const std::string& exchange) {
    const Config config = load("swarm: {exchange: {" + exchange + "}}\n");
    const std::string text = print_swarm_settings(config.swarm);
    EXPECT_EQ(clip_of(parse_swarm_settings(text).exchange), clip_of(config.swarm.exchange)) << exchange;
    return clip_of(config.swarm.exchange);
  };
  EXPECT_EQ(clip("kind: pairwise"), 3);
  EXPECT_EQ(clip("kind: pairwise, overlap: on"), 3);
  EXPECT_EQ(clip("kind: pairwise, outlier_clip: 0"), 0);
  EXPECT_EQ(clip("kind: pairwise, outlier_clip: 8"), 8);
  EXPECT_EQ(clip("kind: group, codec: fp32"), 0);
  EXPECT_EQ(clip("kind: none"), 0);
}

TEST_F(ConfigTest, RefusesWhatAveragingCannotDo) {
  const auto refused = [this](const std::string& swarm, const std::string& why) {
    const std::string said = error("swarm: {" + swarm + "}\n");
    EXPECT_NE(said.find(why), std::string::npos) << swarm << ": " << said;
  };
  const std::string group = "exchange: {kind: group, codec: fp32, overlap: off, source: gradients";
  refused("exchange: {kind: neighborhood}", "write codec: bf16, fp16 or fp32");
  refused("exchange: {kind: group}", "write codec: bf16, fp16 or fp32");
  refused("exchange: {kind: group, codec: modulo4}", "modulo4 says only how two models differ");
  refused("exchange: {kind: neighborhood, codec: fp32, fragments: 2}", "write fragments: 1, or kind: pairwise");
  refused("exchange: {kind: group, codec: fp32, exchanges_per_step: 2}",
          "write exchanges_per_step: auto, or kind: pairwise");
  refused("exchange: {overlap: on, exchanges_per_step: 2}", "write exchanges_per_step: auto, or overlap: auto");
  refused("exchange: {exchanges_per_step: 0}", "expected auto, or a number from 1 to 3, found '0'");
  refused("exchange: {exchanges_per_step: 4}", "expected auto, or a number from 1 to 3, found '4'");
  refused("exchange: {exchanges_per_step: many}", "expected auto, or a number from 1 to 3, found 'many'");
  refused("exchange: {fragments: 0}", "found '0'");
  refused("exchange: {fragments: 65}", "found '65'");
  refused("exchange: {codec: fragments}", "write fragments: 4 beside a codec");
  refused("exchange: {kind: group, codec: fp32, outlier_clip: 3}", "only pairs vote on a scale");
  refused("exchange: {kind: pairwise, source: gradients}", "in one group; write kind: group");
  refused("exchange: {kind: neighborhood, codec: fp32, source: gradients}", "in one group; write kind: group");
  refused(group + "}, local_steps: 2", "local_steps: 1");
  refused(group + "}, round: 1s", "local_steps: 1");
  refused("exchange: {kind: group, codec: fp32, source: gradients}", "overlap: off");
  refused("optimizer: {kind: adamw}, " + group + "}", "their mean is no gradient");
  const std::string members = "exchange: {kind: group, codec: fp32, members: ";
  refused("exchange: {members: [a, b]}", "only with kind: group");
  refused(members + "[a]}", "2 to 16 members");
  refused(members + "[a, b, c], group_size: 2}", "2 to 2 members");
  refused(members + "[a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q]}", "here are 17");
  refused(members + "[a, b, a]}", "'a' stands there twice");
  refused(members + "[a, \"\"]}", "list of names");
  refused("topology: {kind: file}", "needs edges");
  refused("topology: {edges: [a b]}", "only with kind: file");
  refused("topology: {kind: file, edges: [a b, c d]}", "in parts");
  refused("topology: {kind: file, edges: [ab]}", "two names");
  refused("topology: {kind: rign}", "did you mean 'ring'");
  refused("optimizer: {schedule: cosine}", "stop_after");
  refused("optimizer: {schedule: step}", "decay_every");
  refused("exchange: {kind: group, source: updates, update: {pipeline: on}}", "source: gradients");
  refused("exchange: {update: {pipeline: on}}", "source: gradients");
  refused(group + ", update: {pipeline: on}}, local_steps: 2", "local_steps: 1");
  EXPECT_NE(error("swarm: {" + group + ", update: {pipeline: on}}}\n", {"--repair=off"}).find("source: gradients"),
            std::string::npos);
  EXPECT_NE(error("swarm: {}\n", {"--inject-loss=0.1"}).find("write kind: group"), std::string::npos);
  refused(group + ", update: {merge: auto}}", "pipeline: on");
  refused(group + ", update: {pipeline: on, codec: sketch}}", "pipeline: off");
  refused("optimizer: {momentum: 0}, " + group + ", update: {pipeline: on, codec: dgc, norm_clip: 2}}", "norm_clip: 0");
  EXPECT_EQ(error("swarm: {optimizer: {momentum: 0}, " + group + ", update: {pipeline: on, codec: dgc}}}\n"), "");
  EXPECT_EQ(error("swarm: {" + group + "}}\n"), "");
  EXPECT_EQ(error("swarm: {topology: {kind: file, edges: [a b, b c]}}\n"), "");
}

TEST_F(ConfigTest, RefusesWhatTheLogOfUpdatesCannotCarry) {
  const auto refused = [this](const std::string& swarm, const std::string& why) {
    const std::string said = error("swarm: {" + swarm + "}\n");
    EXPECT_NE(said.find(why), std::string::npos) << swarm << ": " << said;
  };
  const std::string updates = "exchange: {kind: group, source: updates";
  refused("exchange: {source: updates}", "write kind: group");
  refused("exchange: {kind: neighborhood, codec: fp32, source: updates}", "write kind: group");
  refused(updates + ", share: [params, momentum]}", "share: [params]");
  refused(updates + ", outlier_clip: 3}", "only pairs vote on a scale");
  refused(updates + ", outer: {momentum: 0.9}}", "write overlap: off");
  refused(updates + ", update: {codec: topq}}", "expected one of fp32, bf16, topk, ");
  refused(updates + ", update: {density: 0}}", "swarm.exchange.update.density: expected a number from 1e-06 to 1");
  refused(updates + ", update: {density: 1.5}}", "swarm.exchange.update.density: expected a number from 1e-06 to 1");
  refused(updates + ", update: {codec: sign}}", "write weight: equal");
  refused(updates + ", update: {codec: sign}}, weight: data", "write weight: equal");
  EXPECT_EQ(error("swarm: {" + updates + ", update: {codec: sign}}, weight: equal}\n"), "");
  refused("optimizer: {momentum: 0.9}, " + updates + ", update: {codec: dgc}}", "optimizer.momentum: 0");
  refused("optimizer: {kind: adamw}, " + updates + ", update: {codec: dgc}}", "optimizer.kind: sgd");
  refused("optimizer: {momentum: 0}, " + updates + ", outer: {momentum: 0.5}, update: {codec: dgc}}",
          "outer.momentum: 0");
  EXPECT_EQ(error("swarm: {optimizer: {momentum: 0}, " + updates + ", update: {codec: dgc}}}\n"), "");
  const std::string masked = ", update: {codec: sketch, momentum: 0.9}}";
  refused("optimizer: {momentum: 0.9}, " + updates + masked, "optimizer.momentum: 0, or update.momentum: 0");
  refused("optimizer: {kind: adamw}, " + updates + masked, "optimizer.kind: sgd");
  refused("optimizer: {momentum: 0}, " + updates + ", outer: {momentum: 0.5}" + masked, "outer.momentum: 0");
  EXPECT_EQ(error("swarm: {optimizer: {momentum: 0}, " + updates + masked + "}\n"), "");
  EXPECT_EQ(error("swarm: {optimizer: {momentum: 0.9}, " + updates + ", update: {codec: sketch}}}\n"), "");
  refused(updates + ", update: {codec: sketch, density: 0.3}}", "fewer candidates, or codec: bf16");
  EXPECT_EQ(error("swarm: {" + updates + ", update: {codec: sketch, density: 0.25}}}\n"), "");
  EXPECT_EQ(error("swarm: {" + updates + ", update: {codec: topk, density: 0.3}}}\n"), "");
  refused("exchange: {outer: {momentum: 0.9}, overlap: off}", "source: updates");
  for (const UpdateName& update : update_names()) {  // params are never encoded by a codec of updates
    if (update.kind == UpdateKind::kFp32) continue;
    const std::string codec = std::string(", update: {codec: ").append(update.name) + "}}";
    refused("exchange: {kind: pairwise" + codec, "source: updates");
    refused("exchange: {kind: neighborhood, codec: fp32" + codec, "source: updates");
    refused("exchange: {kind: group, codec: fp32" + codec, "source: updates");
    if (update.kind == UpdateKind::kSign) continue;  // refused for its weight, too
    EXPECT_EQ(error("swarm: {optimizer: {momentum: 0}, " + updates + codec + "}\n"), "") << update.name;
  }
  std::string names;
  for (int i = 0; i < 33; ++i) names += (i > 0 ? ", a" : "a") + std::to_string(i);
  refused(updates + ", members: [" + names + "]}", "at most 32 members");
  EXPECT_EQ(error("swarm: {" + updates + ", outer: {momentum: 0.5}, update: {codec: topk}}, local_steps: 50}\n"), "");
  EXPECT_EQ(error("swarm: {" + updates + ", outer: {momentum: 0.9, learning_rate: 0.7}, overlap: off}}\n"), "");
  EXPECT_EQ(error("swarm: {optimizer: {kind: adamw}, " + updates + "}}\n"), "");

  const SwarmConfig swarm = load("swarm: {" + updates + "}}\n").swarm;
  EXPECT_NO_THROW(refuse_absent(swarm, 32));
  EXPECT_THROW(refuse_absent(swarm, 33), ConfigError);
  const SwarmConfig named = load("swarm: {" + updates + ", members: [agent-0, agent-1]}}\n").swarm;
  EXPECT_NO_THROW(refuse_absent(named, 2));
  try {
    refuse_absent(named, 3);
    ADD_FAILURE() << "the third would hold another model";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("names 2 of 3 agents"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("leave members out, or write source: params"), std::string::npos);
  }
}

TEST_F(ConfigTest, RefusesMoreAgentsThanAGroupHolds) {
  const SwarmConfig group = load("swarm: {exchange: {kind: group, codec: fp32}}\n").swarm;
  EXPECT_NO_THROW(refuse_absent(group, 16));
  try {
    refuse_absent(group, 17);
    ADD_FAILURE() << "the last one would leave";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("a group holds at most 16 agents, and here are 17"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("write kind: pairwise, which holds any number"), std::string::npos);
  }
  EXPECT_THROW(refuse_absent(load("swarm: {exchange: {kind: group, codec: fp32, group_size: 4}}\n").swarm, 5),
               ConfigError);
}

TEST_F(ConfigTest, RefusesNamesThatTheSwarmWillNotHave) {
  const auto refused = [&](const std::string& settings, const std::string& what) {
    const SwarmConfig swarm = load("swarm: {" + settings + "}\n").swarm;
    EXPECT_NO_THROW(refuse_absent(swarm, 3));
    try {
      refuse_absent(swarm, 2);
      ADD_FAILURE() << settings;
    } catch (const ConfigError& error) {
      EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
    }
  };
  refused("topology: {kind: file, edges: [agent-0 agent-1, agent-1 agent-2]}", "edges names 'agent-2'");
  refused("exchange: {kind: group, codec: fp32, members: [agent-0, agent-2]}", "members names 'agent-2'");
}

TEST_F(ConfigTest, RefusesGraphsThatHaveNoPlaceForAllAgents) {
  const auto refused = [&](const std::string& topology, size_t fits, size_t refused) -> std::string {
    const SwarmConfig swarm = load("swarm: {topology: " + topology + "}\n").swarm;
    EXPECT_NO_THROW(refuse_absent(swarm, fits));
    try {
      refuse_absent(swarm, refused);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refused("{kind: file, edges: [agent-0 agent-1, agent-1 agent-2]}", 3, 5),
            "swarm.topology.edges names no edge of 'agent-3', which would meet nobody; add an edge, or start fewer "
            "agents");
  EXPECT_EQ(refused("{kind: regular, degree: 9}", 10, 9),
            "swarm.topology.degree: 9 neighbors of each of 9 agents; start more, or choose at most 8");
  SwarmConfig group = load("swarm: {topology: {kind: ring}, exchange: {kind: group, codec: fp32}}\n").swarm;
  EXPECT_THROW(refuse_absent(group, 4), ConfigError) << "a group has no graph";
  group.topology = {};
  EXPECT_NO_THROW(refuse_absent(group, 4));
  EXPECT_EQ(refused("{kind: regular}", 5, 3), "accepted") << "a default that few agents cannot have is no mistake";
  EXPECT_EQ(refused("{kind: ring, degree: 9}", 10, 4), "accepted") << "not read";
}

TEST_F(ConfigTest, RefusesCombinations) {
  const std::string share = "swarm: {exchange: {share: [params, momentum]}, optimizer: ";
  const Cases cases = {
      {share + "{kind: adamw}}\n",
       "F: swarm.exchange.share: adamw has no momentum that could ride along (its moments stay local); write share: "
       "[params], or take sgd"},
      {share + "{momentum: 0}}\n",
       "F: swarm.exchange.share: there is no momentum to carry while swarm.optimizer.momentum is 0; write share: "
       "[params], or give a momentum"},
      {"swarm: {optimizer: {nesterov: true, momentum: 0}}\n",
       "F: swarm.optimizer: nesterov needs a momentum; give one, or write nesterov: false"},
      {"swarm: {exchange: {deadline_min: 2s, deadline_max: 1s}}\n",
       "F: swarm.exchange: deadline_min (2s) is longer than deadline_max (1s)"},
      {"swarm: {membership: {probe_interval: 100ms, probe_timeout: 200ms}}\n",
       "F: swarm.membership: probe_timeout (200ms) is longer than probe_interval (100ms); a probe must end before the "
       "next begins"},
      {"swarm: {model: {input: [1, 8, 8]}}\n",
       "F: swarm.model.input (height and width, for a cnn) is 8; it can be 14 to 1048576"},
      {"swarm: {model: {kind: quadratic, dimension: 100000000}, exchange: {block: 64}}\n",
       "F: swarm.exchange.block: 100000000 params in blocks of 64 are 1562501 blocks, more than 131072; larger blocks, "
       "or a smaller model"},
      {"swarm: {model: {kind: quadratic, dimension: 600000000}, optimizer: {momentum: 0}, exchange: {kind: group, "
       "source: updates, overlap: off, update: {codec: sketch}, outer: {momentum: 0.9}}}\n",
       "F: swarm.exchange.update.slices: 600000000 params in 4 slices are 1.2 GB each, and at most 1.1 GB of a slice "
       "can "
       "travel; more slices, or a smaller model"},
      {"swarm: {model: {classes: 5}}\nagent: {data: {labels: [1, 5]}}\n",
       "F: agent.data.labels: label 5 is outside the model's 5 classes, 0 to 4"},
      {"agent: {data: {labels: [1], sharding: labels}}\n",
       "F: agent.data: 'labels' and 'sharding: labels' both choose the labels; use one of them"},
      {"agent: {data: {test_path: t, hold_out: 0.1}}\n",
       "F: agent.data: 'hold_out' and 'test_path' (--test-data) both say what this agent's model is judged on; use one "
       "of them"},
  };
  for (const auto& [text, expected] : cases) EXPECT_EQ(error(text), expected) << text;
  EXPECT_EQ(error("swarm: {exchange: {share: [params, momentum], overlap: on}}\n"), "");
  EXPECT_EQ(error("swarm: {optimizer: {kind: adamw}}\n"), "");
  EXPECT_EQ(error(share + "{kind: adamw}}\n", {"swarm.exchange.kind=none"}), "");  // alone nothing rides
}

TEST_F(ConfigTest, RefusesWhatIsNoPlainYaml) {
  const std::string alias =
      "YAML anchors (&) and aliases (*) are not used here; write the value out, or put it in quotes";
  const Cases cases = {
      {"swarm:\n  name: &x y\n", "F:2: " + alias},
      {"swarm: &x\n  name: y\n", "F:1: " + alias},
      {"swarm:\n  <<: {name: y}\n", "F:2: YAML merge keys (<<) are not used here; write the values out"},
      {"swarm:\n  name: !!str y\n", "F:2: YAML tags (!) are not used here; write the plain value"},
      {"swarm:\n  [a]: 1\n", "F:2: a key must be a word; is a bracket left open?"},
      {"swarm:\n  \"a\\e[31m\": 1\n", "F:2: a key must be one line of UTF-8 text without control characters"},
      {"agent: {}\n---\nagent: {}\n", "F:2: a second document begins here; one file is one config"},
      {"agent: [[[[[[[[1]]]]]]]]\n", "F:1: nested more than 8 deep"},
  };
  for (const auto& [text, expected] : cases) EXPECT_EQ(error(text), expected) << text;
  EXPECT_EQ(error("swarm:\n  batch: 1\n name: x\n").substr(0, 22), "F:3: this is not YAML:");
  EXPECT_EQ(error("swarm:\n  batch: 1\n\tname: x\n"),
            "F:3: this is not YAML: a tab stands before the first word, where YAML takes spaces only");
  EXPECT_EQ(error("agent: [" + std::string(5000, ',') + "]\n").substr(0, 4), "F:1:");
  std::string many = "agent: {data: {labels: [0";
  for (int i = 0; i < 5000; ++i) many += ",0";
  EXPECT_EQ(error(many + "]}}\n"), "F:1: more than 4096 values; is this the right file?");
  EXPECT_EQ(error(std::string(300 * 1024, '#')), "F: more than 262144 bytes; is this the right file?");
  EXPECT_EQ(error("agent: {name: \"&*\"}\n"), "");  // in quotes they are only letters
}

TEST_F(ConfigTest, AMissingFileNamesTheRemedy) {
  const std::string missing = (dir_ / "no.yaml").string();
  try {
    load_config(missing, {});
    FAIL() << "loaded a file that is not there";
  } catch (const ConfigError& error) {
    EXPECT_EQ(std::string(error.what()), "cannot read the config " + missing +
                                             ": No such file or directory; 'starling "
                                             "init --task digits " +
                                             missing + "' makes one");
  }
  try {
    load_config(dir_.string(), {});
    FAIL() << "loaded a folder";
  } catch (const ConfigError& error) {
    EXPECT_EQ(std::string(error.what()), dir_.string() + " is no file that can be read; name a file");
  }
}

TEST_F(ConfigTest, AllMistakesAreSaidAtOnce) {
  EXPECT_EQ(error("swarm:\n  optimizer: {learning_rat: 3, momentum: x}\n  batch: -1\nagent: {nope: 1}\n"),
            "F:2: unknown key 'learning_rat' in swarm.optimizer; did you mean 'learning_rate'?\n"
            "F:2: swarm.optimizer.momentum: expected a number from 0 to 0.9999, found 'x'\n"
            "F:3: swarm.batch: expected a whole number from 1 to 1000000, found '-1'\n"
            "F:4: unknown key 'nope' in agent; did you mean 'name'?");
  EXPECT_EQ(error("swarm: {batch: 0}\n", {"swarm.batch=x", "--listen=here"}),
            "F:1: swarm.batch: expected a whole number from 1 to 1000000, found '0'\n"
            "--set swarm.batch=x: swarm.batch: expected a whole number from 1 to 1000000, found 'x'\n"
            "--listen here: agent.listen: expected HOST:PORT such as 192.168.1.5:7400, found 'here'");
  EXPECT_EQ(error("swarm: {optimizer: {nesterov: true, momentum: 0}}\n",
                  {"swarm.exchange.fragments=2", "swarm.exchange.kind=group", "swarm.exchange.outlier_clip=4",
                   "swarm.topology.kind=file", "swarm.exchange.codec=fp32", "swarm.exchange.deadline_min=9s",
                   "swarm.exchange.deadline_max=1s", "agent.data.labels=[99]"}),
            "F: swarm.optimizer: nesterov needs a momentum; give one, or write nesterov: false\n"
            "F: swarm.exchange.fragments: only pairs exchange a part of the model at a time; write fragments: 1, or "
            "kind: pairwise\n"
            "F: swarm.exchange.outlier_clip: only pairs vote on a scale; write outlier_clip: 0, or kind: pairwise\n"
            "F: swarm.topology.kind: file needs edges, such as [agent-0 agent-1, agent-1 agent-2]\n"
            "F: swarm.exchange: deadline_min (9s) is longer than deadline_max (1s)\n"
            "F: agent.data.labels: label 99 is outside the model's 10 classes, 0 to 9");
  const std::string gradients = error(
      "swarm: {local_steps: 2, exchange: {kind: group, codec: fp32, overlap: on, "
      "source: gradients, update: {merge: auto}}}\n");
  EXPECT_EQ(std::count(gradients.begin(), gradients.end(), '\n'), 2) << gradients;
  for (const char* remedy : {"write local_steps: 1", "write overlap: off", "write pipeline: on"}) {
    EXPECT_NE(gradients.find(remedy), std::string::npos) << gradients;
  }
  std::string many = "swarm: {";
  for (int i = 0; i < 1000; ++i) many += "k" + std::to_string(i) + ": 1, ";
  const std::string said = error(many + "}\n");
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 19) << "a file of another kind";
}

TEST_F(ConfigTest, OverridesPassTheSameChecks) {
  EXPECT_EQ(
      override_error("swarm.optimizer.lr=1"),
      "--set swarm.optimizer.lr=1: unknown key 'lr' in swarm.optimizer; known keys: kind, learning_rate, momentum, "
      "nesterov, weight_decay, beta1, beta2, epsilon, schedule, warmup, decay_every, decay");
  EXPECT_EQ(override_error("swarm.batch=x"),
            "--set swarm.batch=x: swarm.batch: expected a whole number from 1 to 1000000, found 'x'");
  EXPECT_EQ(override_error("swarm.model.hidden=[1"),
            "--set swarm.model.hidden=[1: a key must be a word; is a bracket left open?");
  const std::string nome = override_error("swarm.exchange={kind: nome}");
  EXPECT_TRUE(nome.starts_with("--set swarm.exchange={kind: nome}: swarm.exchange.kind: expected one of ")) << nome;
  EXPECT_TRUE(nome.ends_with(", found 'nome'; did you mean 'none'?")) << nome;
  EXPECT_EQ(override_error("swarm"), "--set swarm: expected KEY=VALUE such as swarm.exchange.codec=bf16");
  EXPECT_EQ(override_error("swarm=1"), "--set swarm=1: swarm: expected keys with values (name: ...)");
  EXPECT_EQ(override_error("=1").substr(0, 9), "--set =1:");
  EXPECT_EQ(override_error("swarm..name=1").substr(0, 35), "--set swarm..name=1: unknown key ''");
  EXPECT_EQ(override_error("--listen=here"),
            "--listen here: agent.listen: expected HOST:PORT such as 192.168.1.5:7400, found 'here'");
  EXPECT_EQ(override_error("--lisen=x"), "--set --lisen=x: there is no flag --lisen");

  const Config config = load("swarm: {batch: 3}\nagent: {batch: 4}\n",
                             {"swarm.batch=5", "swarm.batch=6", "--batch=7", "swarm.model.hidden=[8, 9]",
                              "--labels=1,2", "agent.metrics=a=b", "swarm.exchange={kind: none, outlier_clip: 2}"});
  EXPECT_EQ(config.swarm.batch, 6u);
  EXPECT_EQ(config.agent.batch, 7u);
  EXPECT_EQ(config.swarm.model.hidden, (std::vector<int64_t>{8, 9}));
  EXPECT_EQ(config.agent.data.labels, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(config.agent.metrics, "a=b");
  EXPECT_EQ(config.swarm.exchange.clip, 2);
}

TEST_F(ConfigTest, EnvironmentStandsBetweenFileAndFlags) {
  setenv("STARLING_BOOTSTRAP", "a:1, b:2", 1);
  setenv("STARLING_LISTEN", "127.0.0.1:1", 1);
  setenv("STARLING_STATE", "here", 1);
  const Config config =
      load("agent: {bootstrap: [c:3], listen: \"127.0.0.1:2\", state: there}\n", {"--listen=127.0.0.1:3"});
  EXPECT_EQ(config.agent.bootstrap, (std::vector<Endpoint>{{"a", 1}, {"b", 2}}));
  EXPECT_EQ(config.agent.listen.port, 3);
  EXPECT_EQ(config.agent.state, "here");
  setenv("STARLING_LISTEN", "nowhere", 1);
  EXPECT_EQ(error("{}"),
            "STARLING_LISTEN=nowhere: agent.listen: expected HOST:PORT such as 192.168.1.5:7400, found "
            "'nowhere'");
}

TEST_F(ConfigTest, AnAgentIsReachableFromOtherMachines) {
  for (const char* address : {"gpu-1:7400", "127.0.0.1:7400"}) {
    EXPECT_EQ(load_config("", {std::string("--bootstrap=") + address}).agent.listen, (Endpoint{"0.0.0.0", 7400}));
  }
  EXPECT_EQ(load_config("", {"--bootstrap=gpu-1:7400", "--listen=127.0.0.1:9"}).agent.listen.host, "127.0.0.1");
}

// One key of its own would make another swarm of it, with defaults in all others.
TEST_F(ConfigTest, WithoutAFileAJoinerBringsNoSettings) {
  std::string said;
  const auto notice = [&](const std::string& line) { said += line + "\n"; };
  const Config joiner = load_config(
      "", {"swarm.stop_after=200", "--bootstrap=a:1", "--wait-for=3", "swarm.consensus_timeout=3s"}, notice);
  EXPECT_FALSE(joiner.has_swarm);
  EXPECT_EQ(print_swarm_settings(joiner.swarm), print_swarm_settings(SwarmConfig{}));
  EXPECT_EQ(said,
            "swarm.stop_after, swarm.wait_for, swarm.consensus_timeout: ignored, as an agent with --bootstrap and "
            "without --config adopts the settings of the swarm that it joins; to begin a swarm with settings of your "
            "own, add --config FILE\n");
  said.clear();
  EXPECT_TRUE(load_config("", {"swarm.batch=8"}, notice).has_swarm) << "nobody else has settings";
  const Config longer = load_config("", {"swarm.stop_after=200"}, notice);
  EXPECT_FALSE(longer.has_swarm) << "a member may prolong its run by it";
  EXPECT_EQ(longer.stop_after, 200u);
  EXPECT_EQ(load("swarm: {}\n", {"swarm.stop_after=200", "--bootstrap=a:1"}).swarm.stop_after, 200u);
  EXPECT_EQ(said + notices_, "");
}

TEST_F(ConfigTest, SettingsNameTheAgentsToWaitForOnlyWhereTheyAreSeveral) {
  SwarmConfig swarm;
  const std::string before = print_swarm_settings(swarm);
  EXPECT_EQ(before.find("wait_for"), std::string::npos);
  swarm.wait_for = 3;
  const std::string text = print_swarm_settings(swarm);
  EXPECT_EQ(text.rfind("starling: 0.3.0\n", 0), 0u) << "older programs would begin at once";
  EXPECT_EQ(parse_swarm_settings(text).wait_for, 3u);
  EXPECT_EQ(parse_swarm_settings(before).wait_for, 1u);
  EXPECT_TRUE(same_settings(swarm, SwarmConfig{})) << "only the first agent needs the number";
  EXPECT_EQ(error("swarm: {wait_for: 17, exchange: {kind: group, codec: fp32}}\n"),
            "F: swarm.wait_for: 17 agents, and this group holds at most 16; wait for fewer, or write kind: pairwise");
}

// Nothing needs quotes, also not the address that an agent prints for others to join it.
TEST_F(ConfigTest, FlagsTakeIpV6Addresses) {
  const Config c =
      load_config("", {"--listen=[::1]:7400", "--advertise=[fe80::1%eth0]:7402", "--bootstrap=[::1]:7404,h:1,[::2]:2"});
  EXPECT_EQ(c.agent.listen, (Endpoint{"::1", 7400}));
  EXPECT_EQ(*c.agent.advertise, (Endpoint{"fe80::1%eth0", 7402}));
  EXPECT_EQ(c.agent.bootstrap, (std::vector<Endpoint>{{"::1", 7404}, {"h", 1}, {"::2", 2}}));
  EXPECT_EQ(load_config("", {"agent.bootstrap=[::3]:3"}).agent.bootstrap, (std::vector<Endpoint>{{"::3", 3}}));
  EXPECT_EQ(load_config("", {"agent.bootstrap=[a:1, b:2]"}).agent.bootstrap.size(), 2u);
}

// A value other than the default for every key there is; a new key without one here fails the test.
const std::map<std::string, std::string>& other_values_of_newer_keys() {
  static const std::map<std::string, std::string> values = {
      {"swarm.trust", "ticket"},
      {"swarm.wait_for", "3"},
      {"swarm.exchange.update.codec", "topk"},
      {"swarm.exchange.update.density", "0.05"},
      {"swarm.exchange.update.reply", "3"},
      {"swarm.exchange.update.table", "0.1"},
      {"swarm.exchange.update.candidates", "2"},
      {"swarm.exchange.update.momentum", "0.5"},
      {"swarm.exchange.update.norm_clip", "4"},
      {"swarm.exchange.update.warmup", "100"},
      {"swarm.exchange.update.slices", "8"},
      {"swarm.exchange.update.pipeline", "on"},
      {"swarm.exchange.update.merge", "auto"},
      {"swarm.exchange.outer.momentum", "0.75"},
      {"swarm.exchange.outer.learning_rate", "0.7"},
      {"swarm.exchange.fragments", "3"},
      {"swarm.exchange.exchanges_per_step", "2"},
      {"agent.data.path", "\"p\""},
      {"agent.data.test_path", "\"t\""},
      {"agent.data.sharding", "iid"},
      {"agent.data.shard", "\"2/4\""},
      {"agent.data.alpha", "0.1"},
      {"agent.data.labels", "[0, 6]"},
      {"agent.data.hold_out", "0.25"},
  };
  return values;
}

const std::map<std::string, std::string>& other_values_of_the_rest() {
  static const std::map<std::string, std::string> values = {{"swarm.name", "\"x: # \xc3\xbc\""},
                                                            {"swarm.rng_seed", "18446744073709551615"},
                                                            {"swarm.model.kind", "mlp"},
                                                            {"swarm.model.input", "[3, 32, 30]"},
                                                            {"swarm.model.classes", "7"},
                                                            {"swarm.model.hidden", "[5, 6]"},
                                                            {"swarm.model.channels", "3"},
                                                            {"swarm.model.dimension", "77"},
                                                            {"swarm.model.noise", "0.75"},
                                                            {"swarm.optimizer.kind", "adamw"},
                                                            {"swarm.optimizer.learning_rate", "0.1"},
                                                            {"swarm.optimizer.momentum", "0.3"},
                                                            {"swarm.optimizer.nesterov", "true"},
                                                            {"swarm.optimizer.weight_decay", "1e-07"},
                                                            {"swarm.optimizer.beta1", "0.8"},
                                                            {"swarm.optimizer.beta2", "0.98"},
                                                            {"swarm.optimizer.epsilon", "1e-09"},
                                                            {"swarm.optimizer.schedule", "step"},
                                                            {"swarm.optimizer.warmup", "11"},
                                                            {"swarm.optimizer.decay_every", "12"},
                                                            {"swarm.optimizer.decay", "0.5"},
                                                            {"swarm.weight", "data"},
                                                            {"swarm.local_steps", "9"},
                                                            {"swarm.round", "3s"},
                                                            {"swarm.batch", "8"},
                                                            {"swarm.stop_after", "7"},
                                                            {"swarm.consensus_tolerance", "0.3333333333333333"},
                                                            {"swarm.consensus_timeout", "90s"},
                                                            {"swarm.exchange.kind", "none"},
                                                            {"swarm.exchange.source", "gradients"},
                                                            {"swarm.exchange.codec", "bf16"},
                                                            {"swarm.exchange.share", "[params, momentum]"},
                                                            {"swarm.exchange.block", "4096"},
                                                            {"swarm.exchange.overlap", "off"},
                                                            {"swarm.exchange.deadline_min", "1500us"},
                                                            {"swarm.exchange.deadline_max", "1500ms"},
                                                            {"swarm.exchange.outlier_clip", "2.25"},
                                                            {"swarm.exchange.group_size", "5"},
                                                            {"swarm.exchange.members", "[\"a\", \"it's b\"]"},
                                                            {"swarm.topology.kind", "ring"},
                                                            {"swarm.topology.degree", "3"},
                                                            {"swarm.topology.edges", "[\"a b\", \"b c-d\"]"},
                                                            {"swarm.membership.probe_interval", "2s"},
                                                            {"swarm.membership.probe_timeout", "1s"},
                                                            {"swarm.membership.indirect_probes", "5"},
                                                            {"swarm.membership.suspicion", "2.5"},
                                                            {"agent.name", "\"it's\""},
                                                            {"agent.listen", "\"[::]:7401\""},
                                                            {"agent.advertise", "\"h:7402\""},
                                                            {"agent.bootstrap", "[\"a:1\", \"[::1]:2\"]"},
                                                            {"agent.swarm", "\"0123456789abcdef\""},
                                                            {"agent.state", "\"a \\\\ \\\" b\""},
                                                            {"agent.device", "cpu"},
                                                            {"agent.genesis", "\"g\""},
                                                            {"agent.return_wait", "3m"},
                                                            {"agent.batch", "3"},
                                                            {"agent.threads", "2"},
                                                            {"agent.checkpoint.every", "1h"},
                                                            {"agent.checkpoint.keep", "2"},
                                                            {"agent.evaluate_every", "2m"},
                                                            {"agent.metrics", "\"m\""},
                                                            {"agent.metrics_every", "5s"}};
  return values;
}

const std::map<std::string, std::string>& other_values() {
  static const std::map<std::string, std::string> values = [] {
    std::map<std::string, std::string> all = other_values_of_the_rest();
    all.insert(other_values_of_newer_keys().begin(), other_values_of_newer_keys().end());
    return all;
  }();
  return values;
}

// What such a value needs beside it to be accepted.
std::vector<std::string> companions(const std::string& path) {
  const std::string kind = "swarm.exchange.kind=group", codec = "swarm.exchange.codec=fp32";
  if (path == "swarm.optimizer.schedule") return {"swarm.optimizer.decay_every=5"};
  if (path == "swarm.exchange.source") return {kind, codec, "swarm.exchange.overlap=off"};
  if (path == "swarm.exchange.members") return {kind, codec};
  if (path == "swarm.exchange.update.merge") {
    return {kind, codec, "swarm.exchange.source=gradients", "swarm.exchange.overlap=off",
            "swarm.exchange.update.pipeline=on"};
  }
  if (path == "swarm.exchange.update.pipeline") {
    return {kind, codec, "swarm.exchange.source=gradients", "swarm.exchange.overlap=off"};
  }
  const bool of_updates = path.starts_with("swarm.exchange.update.") || path.starts_with("swarm.exchange.outer.");
  if (of_updates) return {kind, "swarm.exchange.source=updates", "swarm.exchange.overlap=off"};
  if (path == "swarm.topology.edges") return {"swarm.topology.kind=file"};
  return {};
}

// "a:\n  b: value\n" of "a.b".
std::string nested(const std::string& name, const std::string& value) {
  std::string text;
  int depth = 0;
  for (size_t at = 0, dot; (dot = name.find('.', at)) != std::string::npos; at = dot + 1, ++depth) {
    text += std::string(2 * depth, ' ') + name.substr(at, dot - at) + ":\n";
  }
  return text + std::string(2 * depth, ' ') + name.substr(name.rfind('.') + 1) + ": " + value + "\n";
}

std::vector<ConfigField> fields_of_configs() {
  std::vector<ConfigField> fields;
  for (const ConfigField& field : config_fields()) {
    if (!field.name.empty()) fields.push_back(field);
  }
  return fields;
}

TEST_F(ConfigTest, EveryKeyReadsPrintsAndReadsAgain) {
  for (const ConfigField& field : fields_of_configs()) {
    ASSERT_TRUE(other_values().contains(field.name)) << field.name;
    const std::string& value = other_values().at(field.name);
    EXPECT_NE(field.print(Config{}), value) << field.name;
    const Config config = load(nested(field.name, value), companions(field.name));
    EXPECT_EQ(notices_, "");
    EXPECT_EQ(field.print(config), value) << field.name;
    const std::string printed = print_config(config);
    EXPECT_EQ(print_config(load(printed)), printed) << field.name;
    EXPECT_EQ(notices_, "");
  }
  EXPECT_EQ(other_values().size(), fields_of_configs().size());
}

TEST_F(ConfigTest, AFileSetsAtMost86Keys) { EXPECT_LE(fields_of_configs().size(), 86u); }

TEST_F(ConfigTest, OldNamesAreReadWithANoticeThatSaysTheNewOne) {
  size_t renamed = 0;
  for (const ConfigField& field : fields_of_configs()) {
    if (field.name == field.path) continue;
    const std::string& value = other_values().at(field.name);
    const Config config = load("# old\n" + nested(field.path, value), companions(field.name));
    EXPECT_EQ(field.print(config), value) << field.path;
    const auto line = 1 + std::count(field.path.begin(), field.path.end(), '.') + 1;
    EXPECT_EQ(notices_,
              "F:" + std::to_string(line) + ": " + field.path + ": this name is old; write " + field.name + "\n");
    ++renamed;
  }
  EXPECT_EQ(renamed, 7u);
  EXPECT_EQ(load("{}", {"swarm.settle_max=3s"}).swarm.settle_max, 3s);
  EXPECT_EQ(notices_, "--set swarm.settle_max=3s: swarm.settle_max: this name is old; write swarm.consensus_timeout\n");
  EXPECT_EQ(error("swarm:\n  settle_max: 3s\n  consensus_timeout: 4s\n"),
            "F:3: swarm.consensus_timeout stands here a second time, under another name; keep one of them");
}

TEST_F(ConfigTest, LocalStepsMayAlsoBeWrittenSyncEvery) {
  EXPECT_EQ(load("swarm: {sync_every: 50}\n").swarm.local_steps, 50u);
  EXPECT_EQ(load("{}", {"swarm.sync_every=7"}).swarm.local_steps, 7u);
  EXPECT_EQ(notices_, "");
  EXPECT_NE(error("swarm: {local_steps: 3, sync_every: 50}\n").find("under another name"), std::string::npos);
}

// What left the configuration: its neutral value changes nothing, any other is refused with the remedy.
TEST_F(ConfigTest, KeysThatLeftAreRefusedUnlessTheySayNothing) {
  const std::string last = "Starling 0.2.0 is the last version that has this key; ";
  struct Case { std::string path, neutral, other, remedy; };
  const Case cases[] = {
      {"swarm.exchange.pairs_every", "0", "6",
       last + "a group holds up to 16 agents; write kind: pairwise, which holds any number"},
      {"swarm.exchange.powergossip.rank", "0", "2",
       last + "write fragments: 4 or codec: modulo4, which send less as well"},
      {"swarm.exchange.update.levels", "7", "15", last + "write update.codec: int4"},
      {"swarm.exchange.inject_loss", "0.0", "0.25", "only 'starling simulate --inject-loss PART' drops blocks"},
      {"swarm.exchange.update.first_norm_max", "1e30", "8",
       "only 'starling simulate --first-norm-max NORM' bounds the first merged updates"},
      {"swarm.model.params", "0", "5", "starling.join() finds it in the loop's own model; delete the line"},
      {"swarm.model.signature", "none", "0123456789abcdef",
       "starling.join() finds it in the loop's own model; delete the line"},
  };
  for (const Case& key : cases) {
    const auto line = std::to_string(std::count(key.path.begin(), key.path.end(), '.') + 1);
    const std::string where = "F:" + line + ": " + key.path + ": ";
    EXPECT_EQ(error(nested(key.path, key.neutral)), "");
    EXPECT_EQ(notices_, where + "no config needs this key; delete the line\n");
    EXPECT_EQ(error(nested(key.path, key.other)), where + key.other + ": " + key.remedy);
    EXPECT_EQ(print_config(load("{}")).find(key.path.substr(key.path.rfind('.') + 1) + ":"), std::string::npos);
  }
  EXPECT_EQ(std::size(cases) + 3, config_fields().size() - fields_of_configs().size());  // and repair, and the next two
  EXPECT_EQ(error("swarm: {exchange: {powergossip: 5}}\n"),
            "F:1: swarm.exchange.powergossip: expected keys with values (rank: ...)");
  EXPECT_NE(error("swarm: {exchange: {pairs_every: x}}\n").find("expected a whole number"), std::string::npos);
}

TEST_F(ConfigTest, KeysOfTestsStillCount) {
  const Config read = load("agent: {compute_ms: 2.5, layers: l}\n");
  EXPECT_EQ(read.agent.compute_ms, 2.5);
  EXPECT_EQ(read.agent.layers, "l");
  EXPECT_EQ(notices_,
            "F:1: agent.compute_ms: it is for tests, which set the variable STARLING_TEST_COMPUTE_MS\n"
            "F:1: agent.layers: it is for tests, which set the variable STARLING_TEST_LAYERS\n");
  EXPECT_NE(error("agent: {compute_ms: -1}\n"), "");
}

// Version 0.2.0 printed `repair: off` for every swarm that shares no gradients, before or after the line that says so.
TEST_F(ConfigTest, RepairOffIsRefusedForGradientsOnly) {
  EXPECT_EQ(error("swarm: {exchange: {repair: off, kind: pairwise}}\n"), "");
  EXPECT_EQ(notices_, "F:1: swarm.exchange.repair: no config needs this key; delete the line\n");
  const std::string gradients = "kind: group, source: gradients, codec: fp32, overlap: off";
  EXPECT_EQ(error("swarm: {exchange: {repair: off, " + gradients + "}}\n"),
            "F:1: swarm.exchange.repair: off: only 'starling simulate --repair off' shares gradients without repair");
  EXPECT_EQ(error("swarm: {exchange: {" + gradients + ", repair: on}}\n"), "");
}

TEST_F(ConfigTest, WhatVersion020PrintedIsRead) {
  std::ifstream file(GOLDEN_DIR "/settings-0.2.0/pairs.printed.yaml", std::ios::binary);
  const std::string printed{std::istreambuf_iterator<char>(file), {}};
  ASSERT_FALSE(printed.empty());
  EXPECT_EQ(error(printed), "");
}

TEST_F(ConfigTest, CodecsOfUpdatesThatLeftAreRefused) {
  const std::string group = "swarm: {exchange: {kind: group, source: updates, update: {codec: ";
  for (const auto& [name, instead] :
       {std::pair("randk", "topk"), {"randk_bf16", "topk_bf16"}, {"randk_int8", "topk_int8"}, {"qsgd", "int4"}}) {
    EXPECT_EQ(error(group + name + "}}}\n"), std::string("F:1: swarm.exchange.update.codec: '") + name +
                                                 "': Starling 0.2.0 is the last version that has this codec; write " +
                                                 instead);
  }
  EXPECT_EQ(error(group + "qsgb}}}\n").find("qsgd"), std::string::npos) << "offered";
}

TEST_F(ConfigTest, TestsSetThePaceOfAnAgentByVariables) {
  setenv("STARLING_TEST_COMPUTE_MS", "2.5", 1);
  setenv("STARLING_TEST_LAYERS", "table.yaml", 1);
  EXPECT_EQ(load("{}").agent.compute_ms, 2.5);
  EXPECT_EQ(load("{}").agent.layers, "table.yaml");
  setenv("STARLING_TEST_COMPUTE_MS", "long", 1);
  EXPECT_EQ(error("{}"), "STARLING_TEST_COMPUTE_MS=long: expected a number from 0 to 1e+06, found 'long'");
}

// Old texts lack the key, and mean what it is by default.
TEST_F(ConfigTest, ExchangesOfABoundaryStandInSettingsOnlyWhereTheyAreGiven) {
  SwarmConfig swarm;
  const std::string without = print_swarm_settings(swarm);
  EXPECT_EQ(without.find("exchanges:"), std::string::npos) << without;
  EXPECT_EQ(parse_swarm_settings(without).exchange.turns, 0u);
  swarm.exchange.turns = 3;
  const std::string text = print_swarm_settings(swarm);
  EXPECT_TRUE(text.starts_with("starling: 0.2.0\n")) << text;
  EXPECT_NE(text.find("\n    carry: [params]\n    exchanges: 3\n    block: "), std::string::npos) << text;
  EXPECT_EQ(parse_swarm_settings(text).exchange.turns, 3u);
}

// A loop of its users' own has its model, optimizer and data; the swarm knows the tensors by their digests.
TEST_F(ConfigTest, KeysOfBuiltInModelsMeanNothingToAnAttachedOne) {
  const std::string attached = "swarm: {model: {kind: attached}}\n";
  const std::string printed = print_config(load(attached));
  for (const char* key : {"input:", "optimizer:", "batch:", "device:", "data:"}) {
    EXPECT_EQ(printed.find(key), std::string::npos) << key;
  }
  EXPECT_EQ(print_config(load(printed)), printed);
  EXPECT_EQ(error("swarm: {model: {kind: attached, classes: 7}, optimizer: {momentum: 0.5}}\n"),
            "F: swarm.model.classes: read only of built-in models, and kind: attached trains a loop of your own, which "
            "has its own; delete the key\n"
            "F: swarm.optimizer.momentum: read only of built-in models, and kind: attached trains a loop of your own, "
            "which has its own; delete the key");
  EXPECT_NE(error("swarm: {model: {kind: attached, params: 7}}\n").find("starling.join() finds it"), std::string::npos);
  EXPECT_NE(error("swarm: {model: {kind: attached}, exchange: {kind: group, codec: fp32, source: gradients}}\n")
                .find("write source: updates with local_steps: 1, or source: params"),
            std::string::npos);
}

TEST_F(ConfigTest, SettingsTellTheTensorsOfAnAttachedModel) {
  SwarmConfig swarm;
  const std::string without = print_swarm_settings(swarm);
  EXPECT_EQ(without.find("signature"), std::string::npos);
  EXPECT_EQ(without.find("params: "), std::string::npos);
  swarm.model.kind = "attached";
  swarm.model.params = 4096;
  swarm.model.signature = "0123456789abcdef";
  const std::string text = print_swarm_settings(swarm);
  EXPECT_TRUE(text.starts_with("starling: 0.3.0\n")) << text;
  EXPECT_NE(text.find("\n    params: 4096\n    signature: 0123456789abcdef\n"), std::string::npos) << text;
  EXPECT_EQ(print_swarm_settings(parse_swarm_settings(text)), text);
  for (const char* wrong : {"0123456", "0123456789abcdeg", "x"}) {
    std::string other = text;
    other.replace(other.find("0123456789abcdef"), 16, wrong);
    EXPECT_THROW((void)parse_swarm_settings(other), ConfigError) << wrong;
  }
}

// A program that brings its own model begins from it, and asks of a swarm what its file and keys say.
TEST_F(ConfigTest, AFileChangesTheConfigThatItIsReadOver) {
  Config base;
  base.swarm.local_steps = 5;
  base.swarm.model.kind = "attached";
  const Config same = load_config_over(base, "", {"agent.bootstrap=a:1"});
  EXPECT_FALSE(same.has_swarm);
  EXPECT_EQ(same.swarm.local_steps, 5u);
  const Config other = load_config_over(base, "", {"agent.bootstrap=a:1", "swarm.stop_after=9"});
  EXPECT_TRUE(other.has_swarm) << "no key is left to the members";
  EXPECT_EQ(other.swarm.stop_after, 9u);
  EXPECT_EQ(other.swarm.local_steps, 5u);
  EXPECT_EQ(other.swarm.model.kind, "attached");
}

// Keys of later versions, which a text names only where they differ from their default.
bool is_later(const std::string& path) {
  return path.ends_with("fragments") || path.ends_with("per_step") || path.ends_with("wait_for") ||
         path.ends_with("trust");
}

TEST_F(ConfigTest, SettingsReadBackAsThemselves) {
  std::vector<std::string> all;
  for (const auto& [path, value] : other_values()) {
    const bool alone = path == "swarm.optimizer.schedule" || companions(path).empty();
    const bool newer = is_later(path);
    if (path.starts_with("swarm.") && path != "swarm.name" && path != "swarm.exchange.kind" && alone && !newer) {
      all.push_back(path + "=" + value);
    }
  }
  all.push_back("swarm.optimizer.kind=sgd");  // momentum rides along
  const SwarmConfig swarm = load_config("", all).swarm;
  const std::string text = print_swarm_settings(swarm);
  EXPECT_EQ(print_swarm_settings(parse_swarm_settings(text)), text);
  // The bytes that members agree on do not change by accident: other bytes are another swarm.
  EXPECT_EQ(text, R"(swarm:
  name: "starling"
  rng_seed: 18446744073709551615
  model:
    kind: mlp
    input: [3, 32, 30]
    classes: 7
    hidden: [5, 6]
    channels: 3
    dimension: 77
    noise: 0.75
  optimizer:
    kind: sgd
    learning_rate: 0.1
    momentum: 0.3
    nesterov: true
    weight_decay: 1e-07
    beta1: 0.8
    beta2: 0.98
    epsilon: 1e-09
    schedule: step
    warmup: 11
    decay_every: 12
    decay: 0.5
  weight: data
  local_steps: 9
  round: 3s
  batch: 8
  stop_after: 7
  final_distance: 0.3333333333333333
  settle_max: 90s
  exchange:
    kind: pairwise
    source: params
    codec: bf16
    carry: [params, momentum]
    block: 4096
    overlap: off
    deadline_min: 1500us
    deadline_max: 1500ms
    clip: 2.25
    group_size: 5
    members: []
    pairs_every: 0
    inject_loss: 0
  topology:
    kind: ring
    degree: 3
    edges: []
  membership:
    probe_interval: 2s
    probe_timeout: 1s
    indirect_probes: 5
    suspicion: 2.5
)");
}

TEST_F(ConfigTest, RandomSettingsReadBackAsThemselves) {
  Rng rng(7);
  for (int i = 0; i < 300; ++i) {
    SwarmConfig swarm;
    swarm.rng_seed = rng.next_u64();
    swarm.optimizer.learning_rate = rng.uniform() * std::pow(10.0, -static_cast<double>(rng.next_u64() % 12));
    swarm.final_distance = 1e-9 + rng.uniform();
    swarm.settle_max = Duration(rng.next_u64() % 3600000000000ull);
    swarm.exchange.deadline_min = 1ms + Duration(rng.next_u64() % 1000000000);
    swarm.exchange.deadline_max = swarm.exchange.deadline_min + Duration(rng.next_u64() % 1000000000000ull);
    const std::string text = print_swarm_settings(swarm);
    const SwarmConfig back = parse_swarm_settings(text);
    ASSERT_EQ(back.settle_max, swarm.settle_max) << text;
    ASSERT_EQ(back.exchange.deadline_max, swarm.exchange.deadline_max) << text;
    ASSERT_EQ(back.optimizer.learning_rate, swarm.optimizer.learning_rate) << text;
    ASSERT_EQ(back.rng_seed, swarm.rng_seed) << text;
  }
}

TEST_F(ConfigTest, ForeignSettingsAreTakenWholeOrRefused) {
  const std::string good = print_swarm_settings(SwarmConfig{});
  const auto refusal = [](const std::string& text) -> std::string {
    try {
      parse_swarm_settings(text);
      return "";
    } catch (const ConfigError& error) {
      return error.what();
    }
  };
  EXPECT_EQ(refusal(good), "");
  EXPECT_EQ(refusal(good + "\n"), "");
  EXPECT_EQ(refusal(good + "agent: {state: /etc}\n"),
            "the swarm's settings:55: settings of a newer Starling: this "
            "program does not know the key agent; upgrade it");
  EXPECT_EQ(refusal("swarm:\n  name: x\n"),
            "the swarm's settings: the key swarm.rng_seed is missing, which every Starling writes");
  EXPECT_EQ(refusal(""), "the swarm's settings: the key swarm.name is missing, which every Starling writes");
  EXPECT_EQ(refusal(good + std::string(kSettingsBytesMax, '#')), "the swarm's settings: more than 32768 bytes");
  EXPECT_EQ(refusal(good + "\xff"), "the swarm's settings: not a text in UTF-8");
  std::string unknown = good;
  EXPECT_EQ(refusal(unknown.replace(unknown.find("batch"), 5, "bitch")),
            "the swarm's settings:28: settings of a newer Starling: this program does not know the key swarm.bitch; "
            "upgrade it");
  EXPECT_NE(refusal(std::string(kSettingsBytesMax, '[')), "");
  EXPECT_NE(refusal(std::string(kSettingsBytesMax, '{')), "");
  std::string laughs = "a: &a [x]\n";
  for (char c = 'b'; c < 'j'; ++c) {
    laughs +=
        std::string(1, c) + ": &" + c + " [*" + static_cast<char>(c - 1) + ", *" + static_cast<char>(c - 1) + "]\n";
  }
  EXPECT_NE(refusal(laughs).find("anchors"), std::string::npos);
}

// Whatever the bytes: a Config or a ConfigError.
TEST_F(ConfigTest, NoTextBreaksTheReader) {
  const std::string seeds[] = {
      print_swarm_settings(SwarmConfig{}), print_config(Config{}),
      "swarm: {model: {input: [1, 28, 28]}, exchange: {share: [params]}}\nagent: {name: 'x'}\n"};
  const std::string alphabet = "{}[],:#&*!|>'\"%@`?-\n \t.~<0a\\\xc3\xff";
  Rng rng(11);
  size_t loaded = 0, refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string text = seeds[rng.next_u64() % 3];
    if (i % 4 == 0) text.clear();
    const size_t changes = 1 + rng.next_u64() % (i % 4 == 0 ? 60 : 4);
    for (size_t c = 0; c < changes; ++c) {
      const size_t at = rng.next_u64() % (text.size() + 1);
      const char letter = alphabet[rng.next_u64() % alphabet.size()];
      switch (rng.next_u64() % 3) {
        case 0: text.insert(at, 1, letter); break;
        case 1:
          if (at < text.size()) text.erase(at, 1 + rng.next_u64() % 5);
          break;
        default:
          if (at < text.size()) text[at] = letter;
      }
    }
    try {
      (void)load(text);
      ++loaded;
    } catch (const ConfigError&) {
      ++refused;
    }
    try {
      (void)parse_swarm_settings(text);
    } catch (const ConfigError&) {
    }
  }
  EXPECT_GT(loaded, 50u);
  EXPECT_GT(refused, 500u);
}

TEST_F(ConfigTest, DescribesWhatDiffers) {
  SwarmConfig ours, theirs;
  EXPECT_EQ(describe_difference(print_swarm_settings(ours), print_swarm_settings(theirs)), "");
  theirs.exchange.codec = CodecKind::kFp32;
  EXPECT_EQ(describe_difference(print_swarm_settings(ours), print_swarm_settings(theirs)),
            "exchange.codec: modulo8 here, fp32 there");
  theirs.batch = 9;
  EXPECT_EQ(describe_difference(print_swarm_settings(ours), print_swarm_settings(theirs)),
            "batch: 64 here, 9 there\nexchange.codec: modulo8 here, fp32 there");
  EXPECT_EQ(
      describe_difference(print_swarm_settings(ours) + "genesis: aa\n", print_swarm_settings(ours) + "genesis: bb\n"),
      "genesis: aa here, bb there");
  EXPECT_EQ(describe_difference("a: 1\n", ""), "a: 1 here, not set there");
  std::string many;
  for (int i = 0; i < 1000; ++i) many += "k" + std::to_string(i) + ": 1\n";
  EXPECT_LT(describe_difference(many, "").size(), 500u);
  EXPECT_NE(describe_difference(many, "").find("and 988 more"), std::string::npos);
}

TEST(Duration, ParsesAndPrints) {
  EXPECT_EQ(parse_duration("250ms"), 250ms);
  EXPECT_EQ(parse_duration("1.5s"), 1500ms);
  EXPECT_EQ(parse_duration("2m"), 120s);
  EXPECT_EQ(parse_duration("1h"), 3600s);
  EXPECT_EQ(parse_duration("0s"), 0s);
  EXPECT_EQ(parse_duration("7us"), 7us);
  for (const char* text : {"", "5", "s", "-5s", "5 s", " 5s", "5S", "5min", "nans", "infs", "1e30h", "5s5"}) {
    EXPECT_EQ(parse_duration(text), std::nullopt) << text;
  }
  EXPECT_EQ(print_duration(0s), "0s");
  EXPECT_EQ(print_duration(1500ms), "1500ms");
  EXPECT_EQ(print_duration(120s), "2m");
  EXPECT_EQ(print_duration(Duration(1234567)), "1234.567us");
}

TEST(ForeseenTrouble, NamesAGraphThatStaysForNeighborhoods) {
  SwarmConfig swarm;
  swarm.exchange.kind = ExchangeKind::kNeighborhood;
  for (const TopologyKind graph : {TopologyKind::kMatching, TopologyKind::kOnePeer}) {
    swarm.topology.kind = graph;
    const std::string said = foreseen_trouble(swarm, DataConfig());
    EXPECT_NE(said.find("topology.kind: " + std::string(topology_name(graph))), std::string::npos) << said;
    EXPECT_NE(said.find("write swarm.topology.kind: ring"), std::string::npos) << said;
  }
  for (const TopologyKind graph : {TopologyKind::kRing, TopologyKind::kExponential, TopologyKind::kFile}) {
    swarm.topology.kind = graph;
    EXPECT_EQ(foreseen_trouble(swarm, DataConfig()), "");
  }
  swarm.topology.kind = TopologyKind::kMatching;
  swarm.exchange.kind = ExchangeKind::kPairwise;
  EXPECT_EQ(foreseen_trouble(swarm, DataConfig()), "");
}

// Of pairs with many steps a round, and data of which an agent knows that its peers have others.
TEST(ForeseenTrouble, NamesTheGroupWherePairsHardlyLearn) {
  SwarmConfig swarm;
  DataConfig by_label;
  by_label.sharding = "labels";
  swarm.local_steps = 8;
  const std::string said = foreseen_trouble(swarm, by_label);
  EXPECT_NE(said.find("8 steps"), std::string::npos) << said;
  EXPECT_NE(said.find("swarm.exchange.kind: group"), std::string::npos) << said;

  const std::string where = "hardly learn from such data among more than four agents;";  // four do, by a schedule
  swarm.exchange.carry_momentum = true;
  EXPECT_NE(foreseen_trouble(swarm, by_label).find(where), std::string::npos);
  swarm.exchange.overlap = Overlap::kOn;
  EXPECT_EQ(foreseen_trouble(swarm, by_label).find(where), std::string::npos);
  swarm.exchange.overlap = Overlap::kAuto;
  swarm.topology.kind = TopologyKind::kRing;
  EXPECT_EQ(foreseen_trouble(swarm, by_label).find(where), std::string::npos);
  swarm.topology.kind = TopologyKind::kMatching;
  swarm.exchange.carry_momentum = false;
  EXPECT_EQ(foreseen_trouble(swarm, by_label).find(where), std::string::npos);

  DataConfig some;
  some.labels = {0, 1};
  EXPECT_EQ(foreseen_trouble(swarm, some), foreseen_trouble(swarm, by_label));
  EXPECT_EQ(foreseen_trouble(swarm, DataConfig()), "");
  swarm.local_steps = 4;
  EXPECT_EQ(foreseen_trouble(swarm, by_label), "");
  swarm.local_steps = 8;
  swarm.exchange.kind = ExchangeKind::kGroup;
  EXPECT_EQ(foreseen_trouble(swarm, by_label), "");
}

TEST(Configs, AllLoadAndSayWhatTheyPromise) {
  const char* folder = std::getenv("STARLING_CONFIGS");
  ASSERT_NE(folder, nullptr) << "the test is told where configs/ lies by STARLING_CONFIGS";
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".yaml") continue;
    const Config config = load_config(entry.path().string(), {});
    EXPECT_TRUE(config.has_swarm) << entry.path();
    EXPECT_EQ(config.swarm.name, entry.path().stem().string());
    const std::string text = print_swarm_settings(config.swarm);
    EXPECT_EQ(print_swarm_settings(parse_swarm_settings(text)), text) << entry.path();
    ++count;
  }
  EXPECT_GE(count, 4u);
  const std::string root = std::string(folder) + "/";
  const Config digits = load_config(root + "digits.yaml", {});
  EXPECT_TRUE(digits.swarm.exchange.carry_momentum);
  EXPECT_EQ(digits.swarm.local_steps, 1u);
  EXPECT_EQ(digits.agent.data.sharding, "labels");
  EXPECT_EQ(load_config(root + "cifar.yaml", {}).swarm.model.input, (std::vector<int64_t>{3, 32, 32}));
  EXPECT_GE(load_config(root + "wan.yaml", {}).swarm.exchange.deadline_max, 60s);
  EXPECT_EQ(load_config(root + "lan.yaml", {}).swarm.local_steps, 8u);
}

}  // namespace
}  // namespace starling
