#include "agent/local/ports.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <stdexcept>

namespace starling {
namespace {

int loopback_socket() { return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); }

sockaddr_in loopback_address(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

bool can_bind(uint16_t port) {
  const int fd = loopback_socket();
  if (fd < 0) return false;
  const sockaddr_in address = loopback_address(port);
  const bool free = bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  close(fd);
  return free;
}

}  // namespace

uint16_t find_free_port_pair(uint32_t attempt) {
  constexpr uint32_t kFirst = 17000, kPairs = 6000;
  const uint32_t start = static_cast<uint32_t>(getpid()) * 7 + attempt * 1000;
  for (uint32_t i = 0; i < kPairs; ++i) {
    const auto port = static_cast<uint16_t>(kFirst + 2 * ((start + i) % kPairs));
    if (can_bind(port) && can_bind(static_cast<uint16_t>(port + 1))) return port;
  }
  throw std::runtime_error(
      "no two adjacent free ports on 127.0.0.1 between 17000 and 29000; end what holds them "
      "(ss -ltn lists it)");
}

bool accepts_connections(uint16_t port) {
  const int fd = loopback_socket();
  if (fd < 0) return false;
  const sockaddr_in address = loopback_address(port);
  const bool accepted = connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  close(fd);
  return accepted;
}

}  // namespace starling
