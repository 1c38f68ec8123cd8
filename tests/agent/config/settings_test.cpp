// Texts of settings that this program did not write: of version 0.1.0, in other words, of a newer Starling.
#include "agent/config/settings.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "agent/config/fields.h"
#include "gossip/net/member_keys.h"

namespace starling {
namespace {

// What an agent of version 0.1.0 stored.
std::string golden() {
  std::ifstream file(GOLDEN_DIR "/state-0.1.0/settings.yaml", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string with(const std::string& from, const std::string& to) {
  std::string text = golden();
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string refusal(const std::string& text) {
  try {
    (void)parse_agreed_settings(text);
    return "";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

// Otherwise who begins this swarm with today's program begins another one than with that of 0.1.0. A key that came
// later needs `since` and `unwritten` in its row.
TEST(Settings, OfTheFirstVersionArePrintedAsTheyWere) {
  const AgreedSettings agreed = parse_agreed_settings(golden());
  EXPECT_EQ(agreed.swarm.name, "golden");
  EXPECT_EQ(agreed.swarm.model.dimension, 300u);
  EXPECT_TRUE(agreed.swarm.exchange.carry_momentum);
  EXPECT_EQ(clip_of(agreed.swarm.exchange), 0) << "although 3 is the default today";
  EXPECT_EQ(agreed_settings(agreed.swarm, agreed.genesis_hash_hex), golden());
}

// So no default of today's program is the meaning of a text.
TEST(Settings, MissNoKeyOfTheFirstVersion) {
  size_t keys = 0;
  for (const ConfigField& field : config_fields()) {
    if (!field.path.starts_with("swarm.") || !field.since.empty()) continue;
    const AgreedSettings agreed = parse_agreed_settings(golden());
    Config config;
    config.swarm = agreed.swarm;
    const std::string rest = print_section(config, "swarm", KeyNames::kSettings,
                                           [&](const ConfigField& other) { return other.path != field.path; });
    EXPECT_EQ(refusal(rest + "genesis: " + agreed.genesis_hash_hex + "\n"),
              "the swarm's settings: the key " + field.path + " is missing, which every Starling writes");
    ++keys;
  }
  EXPECT_EQ(keys, 48u);
}

// Until 0.2.0 gradients were shared without repair, which old texts mean to this day.
TEST(Settings, OldGradientsStayUnrepaired) {
  std::string text = with("    source: params\n", "    source: gradients\n");
  for (const auto& [from, to] : {std::pair("kind: pairwise", "kind: group"),
                                 {"codec: modulo8", "codec: fp32"},
                                 {"carry: [params, momentum]", "carry: [params]"},
                                 {"overlap: auto", "overlap: off"},
                                 {"local_steps: 2", "local_steps: 1"}}) {
    const size_t at = text.find(from);
    if (at != std::string::npos) text.replace(at, std::string(from).size(), to);
  }
  const AgreedSettings agreed = parse_agreed_settings(text);
  EXPECT_FALSE(agreed.swarm.exchange.repair);
  EXPECT_FALSE(shares_updates(agreed.swarm.exchange));
  EXPECT_EQ(agreed_settings(agreed.swarm, agreed.genesis_hash_hex), text);

  SwarmConfig repaired = agreed.swarm;
  repaired.exchange.repair = true;
  const std::string later = print_swarm_settings(repaired);
  EXPECT_TRUE(later.starts_with("starling: 0.2.0\n")) << later;
  EXPECT_NE(later.find("\n    repair: on\n"), std::string::npos) << later;
  EXPECT_TRUE(shares_updates(parse_swarm_settings(later).exchange));
}

TEST(Settings, InOtherWordsMeanTheSame) {
  const std::string others[] = {
      with("    momentum: 0.5\n", "    momentum: 5e-1   # half\n"),
      with("  batch: 64\n  stop_after: 0\n", "  stop_after: 0\n  batch: 64\n"),
      with("  topology:\n    kind: matching\n    degree: 4\n    edges: []\n",
           "  topology: {edges: [], kind: matching, degree: 4}\n"),
      with("  settle_max: 10s\n", "  settle_max: 10000ms\n"),
      with("name: \"golden\"", "name: golden"),
  };
  for (const std::string& other : others) {
    EXPECT_EQ(refusal(other), "");
    EXPECT_EQ(describe_difference(golden(), other), "") << other;
    EXPECT_TRUE(same_settings(parse_agreed_settings(golden()).swarm, parse_agreed_settings(other).swarm));
  }
  const std::string another = with("    momentum: 0.5\n", "    momentum: 6e-1   # more\n");
  EXPECT_EQ(describe_difference(golden(), another), "optimizer.momentum: 0.5 here, 0.6 there");
  EXPECT_FALSE(same_settings(parse_agreed_settings(golden()).swarm, parse_agreed_settings(another).swarm));
  const std::string genesis = with("genesis: 8524fcd2", "genesis: 8524fcd3");
  EXPECT_NE(describe_difference(golden(), genesis).find("genesis: 8524fcd2"), std::string::npos);
}

// `unwritten` is a value of the key in the words in which it is printed. Only what members agree on has it.
// The swarm's key stands in its text; a config that says less means the same.
TEST(Settings, SayWhichTicketsOpenTheSwarm) {
  SwarmConfig open = parse_agreed_settings(golden()).swarm, ticket = open, begun = open, any = open;
  EXPECT_EQ(open.trust.kind, Trust::kOpen) << "what lacks the key is open";
  any.trust = {};
  ticket.trust = {Trust::kTicket, {}};
  begun.trust = {Trust::kTicket, PeerId{{1, 2, 3}}};
  SwarmConfig other = begun;
  other.trust.key.bytes[0] = 9;
  EXPECT_EQ(print_swarm_settings(any), print_swarm_settings(open));
  EXPECT_NE(print_swarm_settings(begun).find("  trust: ticket 010203"), std::string::npos);
  EXPECT_EQ(parse_swarm_settings(print_swarm_settings(begun)).trust, begun.trust);
  for (const SwarmConfig* same : {&any, &ticket}) EXPECT_TRUE(same_settings(*same, begun));
  EXPECT_TRUE(same_settings(any, open));
  EXPECT_FALSE(same_settings(open, begun));
  EXPECT_FALSE(same_settings(other, begun));
  EXPECT_EQ(problem_of_trust(any.trust, begun.trust, "", ""), "");
  EXPECT_EQ(problem_of_trust(open.trust, open.trust, "", ""), "");
  EXPECT_NE(problem_of_trust(begun.trust, open.trust, "", ""), "");
  EXPECT_NE(problem_of_trust(begun.trust, other.trust, "", ""), "");
  EXPECT_NE(problem_of_trust(open.trust, begun.trust, "", ""), "");
  SwarmConfig certified = begun, asks = open;
  certified.trust.kind = asks.trust.kind = Trust::kCertified;
  EXPECT_NE(print_swarm_settings(certified).find("  trust: certified 010203"), std::string::npos);
  EXPECT_EQ(parse_swarm_settings(print_swarm_settings(certified)).trust, certified.trust);
  EXPECT_TRUE(same_settings(asks, certified));
  EXPECT_FALSE(same_settings(ticket, certified)) << "all would hold its key";
  EXPECT_NE(problem_of_trust(begun.trust, certified.trust, "", ""), "");
  for (const char* wrong : {"auto", "ticket 12", "ticket 0", "tickets", "certified 12", "open 0102"}) {
    EXPECT_NE(refusal(with("swarm:\n", std::string("swarm:\n  trust: ") + wrong + "\n")), "") << wrong;
  }
}

TEST(Settings, OfASwarmWithTicketsAreSignedByItsKey) {
  const Identity swarm(KeySeed{1}), member(KeySeed{2});
  const TrustConfig shared{Trust::kTicket, swarm.id()}, certified{Trust::kCertified, swarm.id()};
  const std::string signature = sign_settings(swarm, "text");
  for (const TrustConfig& trust : {shared, certified}) {
    EXPECT_EQ(problem_of_trust(trust, trust, "text", signature), "");
    for (const std::string& wrong : {std::string(), sign_settings(member, "text"), sign_settings(swarm, "other"),
                                     signature.substr(1), signature + " "}) {
      EXPECT_NE(problem_of_trust(trust, trust, "text", wrong).find("has not signed them"), std::string::npos);
    }
  }
}

TEST(Settings, EveryLaterKeyReadsItsUnwrittenValue) {
  for (const ConfigField& field : config_fields()) {
    EXPECT_EQ(field.since.empty(), field.unwritten.empty()) << field.path;
    if (field.since.empty()) continue;
    EXPECT_TRUE(field.path.starts_with("swarm.")) << field.path;
    Config config;
    field.read(config, scalar_tree(field.unwritten));
    EXPECT_EQ(field.print(config), field.unwritten) << field.path;
  }
}

// A text that needs what left is refused; as its neutral value the key stands there for ever.
TEST(Settings, ThatNeedWhatLeftSayWhichVersionHasIt) {
  const std::string last = "Starling 0.2.0 is the last version that has this key; ";
  EXPECT_EQ(refusal(with("    pairs_every: 0\n", "    pairs_every: 6\n")),
            "the swarm's settings:44: swarm.exchange.pairs_every: 6: " + last +
                "a group holds up to 16 agents; write kind: pairwise, which holds any number");
  const std::string place = "    inject_loss: 0\n";
  EXPECT_NE(refusal(with(place, place + "    powergossip:\n      rank: 2\n")).find("rank: 2: " + last),
            std::string::npos);
  EXPECT_EQ(refusal(with(place, place + "    powergossip:\n      rank: 0\n")), "");
  EXPECT_EQ(refusal(with(place, place + "    update:\n      levels: 15\n")), "") << "of no codec that is left";
  EXPECT_NE(refusal(with(place, place + "    update:\n      codec: qsgd\n")).find("'qsgd': Starling 0.2.0 is the last"),
            std::string::npos);
}

// Only config files have new names.
TEST(Settings, KnowNoNamesOfConfigs) {
  EXPECT_NE(refusal(with("    clip: 0\n", "    outlier_clip: 0\n")).find("does not know the key"), std::string::npos);
  EXPECT_NE(refusal(with("  local_steps: 2\n", "  sync_every: 2\n")).find("does not know the key"), std::string::npos);
  EXPECT_EQ(describe_difference(golden(), with("    clip: 0\n", "    clip: 3\n")),
            "exchange.outlier_clip: 0 here, 3 there");
}

// Texts that only look alike are never taken for the same.
TEST(Settings, ThatCannotBeReadAreNotTheSame) {
  EXPECT_NE(describe_difference("a: 1\n", "a: 1 \n"), "");
  EXPECT_NE(describe_difference(golden(), golden() + "x"), "");
  EXPECT_EQ(describe_difference("a: 1\n", "a: 1\n"), "");
}

TEST(Settings, OfANewerStarlingSayWhatTheyNeed) {
  const std::string newer = with("    suspicion: 3\n", "    suspicion: 3\n    patience: 9\n");
  EXPECT_EQ(refusal(newer),
            "the swarm's settings:55: settings of a newer Starling: this program does not know the key "
            "swarm.membership.patience; upgrade it");
  const std::string upgrade =
      "the swarm's settings: they need Starling 12.3.4 or newer, and this program knows "
      "settings up to 0.3.0; upgrade it";
  EXPECT_EQ(refusal("starling: 12.3.4\n" + newer), upgrade);
  EXPECT_EQ(refusal("starling: 12.3.4\n" + golden()), upgrade);
  EXPECT_EQ(refusal("starling: 0.1.0\n" + golden()), "");
  EXPECT_EQ(describe_difference(golden(), newer), "membership.patience: not set here, 9 there");
}

TEST(Settings, ForeignTextsAreRefused) {
  for (const char* version : {"1", "1.2", "1.2.x", "1.2.3.4", "-1.2.3", "99999999999.0.0", "[1, 2, 3]", "''"}) {
    EXPECT_EQ(refusal("starling: " + std::string(version) + "\n" + golden()),
              "the swarm's settings:1: starling: expected a version such as 0.3.0")
        << version;
  }
  EXPECT_NE(refusal("starling: 0.1.0\nstarling: 0.1.0\n" + golden()).find("twice"), std::string::npos);
  EXPECT_NE(refusal(golden() + golden()), "");
  EXPECT_NE(refusal(with("  batch: 64\n", "  batch: 64\n  batch: 64\n")).find("second time"), std::string::npos);
  EXPECT_NE(refusal(with("  batch: 64\n", "  batch: 0\n")).find("from 1 to 1000000"), std::string::npos);
  EXPECT_NE(refusal(with("  batch: 64\n", "  batch:\n")), "");
  EXPECT_NE(refusal(with("genesis: 8524", "genesis: 852x")).find("64 hexadecimal digits"), std::string::npos);
  EXPECT_NE(refusal(with("genesis: 8524", "origin: 8524")).find("hash of the genesis is missing"), std::string::npos);
  try {
    (void)parse_agreed_settings("\x01\x02", "/some/settings.yaml");
    FAIL() << "no text at all";
  } catch (const ConfigError& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("/some/settings.yaml: ")) << error.what();
  }
}

Duration longest_of(const std::vector<std::string>& settings) {
  std::vector<std::string> all = {"swarm.model.kind=quadratic", "swarm.exchange.deadline_max=auto"};
  all.insert(all.end(), settings.begin(), settings.end());
  return longest_deadline(load_config("", all).swarm);
}

// Four times what the bytes take at 10 Mb/s.
TEST(LongestDeadline, FollowsTheBytesOfAnExchangeWhereAConfigSaysAuto) {
  const std::string ten_million = "swarm.model.dimension=10000000";
  EXPECT_NEAR(seconds(longest_of({ten_million})), 32, 0.1);
  EXPECT_NEAR(seconds(longest_of({ten_million, "swarm.exchange.codec=fp32"})), 128, 0.1);
  EXPECT_NEAR(seconds(longest_of({ten_million, "swarm.exchange.share=[params, momentum]"})), 64, 0.1);
  EXPECT_NEAR(seconds(longest_of({ten_million, "swarm.exchange.fragments=4"})), 8, 0.1);
  const std::vector<std::string> updates = {ten_million, "swarm.exchange.kind=group", "swarm.exchange.source=updates"};
  EXPECT_NEAR(seconds(longest_of(updates)), 128, 0.1);
  std::vector<std::string> sparse = updates;
  sparse.push_back("swarm.exchange.update.codec=topk");
  EXPECT_LT(longest_of(sparse), std::chrono::seconds(20));
  sparse.back() = "swarm.exchange.update.codec=sketch";
  EXPECT_NEAR(seconds(longest_of(sparse)), 10.06, 0.05) << "a table of 2 MB and 1.1 MB of values";
  sparse.back() = "swarm.exchange.update.codec=int8";
  EXPECT_NEAR(seconds(longest_of(sparse)), 128, 0.1) << "the last rounds send what int8 rounded away, in fp32";

  EXPECT_EQ(longest_of({"swarm.model.dimension=1000"}), std::chrono::seconds(2));
  EXPECT_EQ(longest_of({"swarm.model.dimension=1000", "swarm.exchange.deadline_min=3s"}), std::chrono::seconds(3));
  EXPECT_EQ(longest_of({"swarm.model.dimension=1000000000", "swarm.exchange.block=1048576", "swarm.exchange.codec=fp32",
                        "swarm.exchange.share=[params, momentum]"}),
            kDeadlineLongest);

  SwarmConfig swarm = load_config("", {"swarm.model.kind=quadratic", ten_million}).swarm;
  EXPECT_EQ(longest_deadline(swarm), kDeadlineMax) << "as ever, where a config names none";
  swarm.exchange.deadline_max = std::chrono::seconds(7);
  EXPECT_EQ(longest_deadline(swarm), std::chrono::seconds(7));
}

// Older members know times alone.
TEST(LongestDeadline, IsATimeInEveryTextOfSettings) {
  const SwarmConfig swarm = load_config("", {"swarm.model.kind=quadratic", "swarm.exchange.deadline_max=auto"}).swarm;
  const std::string text = agreed_settings(swarm, std::string(64, 'a'));
  EXPECT_EQ(parse_agreed_settings(text).swarm.exchange.deadline_max, longest_deadline(swarm));
  EXPECT_EQ(refusal(with("deadline_max: 500ms", "deadline_max: auto")),
            "the swarm's settings: exchange.deadline_max: auto is for configs; write a time such as 5s");
}

}  // namespace
}  // namespace starling
