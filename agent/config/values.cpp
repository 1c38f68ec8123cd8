#include "agent/config/values.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <stdexcept>

#include "agent/config/config.h"
#include "gossip/net/text.h"

namespace starling {
namespace {

size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
    }
  }
  return row.back();
}

std::string describe_found(const ConfigTree& tree) {
  switch (tree.kind) {
    case ConfigTree::Kind::kNothing: return "nothing";
    case ConfigTree::Kind::kScalar: return "'" + tree.text + "'";
    case ConfigTree::Kind::kList: return "a list";
    case ConfigTree::Kind::kMap: return "keys below it";
  }
  return "nothing";
}

template <typename T>
std::string describe_range(T min, T max) {
  if (max == std::numeric_limits<T>::max()) return "a whole number, " + std::to_string(min) + " or more";
  return "a whole number from " + std::to_string(min) + " to " + std::to_string(max);
}

template <typename List, typename Print>
std::string print_list(const List& list, Print print) {
  std::string text = "[";
  for (const auto& item : list) text += (text.size() > 1 ? ", " : "") + print(item);
  return text + "]";
}

}  // namespace

void throw_expected(const std::string& expected, const ConfigTree& found) {
  throw std::invalid_argument("expected " + expected + ", found " + describe_found(found));
}

const std::string& scalar_text(const ConfigTree& tree, const std::string& expected) {
  if (tree.kind != ConfigTree::Kind::kScalar) throw_expected(expected, tree);
  return tree.text;
}

std::vector<ConfigTree> list_items(const ConfigTree& tree, const std::string& expected) {
  if (tree.kind == ConfigTree::Kind::kList) {
    for (const ConfigTree& item : tree.children) (void)scalar_text(item, expected);
    return tree.children;
  }
  const std::string& text = scalar_text(tree, expected);
  std::vector<ConfigTree> items;
  for (size_t at = 0; at < text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    std::string item = text.substr(at, comma - at);
    item.erase(0, item.find_first_not_of(' '));
    item.erase(item.find_last_not_of(' ') + 1);
    items.push_back(scalar_tree(item));
    at = comma + 1;
  }
  return items;
}

std::string nearest_word(const std::string& word, const std::vector<std::string>& words) {
  constexpr size_t kWordBytesMax = 64;
  if (word.size() > kWordBytesMax) return {};
  std::string nearest;
  size_t least = std::max<size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : words) {
    const size_t distance = edit_distance(word, candidate);
    if (distance >= least || distance >= candidate.size()) continue;
    least = distance;
    nearest = candidate;
  }
  return nearest;
}

void throw_unknown(const std::string& what, const std::string& word, const std::vector<std::string>& words) {
  std::string remedy = nearest_word(word, words);
  if (remedy.empty()) {
    for (const std::string& known : words) remedy += (remedy.empty() ? "choose one of " : ", ") + known;
  } else {
    remedy = "did you mean '" + remedy + "'?";
  }
  throw std::runtime_error("there is no " + what + " '" + word + "'; " + remedy);
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

double NumberValue::read(const ConfigTree& tree) const {
  const std::string expected = "a number from " + print(min) + " to " + print(max);
  const auto value = read_number<double>(scalar_text(tree, expected));
  if (!value || !(*value >= min && *value <= max)) throw_expected(expected, tree);
  return *value == 0 ? 0 : *value;  // no -0: equal settings print equal bytes
}

std::string NumberValue::print(double value) {
  char text[40];
  const auto end = std::to_chars(text, text + sizeof text, value);
  return {text, end.ptr};
}

uint64_t CountValue::read(const ConfigTree& tree) const {
  const std::string expected = describe_range(min, max);
  const auto value = read_number<uint64_t>(scalar_text(tree, expected));
  if (!value || *value < min || *value > max) throw_expected(expected, tree);
  return *value;
}

uint64_t SwarmIdValue::read(const ConfigTree& tree) {
  const std::string expected = "the 16 hexadecimal digits that its agents print as the swarm's id";
  const std::string text = tree.kind == ConfigTree::Kind::kNothing ? "" : scalar_text(tree, expected);
  if (text.empty()) return 0;
  uint64_t id = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), id, 16);
  if (text.size() != 16 || end.ec != std::errc() || end.ptr != text.data() + text.size() || id == 0) {
    throw_expected(expected, tree);
  }
  return id;
}

