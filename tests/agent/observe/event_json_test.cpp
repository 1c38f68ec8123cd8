#include "agent/observe/event_json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "agent/observe/event_fields.h"

namespace starling {
namespace {

using event_fields::HasFields;
using event_fields::Of;
using Json = nlohmann::ordered_json;

// Gives every field of an event a value of its own, so that two that are mixed up are seen.
class Filler {
 public:
  void fill(uint64_t& value) { value = ++count_; }
  void fill(double& value) { value = 0.5 + static_cast<double>(++count_); }
  void fill(std::optional<double>& value) { value = 0.25 + static_cast<double>(++count_); }
  void fill(bool& value) { value = ++count_ > 0; }
  void fill(std::optional<bool>& value) { value = ++count_ > 0; }
  void fill(std::string& value) { value = "text " + std::to_string(++count_); }
  void fill(std::vector<int64_t>& value) { value = {-1, static_cast<int64_t>(++count_)}; }
  template <HasFields T>
  void fill(std::vector<T>& values) {
    values.resize(2);
    for (T& value : values) fill(value);
  }
  template <HasFields T>
  void fill(T& object) {
    event_fields::for_each_field<T>([&](const auto& field) { fill(object.*field.value); });
  }

 private:
  uint64_t count_ = 0;
};

template <typename T>
Event filled() {
  T event;
  Filler().fill(event);
  return event;
}

template <typename... Kinds>
std::vector<Event> one_of_each(const std::variant<Kinds...>*) {
  return {filled<Kinds>()...};
}

std::vector<Event> every_kind() { return one_of_each(static_cast<const Event*>(nullptr)); }

TEST(EventJson, EveryFieldOfEveryEventComesBack) {
  for (const Event& event : every_kind()) {
    const std::string line = print_event(12.5, event);
    const std::optional<EventLine> back = parse_event(line);
    ASSERT_TRUE(back && back->event) << line;
    EXPECT_EQ(back->t_s, 12.5);
    EXPECT_EQ(back->event->index(), event.index()) << line;
    EXPECT_EQ(print_event(12.5, *back->event), line);
  }
}

TEST(EventJson, TextOfOthersStaysOneStringOnOneLine) {
  const std::string evil = "a \"quoted\" \\ name\n\x01 and \xff bytes";
  const std::string line = print_event(1, MemberChanged{"ab", evil, "joined", "10.0.0.1:7400"});
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const Json json = Json::parse(line);
  EXPECT_EQ(json["name"], "a \"quoted\" \\ name\n\x01 and \xEF\xBF\xBD bytes");
  EXPECT_EQ(json["change"], "joined");
}

TEST(EventJson, WhatIsNotMeasuredIsNull) {
  AgentStatus status;
  status.loss = std::numeric_limits<double>::infinity();
  status.learning_rate = std::nan("");
  status.accuracy = 1.0 / 3;
  const Json json = Json::parse(print_event(1, status));
  EXPECT_TRUE(json["loss"].is_null());
  EXPECT_TRUE(json["distance"].is_null());
  EXPECT_TRUE(json["learning_rate"].is_null());
  EXPECT_EQ(json["accuracy"].dump(), "0.333333");
}

TEST(EventJson, ACheckpointNamesItsFileOrItsErrorOnly) {
  EXPECT_EQ(print_event(1, CheckpointSaved{7, "/s/a.ckpt", 2.5, ""}),
            R"({"t":1.0,"event":"checkpoint","steps":7,"file":"/s/a.ckpt","ms":2.5})");
  EXPECT_EQ(print_event(1, CheckpointSaved{7, "", 2.5, "disk full"}),
            R"({"t":1.0,"event":"checkpoint","steps":7,"ms":2.5,"error":"disk full"})");
}

TEST(EventJson, MissingFieldsKeepWhatIsKnown) {
  AgentStatus known;
  known.steps = 40;
  known.exchanges.late = 3;
  known.bytes_sent = 1000;
  const auto status = parse_event(R"({"t":1,"event":"status","exchanges":{"done":5},"bytes_sent":"many"})", known);
  ASSERT_TRUE(status && status->event);
  const auto& read = std::get<AgentStatus>(*status->event);
  EXPECT_EQ(read.steps, 40u);
  EXPECT_EQ(read.exchanges.done, 5u);
  EXPECT_EQ(read.exchanges.late, 3u);
  EXPECT_EQ(read.bytes_sent, 1000u);
  const auto sick = parse_event(R"({"t":1,"event":"sick","reason":"NaN"})", known);
  ASSERT_TRUE(sick && sick->event);
  EXPECT_EQ(std::get<BecameSick>(*sick->event).steps, 40u);
}

TEST(EventJson, AnUnknownKindIsAnEventWithoutContent) {
  const auto line = parse_event(R"({"t":3,"event":"eclipse","steps":9})");
  ASSERT_TRUE(line);
  EXPECT_EQ(line->t_s, 3);
  EXPECT_FALSE(line->event);
}

// "a, b {c, d}" of the fields of T.
template <typename T>
std::string field_list() {
  std::string text;
  event_fields::for_each_field<T>([&](const auto& field) {
    text += (text.empty() ? "" : ", ") + std::string(field.name);
    using Value = std::decay_t<decltype(std::declval<T>().*field.value)>;
    if constexpr (HasFields<Value>) text += " {" + field_list<Value>() + "}";
  });
  return text;
}

template <typename... Kinds>
std::map<std::string, std::string> lists_of(const std::variant<Kinds...>*) {
  return {{name(Of<Kinds>{}), field_list<Kinds>()}...};
}

// README.md holds under its last heading a line "- `kind`: field, field" an event; parentheses are for people.
std::map<std::string, std::string> documented_lists() {
  std::ifstream file(std::getenv("STARLING_OBSERVE_README"));
  std::map<std::string, std::string> lists;
  std::string line, kind;
  while (std::getline(file, line)) {
    if (line.starts_with("#")) lists.clear();
    if (line.starts_with("- `")) {
      const size_t end = line.find("`: ");
      if (end == std::string::npos) continue;
      kind = line.substr(3, end - 3);
      lists[kind] = line.substr(end + 3);
    } else if (!kind.empty() && line.starts_with("  ")) {
      lists[kind] += line.substr(1);
    } else {
      kind.clear();
    }
  }
  for (auto& [name, text] : lists) {
    for (size_t open; (open = text.find(" (")) != std::string::npos;) text.erase(open, text.find(')', open) + 1 - open);
  }
  return lists;
}

TEST(EventTable, TheReadmeListsEveryFieldOfEveryEvent) {
  std::map<std::string, std::string> wanted = lists_of(static_cast<const Event*>(nullptr));
  wanted["finish"] = "reason, settled, and all of status";
  EXPECT_EQ(documented_lists(), wanted);
}

}  // namespace
}  // namespace starling
