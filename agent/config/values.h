// How single values of a configuration are read, checked and printed. read() throws std::invalid_argument: what was
// expected and what was found. What print() gives reads back as the same value.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/config/tree.h"
#include "gossip/clock.h"
#include "gossip/net/ticket.h"
#include "gossip/peer.h"

namespace starling {

// A whole text as a number; nullopt if it is none.
template <typename T>
std::optional<T> read_number(const std::string& text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (text.empty() || result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return value;
}

// The same from 0 to 1e9 (thirty years): what a flag may name.
inline std::optional<double> read_seconds(const std::string& text) {
  const auto seconds = read_number<double>(text);
  return seconds && *seconds >= 0 && *seconds <= 1e9 ? seconds : std::nullopt;
}

// The text of a single value. Throws unless it is one.
const std::string& scalar_text(const ConfigTree& tree, const std::string& expected);

// Scalars of a list, or of one text with commas between, blanks taken off.
std::vector<ConfigTree> list_items(const ConfigTree& tree, const std::string& expected);

[[noreturn]] void throw_expected(const std::string& expected, const ConfigTree& found);

// The one of `words` that `word` may have been meant to be; empty: none is near.
std::string nearest_word(const std::string& word, const std::vector<std::string>& words);

// Throws std::runtime_error: there is no such `what`. It names the nearest of `words`, or all.
[[noreturn]] void throw_unknown(const std::string& what, const std::string& word,
                                const std::vector<std::string>& words);

std::string quoted(const std::string& text);

struct NumberValue {
  double min, max;
  double read(const ConfigTree& tree) const;
  static std::string print(double value);  // the shortest that reads back as the same number
};

// The share of elements that update codecs send.
inline constexpr NumberValue kDensityValue{1e-6, 1};

struct CountValue {
  uint64_t min = 0, max = UINT64_MAX;
  uint64_t read(const ConfigTree& tree) const;
  static std::string print(uint64_t value) { return std::to_string(value); }
};

struct CountsValue {
  int64_t min, max;
  size_t least, most;  // how many
  std::vector<int64_t> read(const ConfigTree& tree) const;
  static std::string print(const std::vector<int64_t>& values);
};

// 16 hexadecimal digits as the agents print them; empty: 0.
struct SwarmIdValue {
  static uint64_t read(const ConfigTree& tree);
  static std::string print(uint64_t id);
};

struct WordValue {
  std::vector<std::string> words;
  std::string read(const ConfigTree& tree) const;
  static std::string print(const std::string& word) { return word; }
};

template <typename Enum>
struct ChoiceValue {
  std::vector<std::pair<const char*, Enum>> choices;
  Enum read(const ConfigTree& tree) const {
    std::vector<std::string> words;
    for (const auto& choice : choices) words.push_back(choice.first);
    const std::string word = WordValue{words}.read(tree);
    for (const auto& [name, value] : choices) {
      if (word == name) return value;
    }
    throw_expected("one of the choices", tree);
  }
  std::string print(Enum value) const {
    for (const auto& [name, choice] : choices) {
      if (choice == value) return name;
    }
    return {};
  }
};

struct TextValue {  // one line of UTF-8
  size_t bytes_max;
  std::string read(const ConfigTree& tree) const;
  static std::string print(const std::string& text) { return quoted(text); }
};

struct NameValue {  // a text without quotes or backslashes, so that it can be quoted anywhere
  size_t bytes_max;
  std::string read(const ConfigTree& tree) const;
  static std::string print(const std::string& text) { return quoted(text); }
};

struct NamesValue {  // a list of them, each not empty
  size_t bytes_max;
  std::vector<std::string> read(const ConfigTree& tree) const;
  static std::string print(const std::vector<std::string>& names);
};

struct TimeValue {
  Duration min, max;
  Duration read(const ConfigTree& tree) const;
  static std::string print(Duration duration);
};

struct AddressValue {
  bool any_port;  // port 0 may stand for "any"
  Endpoint read(const ConfigTree& tree) const;
  static std::string print(const Endpoint& endpoint) { return quoted(endpoint.to_string()); }
};

// Addresses, each perhaps with the ticket of the agent or registry there.
struct Addresses {
  std::vector<Endpoint> all;
  std::vector<Ticket> tickets;
};

// HOST:PORT, HOST:PORT#TICKET, or @FILE with some of them. Tickets are not printed.
struct AddressesValue {
  Addresses read(const ConfigTree& tree) const;
  static std::string print(const std::vector<Endpoint>& endpoints);
};

}  // namespace starling
