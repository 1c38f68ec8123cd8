#include "gossip/net/zmq_address.h"

#include <cerrno>

namespace starling {

// ZeroMQ takes one address of a name only, and for "localhost" that would be ::1.
std::string zmq_address(const std::string& host, uint32_t port) {
  const std::string name = host == "localhost" ? "127.0.0.1" : host;
  const bool v6 = name.find(':') != std::string::npos;
  return "tcp://" + (v6 ? "[" + name + "]" : name) + ":" + (port ? std::to_string(port) : "*");
}

// Every interface means both families: names of peers may resolve to either.
std::string zmq_listen_address(const Endpoint& listen, uint32_t port) {
  const bool everywhere = listen.host == "0.0.0.0" || listen.host == "::";
  return everywhere ? "tcp://*:" + (port ? std::to_string(port) : "*") : zmq_address(listen.host, port);
}

void throw_listen_failed(const Endpoint& failed, int number, const std::string& cause) {
  std::string remedy = "choose another address with --listen HOST:PORT";
  if (number == EADDRINUSE) {
    remedy =
        "another program, perhaps another agent, holds that port: choose two free ones with --listen "
        "HOST:PORT (it takes PORT and PORT+1)";
  } else if (number == EADDRNOTAVAIL || number == ENODEV) {
    remedy = "this machine has no such address: use one of its own, or 0.0.0.0 for all, with --listen HOST:PORT";
  } else if (number == EACCES) {
    remedy = "ports below 1024 are for root: choose a higher one with --listen HOST:PORT";
  }
  const std::string text = "cannot listen on " + failed.to_string() + ": " + cause + "; " + remedy;
  if (number == EADDRINUSE) throw PortTaken(text);
  throw std::runtime_error(text);
}

}  // namespace starling
