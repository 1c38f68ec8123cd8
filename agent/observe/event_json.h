// Events as lines of JSON, and back. Both walk over the table in event_fields.h.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include <nlohmann/json_fwd.hpp>

#include "agent/observe/events.h"

namespace starling {

// "t" is wall-clock seconds since 1970. One line without its end; text that is no UTF-8 is replaced.
std::string print_event(double t_s, const Event& event);

// The object of a status line's "blocks".
nlohmann::ordered_json print_blocks(const BlockTally& blocks);

struct EventLine {
  double t_s = 0;
  std::optional<Event> event;  // nullopt: of a kind that this version does not know
};

// Foreign text. Nullopt: it is no event. Fields that are missing or have another type keep the values of `known` (in a
// status or finish line), its steps (in the others), or are as in a new struct.
std::optional<EventLine> parse_event(std::string_view line, const AgentStatus& known = {});

}  // namespace starling
