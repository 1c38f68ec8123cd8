#include "gossip/net/transport.h"

#include <utility>

namespace starling {

SharedBytes SharedBytes::copy_of(std::span<const std::byte> bytes) {
  return take(std::vector<std::byte>(bytes.begin(), bytes.end()));
}

SharedBytes SharedBytes::take(std::vector<std::byte> bytes) {
  const auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return {owner, owner->data(), owner->size()};
}

}  // namespace starling
