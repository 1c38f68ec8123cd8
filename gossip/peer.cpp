#include "gossip/peer.h"

#include <charconv>

#include "gossip/limits.h"

namespace starling {
namespace {

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool is_host_char(char c) {
  const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  return letter || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
}

// Enough to keep anything strange out of a ZeroMQ address; whether it names a machine only the resolver knows.
bool is_name_or_ipv4(std::string_view host) {
  if (host.empty() || host.size() > kHostBytesMax) return false;
  for (char c : host) {
    if (!is_host_char(c)) return false;
  }
  return host.front() != '-';
}

bool is_ipv6(std::string_view host) {
  if (host.size() < 2 || host.size() > kHostBytesMax) return false;
  const size_t zone = host.find('%');  // link-local addresses name their interface: fe80::1%eth0
  const std::string_view address = host.substr(0, zone);
  if (address.find(':') == std::string_view::npos) return false;
  for (char c : address) {
    if (digit_value(c) < 0 && c != ':' && c != '.') return false;
  }
  if (zone == std::string_view::npos) return true;
  return is_name_or_ipv4(host.substr(zone + 1));
}

std::string hex_of(const uint8_t* bytes, size_t byte_count) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * byte_count);
  for (size_t i = 0; i < byte_count; ++i) {
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

}  // namespace

std::string PeerId::hex() const { return hex_of(bytes.data(), bytes.size()); }

std::string PeerId::short_name() const { return hex_of(bytes.data(), 4); }

std::optional<PeerId> PeerId::parse(std::string_view hex) {
  PeerId id;
  if (hex.size() != 2 * id.bytes.size()) return std::nullopt;
  for (size_t i = 0; i < id.bytes.size(); ++i) {
    const int high = digit_value(hex[2 * i]);
    const int low = digit_value(hex[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    id.bytes[i] = static_cast<uint8_t>(high * 16 + low);
  }
  return id;
}

bool Endpoint::is_valid_host(std::string_view host) { return is_name_or_ipv4(host) || is_ipv6(host); }

std::string Endpoint::to_string() const {
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

std::optional<Endpoint> Endpoint::parse(std::string_view text) {
  std::string_view host, port;
  if (text.starts_with('[')) {
    const size_t close = text.find("]:");
    if (close == std::string_view::npos) return std::nullopt;
    host = text.substr(1, close - 1);
    port = text.substr(close + 2);
    if (!is_ipv6(host)) return std::nullopt;
  } else {
    const size_t colon = text.find(':');
    if (colon == std::string_view::npos) return std::nullopt;
    host = text.substr(0, colon);
    port = text.substr(colon + 1);  // a bare IPv6 address fails here: its rest is no number
    if (!is_name_or_ipv4(host)) return std::nullopt;
  }
  if (port.empty() || port.size() > 5) return std::nullopt;
  Endpoint endpoint{std::string(host), 0};
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), endpoint.port);
  if (error != std::errc() || end != port.data() + port.size()) return std::nullopt;
  return endpoint;
}

}  // namespace starling
