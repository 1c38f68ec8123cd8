// A tar archive is a row of blocks of 512 bytes: for each member a header, then its bytes, filled up with zeros.
#include "agent/data/tar.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>

#include "agent/data/file.h"

namespace starling {
namespace {

constexpr size_t kBlock = 512;
constexpr size_t kMembersMax = 100'000;

struct Header {
  char name[100], mode[8], owner[8], group[8], size[12], time[12], checksum[8], type, link[100], magic[6], version[2],
      owner_name[32], group_name[32], device[16], prefix[155], rest[12];
};
static_assert(sizeof(Header) == kBlock);

template <size_t kSize>
std::string text_of(const char (&field)[kSize]) {
  return {field, strnlen(field, kSize)};
}

// Digits to the base 8 between blanks and zeros, as all but files above 8 GiB have them.
template <size_t kSize>
std::optional<uint64_t> number_of(const char (&field)[kSize]) {
  const std::string text = text_of(field);
  const size_t first = std::min(text.find_first_not_of(' '), text.size());
  const size_t last = std::min(text.find_first_not_of("01234567", first), text.size());
  if (first == last || text.find_first_not_of(' ', last) != std::string::npos) return std::nullopt;
  return std::stoull(text.substr(first, last - first), nullptr, 8);
}

bool checksum_is_right(const Header& header) {
  Header blank = header;
  std::memset(blank.checksum, ' ', sizeof blank.checksum);
  uint64_t sum = 0;
  for (const char c : std::string(reinterpret_cast<const char*>(&blank), kBlock)) sum += static_cast<uint8_t>(c);
  return number_of(header.checksum) == sum;
}

bool leads_out(const std::string& name) {
  const std::filesystem::path path(name);
  return path.is_absolute() || std::find(path.begin(), path.end(), "..") != path.end();
}

}  // namespace

std::vector<ByteRange> list_tar(const std::string& path) {
  const ByteRange whole = whole_file(path);
  ByteStream stream(whole);
  std::vector<ByteRange> members;
  Header header;
  for (size_t count = 0;; ++count) {
    const size_t got = stream.read_some(reinterpret_cast<uint8_t*>(&header), kBlock);
    if (got == 0 || (got == kBlock && header.name[0] == 0)) break;  // a block of zeros ends it
    const std::string at = "at byte " + std::to_string(stream.position() - got);
    const std::optional<uint64_t> size = got == kBlock ? number_of(header.size) : std::nullopt;
    if (!size || !checksum_is_right(header)) {
      refuse_file(path, count == 0 ? "no tar archive" : "damaged " + at, "fetch the file again");
    }
    const bool has_prefix = std::memcmp(header.magic, "ustar", 6) == 0 && header.prefix[0] != 0;
    const std::string name = (has_prefix ? text_of(header.prefix) + "/" : "") + text_of(header.name);
    if (leads_out(name)) {
      refuse_file(path, "its member " + name + " leads out of the folder",
                  "take an archive from a place that you trust");
    }
    const uint64_t begin = stream.position();
    if (*size > whole.bytes - std::min(whole.bytes, begin)) {
      refuse_file(path, "cut short: its member " + name + " has " + std::to_string(*size) + " bytes",
                  "fetch the file again");
    }
    if (count == kMembersMax) refuse_file(path, "more than 100000 members", "unpack it, and name the folder");
    if (header.type == '0' || header.type == 0) {
      members.push_back(whole);
      members.back().member = name;
      members.back().begin = begin;
      members.back().bytes = *size;
    }
    stream.seek(begin + (*size + kBlock - 1) / kBlock * kBlock);
  }
  return members;
}

}  // namespace starling
