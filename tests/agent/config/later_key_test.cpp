// A Starling that knows two keys more than that of version 0.1.0 (tests/support/later_key.cpp): what it makes of old
// texts, and what an older program makes of its own.
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "agent/config/fields.h"
#include "agent/config/settings.h"

namespace starling {
namespace {

std::string golden() {
  std::ifstream file(GOLDEN_DIR "/state-0.1.0/settings.yaml", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string error_of(const std::string& text) {
  try {
    (void)parse_agreed_settings(text);
    return "";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

std::string with_line(const std::string& line) {
  std::string text = golden();
  return text.insert(text.find("genesis:"), line);
}

// The text as 0.1.0 wrote it means what 0.1.0 did, whatever the default is today.
TEST(LaterKey, MissingInATextHasTheValueFromBeforeTheKey) {
  ASSERT_EQ(SwarmConfig{}.topology.rng_seed, 1u);  // where swarm.later.number is kept: its default
  const AgreedSettings agreed = parse_agreed_settings(golden());
  EXPECT_EQ(agreed.swarm.topology.rng_seed, 7u);
  EXPECT_EQ(agreed_settings(agreed.swarm, agreed.genesis_hash_hex), golden());
  EXPECT_EQ(describe_difference(golden(), with_line("  later: {number: 12}\n")), "later.number: 7 here, 12 there");
  EXPECT_EQ(describe_difference(golden(), with_line("  later: {number: 7}\n")), "");
}

TEST(LaterKey, WithItsOldValueLeavesTheTextAsItWas) {
  SwarmConfig swarm;
  swarm.topology.rng_seed = 7;
  const std::string text = print_swarm_settings(swarm);
  EXPECT_TRUE(text.starts_with("swarm:\n  name: ")) << text;
  EXPECT_EQ(text.find("patience"), std::string::npos) << text;
  EXPECT_EQ(text.find("later"), std::string::npos) << text;
}

TEST(LaterKey, WithAnotherValueStandsInTheTextWithTheVersionThatKnowsIt) {
  SwarmConfig swarm;
  swarm.topology.rng_seed = 7;
  swarm.model.channels = 9;  // where swarm.exchange.patience is kept
  const std::string text = print_swarm_settings(swarm);
  EXPECT_TRUE(text.starts_with("starling: 0.8.0\nswarm:\n")) << text;
  EXPECT_NE(text.find("\n    inject_loss: 0\n    patience: 9\n  topology:\n"), std::string::npos) << text;
  EXPECT_EQ(parse_swarm_settings(text).model.channels, 9);
  EXPECT_EQ(print_swarm_settings(parse_swarm_settings(text)), text);
  // Whoever begins a swarm by today's default says so, for programs whose default is another.
  const std::string by_default = print_swarm_settings(SwarmConfig{});
  EXPECT_TRUE(by_default.starts_with("starling: 0.9.0\nswarm:\n")) << by_default;
  EXPECT_NE(by_default.find("\n  later:\n    number: 1\n"), std::string::npos) << by_default;
}

TEST(LaterKey, TheNewestVersionKnownIsThatOfTheNewestKey) {
  EXPECT_EQ(error_of("starling: 0.9.0\n" + golden()), "");
  EXPECT_EQ(error_of("starling: 0.9.1\n" + golden()),
            "the swarm's settings: they need Starling 0.9.1 or newer, and this program knows settings up to 0.9.0; "
            "upgrade it");
}

}  // namespace
}  // namespace starling