std::string SwarmIdValue::print(uint64_t id) {
  if (id == 0) return quoted("");
  std::string digits(16, '0');
  for (size_t i = 16; i-- > 0; id >>= 4) digits[i] = "0123456789abcdef"[id & 15];
  return starling::quoted(digits);
}

std::vector<int64_t> CountsValue::read(const ConfigTree& tree) const {
  const std::string expected = describe_range(min, max);
  std::vector<int64_t> values;
  for (const ConfigTree& item : list_items(tree, "a list of whole numbers")) {
    const auto value = read_number<int64_t>(item.text);
    if (!value || *value < min || *value > max) throw_expected(expected, item);
    values.push_back(*value);
  }
  if (values.size() >= least && values.size() <= most) return values;
  const std::string count = least == most ? std::to_string(least) : "at most " + std::to_string(most);
  throw std::invalid_argument("expected " + count + " numbers, found " + std::to_string(values.size()));
}

std::string CountsValue::print(const std::vector<int64_t>& values) {
  return print_list(values, [](int64_t value) { return std::to_string(value); });
}

std::string WordValue::read(const ConfigTree& tree) const {
  std::string list;
  for (const std::string& word : words) list += (list.empty() ? "" : ", ") + word;
  const std::string& text = scalar_text(tree, "one of " + list);
  if (std::find(words.begin(), words.end(), text) != words.end()) return text;
  const std::string nearest = nearest_word(text, words);
  throw std::invalid_argument("expected one of " + list + ", found '" + text + "'" +
                              (nearest.empty() ? "" : "; did you mean '" + nearest + "'?"));
}

std::string TextValue::read(const ConfigTree& tree) const {
  const std::string& text = scalar_text(tree, "a text");
  if (!is_one_line(text)) throw std::invalid_argument("expected one line of UTF-8 text without control characters");
  if (text.size() > bytes_max) {
    throw std::invalid_argument("expected at most " + std::to_string(bytes_max) + " bytes, found " +
                                std::to_string(text.size()));
  }
  return text;
}

std::string NameValue::read(const ConfigTree& tree) const {
  const std::string text = TextValue{bytes_max}.read(tree);
  if (text.find_first_of("\"\\") != std::string::npos) throw_expected("a name without quotes and backslashes", tree);
  return text;
}

std::vector<std::string> NamesValue::read(const ConfigTree& tree) const {
  const std::string expected = "a list of names such as [agent-0, agent-1]";
  std::vector<std::string> names;
  for (const ConfigTree& item : list_items(tree, expected)) {
    names.push_back(NameValue{bytes_max}.read(item));
    if (names.back().empty()) throw_expected(expected, item);
  }
  return names;
}

std::string NamesValue::print(const std::vector<std::string>& names) { return print_list(names, NameValue::print); }

Duration TimeValue::read(const ConfigTree& tree) const {
  const std::string& text = scalar_text(tree, "a time with its unit, such as 5s or 500ms");
  const std::optional<Duration> duration = parse_duration(text);
  if (!duration) {
    throw std::invalid_argument("expected a time with its unit, found '" + text +
                                "'; write 5s or 500ms (us, ms, s, m, h, d)");
  }
  if (*duration < min || *duration > max) throw_expected("a time from " + print(min) + " to " + print(max), tree);
  return *duration;
}

std::string TimeValue::print(Duration duration) { return print_duration(duration); }

Endpoint AddressValue::read(const ConfigTree& tree) const {
  const std::string expected = "HOST:PORT such as 192.168.1.5:7400";
  const auto endpoint = Endpoint::parse(scalar_text(tree, expected));
  if (!endpoint) {
    const size_t colon = tree.text.rfind(':');
    const auto port = read_number<uint64_t>(colon == std::string::npos ? "" : tree.text.substr(colon + 1));
    if (port && *port > 65535) {
      throw std::invalid_argument("there is no port " + std::to_string(*port) + ", they end at 65535; choose another " +
                                  "in '" + tree.text + "'");
    }
    throw_expected(expected, tree);
  }
  if (endpoint->port == 0 && !any_port) {
    throw std::invalid_argument("port 0 means 'any' and nobody can dial it; name the port in '" + tree.text + "'");
  }
  if (endpoint->port == 65535) {
    throw std::invalid_argument("port 65535 leaves no next port for the bulk data; choose a smaller one");
  }
  return *endpoint;
}

