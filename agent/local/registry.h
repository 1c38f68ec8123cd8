// The registry process of a local swarm.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "agent/local/command_lines.h"
#include "agent/local/process.h"
#include "gossip/clock.h"

namespace starling {

class LocalRegistry {
 public:
  // All references must outlive the object. `dir` holds its log.
  // `has_tickets`: of the swarm.
  LocalRegistry(const SwarmCommandLines& lines, const std::filesystem::path& dir, bool has_tickets, const Clock& clock,
                SignalGate& gate)
      : lines_(lines), dir_(dir), has_tickets_(has_tickets), clock_(clock), gate_(gate) {}

  // False: interrupted before it listens. Throws std::runtime_error if it does not start, with the end of its log.
  bool start();
  void stop() { process_.reset(); }
  std::string bootstrap() const;  // as of --bootstrap; shows no ticket

 private:
  enum class Listening { kYes, kNo, kInterrupted };
  Listening await();
  void write_ticket() const;

  const SwarmCommandLines& lines_;
  const std::filesystem::path dir_;
  const bool has_tickets_;
  const Clock& clock_;
  SignalGate& gate_;
  std::unique_ptr<ChildProcess> process_;
  uint16_t port_ = 0;
};

}  // namespace starling
