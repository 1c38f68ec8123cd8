// Identities that tests tell apart by a number.
#pragma once

#include <cstdint>

#include "gossip/net/identity.h"

namespace starling {

inline Identity identity_of(uint8_t number) {
  KeySeed seed{};
  seed[0] = number;
  return Identity(seed);
}

}  // namespace starling
