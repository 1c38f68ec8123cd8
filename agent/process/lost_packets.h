// Packets of full size that are lost, as the kernel sees this process's connections.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace starling {

struct StuckPacket {
  uint32_t sent_again = 0;  // times in a row, at least three
  bool heard = false;       // something came from that host since
};

// By the host's number: a full packet that it has not taken. Empty where the kernel does not tell.
std::map<std::string, StuckPacket> stuck_packets();

}  // namespace starling
