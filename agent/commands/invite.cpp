#include "agent/commands/invite.h"

#include <unistd.h>

#include <spdlog/spdlog.h>

#include "agent/observe/terminal_line.h"
#include "agent/process/trust.h"

namespace starling {

void say_join_line(const std::string& others, const StatePlace& place, const Endpoint& at, const std::string& flags) {
  const auto line = [&flags](const std::string& to) {
    return "starling agent --bootstrap " + to + " --data FOLDER" + flags;
  };
  if (const std::string how = how_others_are_admitted(place); !how.empty()) return spdlog::info("{}", how);
  const std::string ticket = place.ticket(at);
  if (ticket.empty()) return spdlog::info("{}: {}", others, line(at.to_string()));
  const bool shown = isatty(STDERR_FILENO) != 0;
  if (shown) print_to_stderr(others + ": " + line(ticket) + "\n");
  spdlog::info("{} the ticket in {}/ticket, by which they can invite others too{}", others, place.folder(),
               shown ? "" : ": " + line("HOST:PORT#TICKET"));
}

}  // namespace starling