namespace {

// Of a file that a person or a tool wrote: words with blanks, commas or line feeds between.
std::vector<ConfigTree> words_of_file(const std::string& path) {
  constexpr size_t kFileBytesMax = 64 * 1024;
  std::ifstream file(path, std::ios::binary);
  std::string text(kFileBytesMax + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || (!file && file.gcount() == 0)) {
    throw std::invalid_argument("@" + path +
                                ": the file is empty or cannot be read; name one that holds HOST:PORT#TICKET");
  }
  if (file.gcount() > static_cast<std::streamsize>(kFileBytesMax)) {
    throw std::invalid_argument("@" + path + ": more than " + std::to_string(kFileBytesMax) +
                                " bytes; name a file that holds HOST:PORT#TICKET");
  }
  text.resize(static_cast<size_t>(file.gcount()));
  constexpr const char* kBetween = " ,\t\r\n";
  std::vector<ConfigTree> words;
  for (size_t at = text.find_first_not_of(kBetween); at < text.size(); at = text.find_first_not_of(kBetween, at)) {
    const size_t end = std::min(text.find_first_of(kBetween, at), text.size());
    words.push_back(scalar_tree(text.substr(at, end - at)));
    at = end;
  }
  return words;
}

constexpr size_t kShownMax = 30;  // characters of an error; the seed of a key has 32

void add_address(Addresses& addresses, const ConfigTree& item) {
  const std::string& text = scalar_text(item, "HOST:PORT or HOST:PORT#TICKET");
  Endpoint at;
  const bool encoded = text.find("%23") != std::string::npos && !Endpoint::parse(text);  // a zone may be 23
  if (text.find('#') != std::string::npos || encoded) {
    addresses.tickets.push_back(parse_ticket(text));
    at = addresses.tickets.back().at;
  } else if (text.size() > kShownMax && !Endpoint::parse(text)) {
    throw std::invalid_argument(
        "this is no address HOST:PORT, and no ticket HOST:PORT#TICKET (not shown, as it may be a secret); copy the "
        "whole "
        "line from the file `ticket` of a state folder");
  } else {
    at = AddressValue{false}.read(item);
  }
  if (std::find(addresses.all.begin(), addresses.all.end(), at) == addresses.all.end()) addresses.all.push_back(at);
}

}  // namespace

Addresses AddressesValue::read(const ConfigTree& tree) const {
  constexpr size_t kAddressesMax = 64;
  Addresses addresses;
  for (const ConfigTree& item : list_items(tree, "one or more of HOST:PORT")) {
    const std::string& text = scalar_text(item, "HOST:PORT or HOST:PORT#TICKET");
    const auto items = text.starts_with('@') ? words_of_file(text.substr(1)) : std::vector{item};
    for (const ConfigTree& one : items) add_address(addresses, one);
  }
  if (addresses.all.size() > kAddressesMax) {
    throw std::invalid_argument("expected at most " + std::to_string(kAddressesMax) +
                                " addresses; a few are enough, the swarm names the others");
  }
  return addresses;
}

std::string AddressesValue::print(const std::vector<Endpoint>& endpoints) {
  return print_list(endpoints, AddressValue::print);
}

std::optional<Duration> parse_duration(const std::string& text) {
  constexpr double kSecondsMax = 1e9;
  double value = 0;
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (result.ec != std::errc() || !(value >= 0)) return std::nullopt;
  const std::string unit(result.ptr, end);
  constexpr std::pair<const char*, double> kUnits[] = {{"us", 1e3}, {"ms", 1e6},   {"s", 1e9},
                                                       {"m", 60e9}, {"h", 3600e9}, {"d", 86400e9}};
  for (const auto& [name, ns] : kUnits) {
    if (unit == name && value * ns < kSecondsMax * 1e9) return Duration(static_cast<int64_t>(value * ns + 0.5));
  }
  return std::nullopt;
}

std::string print_duration(Duration duration) {
  const int64_t ns = duration.count();
  if (ns == 0) return "0s";
  constexpr std::pair<const char*, int64_t> kUnits[] = {
      {"h", 3600000000000}, {"m", 60000000000}, {"s", 1000000000}, {"ms", 1000000}};
  for (const auto& [name, size] : kUnits) {
    if (ns % size == 0) return std::to_string(ns / size) + name;
  }
  return NumberValue::print(static_cast<double>(ns) * 1e-3) + "us";
}

}  // namespace starling
