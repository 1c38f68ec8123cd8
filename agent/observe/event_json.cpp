#include "agent/observe/event_json.h"

#include <cmath>
#include <cstdlib>
#include <type_traits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "agent/observe/event_fields.h"

namespace starling {
namespace {

using event_fields::HasFields;
using event_fields::Of;
using Out = nlohmann::ordered_json;
using In = nlohmann::json;

// Six digits: the rest is noise, and short numbers keep the file small.
Out number(double value) {
  if (!std::isfinite(value)) return nullptr;
  return std::strtod(fmt::format("{:.6g}", value).c_str(), nullptr);
}

template <typename T>
Out print_fields(const T& object);

template <typename T>
Out print_value(const T& value) {
  if constexpr (HasFields<T>)
    return print_fields(value);
  else
    return value;
}
Out print_value(double value) { return number(value); }
Out print_value(const std::optional<double>& value) { return value ? number(*value) : Out(nullptr); }
Out print_value(const std::optional<bool>& value) { return value ? Out(*value) : Out(nullptr); }

template <HasFields T>
Out print_value(const std::vector<T>& values) {
  Out list = Out::array();
  for (const T& value : values) list.push_back(print_fields(value));
  return list;
}

template <typename T>
void append_fields(Out& line, const T& object) {
  event_fields::for_each_field<T>([&](const auto& field) {
    const auto& value = object.*field.value;
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::string>) {
      if (field.written == event_fields::Written::kUnlessEmpty && value.empty()) return;
    }
    line[field.name] = print_value(value);
  });
}

template <typename T>
Out print_fields(const T& object) {
  Out line = Out::object();
  append_fields(line, object);
  return line;
}

void read_value(const In& json, uint64_t& value) {
  if (json.is_number_unsigned()) value = json.get<uint64_t>();
}
void read_value(const In& json, bool& value) {
  if (json.is_boolean()) value = json.get<bool>();
}
void read_value(const In& json, std::string& value) {
  if (json.is_string()) value = json.get<std::string>();
}
void read_value(const In& json, double& value) {
  if (json.is_number() && std::isfinite(json.get<double>())) value = json.get<double>();
}
void read_value(const In& json, std::optional<double>& value) {
  if (json.is_number() && std::isfinite(json.get<double>())) value = json.get<double>();
}
void read_value(const In& json, std::optional<bool>& value) {
  if (json.is_boolean()) value = json.get<bool>();
}
void read_value(const In& json, std::vector<int64_t>& value) {
  if (!json.is_array()) return;
  value.clear();
  for (const In& one : json) {
    if (one.is_number_integer()) value.push_back(one.get<int64_t>());
  }
}

template <typename T>
void read_fields(const In& line, T& object);

template <HasFields T>
void read_value(const In& json, T& value) {
  if (json.is_object()) read_fields(json, value);
}

template <HasFields T>
void read_value(const In& json, std::vector<T>& values) {
  if (!json.is_array()) return;
  values.clear();
  for (const In& one : json) read_value(one, values.emplace_back());
}

template <typename T>
void read_fields(const In& line, T& object) {
  event_fields::for_each_field<T>([&](const auto& field) {
    const auto at = line.find(field.name);
    if (at != line.end()) read_value(*at, object.*field.value);
  });
}

template <typename T>
T begin_event(const AgentStatus& known) {
  T event;
  if constexpr (std::is_base_of_v<AgentStatus, T>)
    static_cast<AgentStatus&>(event) = known;
  else if constexpr (requires { event.steps; })
    event.steps = known.steps;
  return event;
}

// Reads the line if it is of kind T.
template <typename T>
bool try_read(const In& line, const std::string& kind, const AgentStatus& known, std::optional<Event>* event) {
  if (kind != name(Of<T>{})) return false;
  T read = begin_event<T>(known);
  read_fields(line, read);
  *event = std::move(read);
  return true;
}

template <typename... Kinds>
std::optional<Event> read_any(const In& line, const std::string& kind, const AgentStatus& known,
                              const std::variant<Kinds...>*) {
  std::optional<Event> event;
  (try_read<Kinds>(line, kind, known, &event) || ...);
  return event;
}

}  // namespace

std::string print_event(double t_s, const Event& event) {
  return std::visit(
      [&](const auto& one) {
        Out line = {{"t", std::round(t_s * 1e3) / 1e3}, {"event", name(Of<std::decay_t<decltype(one)>>{})}};
        append_fields(line, one);
        return line.dump(-1, ' ', false, Out::error_handler_t::replace);
      },
      event);
}

nlohmann::ordered_json print_blocks(const BlockTally& blocks) { return print_fields(blocks); }

std::optional<EventLine> parse_event(std::string_view text, const AgentStatus& known) {
  const In line = In::parse(text, nullptr, false);
  if (!line.is_object()) return std::nullopt;
  double t_s = std::nan("");
  std::string kind;
  if (const auto at = line.find("t"); at != line.end()) read_value(*at, t_s);
  if (const auto at = line.find("event"); at != line.end()) read_value(*at, kind);
  if (kind.empty() || !std::isfinite(t_s)) return std::nullopt;
  return EventLine{t_s, read_any(line, kind, known, static_cast<const Event*>(nullptr))};
}

}  // namespace starling
