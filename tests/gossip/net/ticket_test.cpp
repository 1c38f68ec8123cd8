#include "gossip/net/ticket.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "gossip/rng.h"

namespace starling {
namespace {

Ticket sample() {
  Ticket ticket{.at = {"10.0.0.5", 7400}};
  for (uint8_t i = 0; i < 32; ++i) {
    ticket.seed[i] = i;
    ticket.id.bytes[i] = static_cast<uint8_t>(200 + i);
  }
  return ticket;
}

// What is wrong with it; empty: nothing.
std::string error_of(const std::string& text) {
  try {
    (void)parse_ticket(text);
    return "";
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
}

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Tickets are kept in files for years.
TEST(Ticket, TextIsTheSameForEver) {
  EXPECT_EQ(
      sample().to_string(),
      "10.0.0.5:7400#AQABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4fyMnKy8zNzs_Q0dLT1NXW19jZ2tvc3d7f4OHi4-Tl5ufmsMcC");
}

TEST(Ticket, ReadsBack) {
  Ticket ticket = sample();
  EXPECT_EQ(parse_ticket(ticket.to_string()), ticket);
  ticket.at = {"fe80::1%eth0", 1};
  EXPECT_EQ(parse_ticket(ticket.to_string()), ticket);
}

TEST(Ticket, EachDamageIsNamed) {
  const std::string text = sample().to_string();
  const size_t key = text.find('#') + 1;
  EXPECT_TRUE(holds(error_of(text.substr(0, text.size() - 1)), "cut off: it has 91 characters, and 92 are needed"));
  EXPECT_TRUE(holds(error_of(text.substr(0, key)), "there is no ticket behind the #"));
  EXPECT_TRUE(holds(error_of(text + "A"), "too long: it has 93"));
  std::string blank = text;
  blank.insert(key + 40, " ");
  EXPECT_TRUE(holds(error_of(blank), "a blank or a line break"));
  EXPECT_TRUE(holds(error_of(text + "\n"), "a blank or a line break"));
  std::string encoded = text;
  encoded.replace(key - 1, 1, "%23");
  EXPECT_TRUE(holds(error_of(encoded), "URL-encoded"));
  EXPECT_TRUE(holds(error_of(text + "%3D"), "URL-encoded"));
  EXPECT_TRUE(holds(error_of(text.substr(0, key + 3) + "!" + text.substr(key + 4)), "a character that no ticket has"));
  EXPECT_TRUE(holds(error_of("10.0.0.5:7400"), "no #"));
  EXPECT_TRUE(holds(error_of(text.substr(key - 1)), "no address"));
  EXPECT_TRUE(holds(error_of("10.0.0.5:0" + text.substr(key - 1)), "no address"));
  EXPECT_TRUE(holds(error_of(std::string(100'000, 'A')), "at most"));
}

TEST(Ticket, OneWrongCharacterIsFoundWhereverItStands) {
  const std::string text = sample().to_string();
  for (size_t at = text.find('#') + 1; at < text.size(); ++at) {
    for (const char c : {'A', 'B', '_'}) {
      std::string wrong = text;
      wrong[at] = c;
      if (wrong == text) continue;
      EXPECT_TRUE(holds(error_of(wrong), "wrong character")) << at;
    }
  }
}

// Of version 4, with the sum that every version ends with.
TEST(Ticket, OfANewerStarlingSaysSo) {
  const std::string error = error_of("10.0.0.5:7400#BAcHBwcHBwcPLyi1");
  EXPECT_TRUE(holds(error, "version 4, of a newer Starling")) << error;
}

// Of a certified swarm, with or without the member's own identity.
Ticket certified(bool with_identity) {
  Ticket ticket = sample();
  ticket.seed = {};
  ticket.admission = admit(Identity(KeySeed{1}), {Identity(KeySeed{2}).id(), 2'000'000'000, 7});
  if (with_identity) ticket.admission->identity = KeySeed{2};
  return ticket;
}

TEST(Ticket, OfACertifiedSwarmReadsBack) {
  for (const bool with_identity : {false, true}) {
    const Ticket ticket = certified(with_identity);
    const std::string text = ticket.to_string();
    EXPECT_EQ(text.size(), std::string("10.0.0.5:7400#").size() + (with_identity ? 328 : 286));
    EXPECT_EQ(parse_ticket(text), ticket);
    EXPECT_EQ(parse_ticket(text).swarm(), ticket.swarm());
    EXPECT_NE(parse_ticket(text).swarm(), sample().swarm());
  }
}

TEST(Ticket, OfACertifiedSwarmIsTheSameForEver) {
  EXPECT_EQ(
      certified(false).to_string(),
      "10.0.0.5:7400#AsjJysvMzc7P0NHS09TV1tfY2drb3N3e3-Dh4uPk5ebnzswVB9wd3XKVlRwpCIjwla25BE0bc9aW5t8GXWg71Pz1eezW"
      "eIzGxrKVf-T8mhcZ7BMlo33yowxG6A1RN9dG0wFrecV-aglSOSgsBIGOlhEvPwOkABupelZMI4UqPx6l_ACUNXcAAAAABwAAAAAAAADKsX3p"
      "kdzGVqTMtp9NOMaDNdRd-SotBoeKxCGVStfV98QT0hN6r5kv4RIsv7y7bjBwC1YitvvZ9savE31RoN8CiQr73A");
}

TEST(Ticket, DamageOfACertifiedOneIsNamed) {
  for (const bool with_identity : {false, true}) {
    const std::string text = certified(with_identity).to_string();
    const std::string needed = with_identity ? "328" : "286";
    const size_t key = text.find('#') + 1;
    EXPECT_TRUE(holds(error_of(text.substr(0, text.size() - 1)), "cut off: it has")) << needed;
    EXPECT_TRUE(holds(error_of(text.substr(0, key + 5)), "5 characters, and " + needed + " are needed"));
    EXPECT_TRUE(holds(error_of(text + "A"), "too long: it has"));
    for (size_t at = key; at < text.size(); ++at) {
      std::string wrong = text;
      wrong[at] = text[at] == 'A' ? 'B' : 'A';
      EXPECT_TRUE(holds(error_of(wrong), "wrong character")) << at;
    }
  }
}

// The seed of the swarm's key stands nowhere in it.
TEST(Ticket, OfACertifiedSwarmHoldsNoSeed) {
  const std::vector<uint8_t> bytes = from_base64(certified(true).to_string().substr(14));
  const KeySeed seed{1};
  EXPECT_TRUE(std::ranges::search(bytes, seed).empty());
}

TEST(Ticket, NoErrorShowsIt) {
  const std::string text = sample().to_string();
  const std::string key = text.substr(text.find('#') + 1);
  Rng rng(1);
  for (int i = 0; i < 2000; ++i) {
    std::string wrong = text;
    wrong[rng.below(static_cast<uint32_t>(wrong.size()))] = static_cast<char>(rng.below(256));
    const std::string error = error_of(wrong.substr(0, rng.below(static_cast<uint32_t>(wrong.size()) + 1)));
    for (size_t at = 0; at + 12 <= key.size(); at += 12) EXPECT_FALSE(holds(error, key.substr(at, 12))) << error;
  }
}

TEST(Ticket, IsHiddenInWhatRepeatsIt) {
  const std::string text = sample().to_string();
  EXPECT_EQ(hide_tickets("--bootstrap " + text), "--bootstrap 10.0.0.5:7400#...");
  std::string damaged = text;
  damaged.insert(30, " ");
  EXPECT_EQ(hide_tickets(damaged), "10.0.0.5:7400#...") << "what follows the blank is of the ticket";
  EXPECT_EQ(hide_tickets("'b:1%23x'"), "'b:1#...");
  EXPECT_EQ(hide_tickets("a:1 b"), "a:1 b");
}

}  // namespace
}  // namespace starling
