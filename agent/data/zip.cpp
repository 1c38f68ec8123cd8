// A zip archive ends with a directory of its members, and the end of that says where it begins. Above 4 GiB the numbers
// stand in additional fields. Each number is compared with the file's size before it is used.
#include "agent/data/zip.h"

#include <algorithm>
#include <cstring>

#include "agent/data/file.h"

namespace starling {
namespace {

constexpr uint64_t kEndBytes = 22, kEnd64Bytes = 56, kPlaceBytes = 20, kEntryBytes = 46, kHeaderBytes = 30;
constexpr uint64_t kCommentMax = 65535, kDirectoryMax = 1 << 20;
constexpr uint32_t kElsewhere = 0xffffffff;  // the number stands in the field of 64 bits

class ZipFile {
 public:
  explicit ZipFile(const std::string& path) : path_(path), file_(open_data_file(path, &bytes_)) {}

  [[noreturn]] void refuse(const std::string& what) const { refuse_file(path_, what, "save or fetch the file again"); }

  std::string read(uint64_t at, uint64_t count) {
    if (at > bytes_ || count > bytes_ - at) refuse("no zip archive, or cut short");
    std::string text(count, '\0');
    if (!file_.seekg(static_cast<std::streamoff>(at)).read(text.data(), static_cast<std::streamsize>(count))) {
      refuse("reading failed");
    }
    return text;
  }

  std::string directory() {
    const uint64_t tail_bytes = std::min(bytes_, kEndBytes + kCommentMax);
    const std::string tail = read(bytes_ - tail_bytes, tail_bytes);
    const size_t end = tail.rfind("PK\5\6");
    if (end == std::string::npos || tail.size() - end < kEndBytes) refuse("no zip archive, or cut short");
    uint64_t size = number(tail, end + 12, 4), at = number(tail, end + 16, 4);
    const uint64_t end_at = bytes_ - tail_bytes + end;
    if ((size == kElsewhere || at == kElsewhere) && end_at >= kPlaceBytes) {
      const std::string end64 = read(number(read(end_at - kPlaceBytes, kPlaceBytes), 8, 8), kEnd64Bytes);
      size = number(end64, 40, 8), at = number(end64, 48, 8);
    }
    if (size > kDirectoryMax) refuse("a directory of " + std::to_string(size) + " bytes");
    return read(at, size);
  }

  static uint64_t number(const std::string& text, size_t at, size_t count) {
    uint64_t value = 0;
    for (size_t i = count; i-- > 0;) value = value << 8 | static_cast<uint8_t>(text.at(at + i));
    return value;
  }

  ByteRange member(const std::string& entry, const std::string& name, const std::string& extra) {
    uint64_t packed = number(entry, 20, 4), bytes = number(entry, 24, 4), at = number(entry, 42, 4);
    for (size_t field = 0, size = 0; field + 4 <= extra.size(); field += 4 + size) {
      size = number(extra, field + 2, 2);
      if (number(extra, field, 2) != 1) continue;
      size_t next = field + 4;
      for (uint64_t* value : {&bytes, &packed, &at}) {
        if (*value == kElsewhere && next + 8 <= extra.size()) *value = number(extra, next, 8), next += 8;
      }
    }
    const uint64_t method = number(entry, 10, 2);
    if (number(entry, 8, 2) % 2 == 1) refuse(name + " is encrypted");
    if (method != 0 && method != 8) refuse(name + " is compressed by method " + std::to_string(method));
    const std::string header = read(at, kHeaderBytes);
    at += kHeaderBytes + number(header, 26, 2) + number(header, 28, 2);
    if (header.compare(0, 4, "PK\3\4") != 0 || at > bytes_ || packed > bytes_ - at) refuse(name + " is damaged");
    if (method == 0 ? bytes != packed : bytes > unpacked_max(packed)) {
      refuse(name + " would have " + std::to_string(bytes) + " bytes, from " + std::to_string(packed));
    }
    return {path_, name, method == 0 ? Packing::kNone : Packing::kDeflate, at, packed, 0, bytes};
  }

 private:
  const std::string path_;
  uint64_t bytes_ = 0;
  std::ifstream file_;
};

}  // namespace

std::vector<ByteRange> list_zip(const std::string& path) {
  ZipFile file(path);
  const std::string directory = file.directory();
  std::vector<ByteRange> members;
  for (size_t at = 0; at < directory.size();) {
    const std::string entry = directory.substr(at, kEntryBytes);
    if (entry.size() < kEntryBytes || entry.compare(0, 4, "PK\1\2") != 0) file.refuse("a damaged directory");
    const size_t name = ZipFile::number(entry, 28, 2), extra = ZipFile::number(entry, 30, 2);
    const size_t next = at + kEntryBytes + name + extra + ZipFile::number(entry, 32, 2);
    if (next > directory.size()) file.refuse("a damaged directory");
    members.push_back(
        file.member(entry, directory.substr(at + kEntryBytes, name), directory.substr(at + kEntryBytes + name, extra)));
    at = next;
  }
  return members;
}

}  // namespace starling
