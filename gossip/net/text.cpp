#include "gossip/net/text.h"

#include <cstddef>
#include <cstdint>
#include <ctime>

namespace starling {
namespace {

constexpr uint32_t kBroken = 0xffffffff;

// Reads one code point at `at` and moves past it. Overlong forms, surrogates and values beyond Unicode are broken.
uint32_t next_code_point(std::string_view text, size_t& at) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(at++);
  if (lead < 0x80) return lead;
  const int rest_count = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
  if (lead < 0xc2 || lead > 0xf4 || text.size() - at < static_cast<size_t>(rest_count)) return kBroken;
  uint32_t code_point = lead & (0x3f >> rest_count);
  for (int i = 0; i < rest_count; ++i) {
    const uint8_t next = byte(at++);
    if ((next & 0xc0) != 0x80) return kBroken;
    code_point = code_point << 6 | (next & 0x3f);
  }
  constexpr uint32_t kSmallest[] = {0, 0x80, 0x800, 0x10000};
  const bool surrogate = code_point >= 0xd800 && code_point <= 0xdfff;
  if (code_point < kSmallest[rest_count] || surrogate || code_point > 0x10ffff) return kBroken;
  return code_point;
}

bool is_control(uint32_t c) {
  const bool turns_direction = (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
  const bool separates_lines = c == 0x2028 || c == 0x2029;
  return c < 0x20 || (c >= 0x7f && c <= 0x9f) || turns_direction || separates_lines;
}

bool is_safe(std::string_view text, bool lines) {
  for (size_t at = 0; at < text.size();) {
    const uint32_t c = next_code_point(text, at);
    if (c == kBroken) return false;
    if (lines && (c == '\n' || c == '\t')) continue;
    if (is_control(c)) return false;
  }
  return true;
}

}  // namespace

bool is_one_line(std::string_view text) { return is_safe(text, false); }
bool is_plain_text(std::string_view text) { return is_safe(text, true); }

std::string plain_prefix(std::string_view text, size_t bytes_max) {
  size_t end = text.size() < bytes_max ? text.size() : bytes_max;
  while (end > 0 && end < text.size() && (static_cast<uint8_t>(text[end]) & 0xc0) == 0x80) --end;
  return std::string(text.substr(0, end));
}

std::string clock_text(uint64_t ms) {
  constexpr uint64_t kEnd = 253'402'300'800'000;  // of the year 9999
  if (ms >= kEnd) return "after the year 9999";
  const auto seconds = static_cast<std::time_t>(ms / 1000);
  std::tm time{};
  gmtime_r(&seconds, &time);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &time)};
}

}  // namespace starling
