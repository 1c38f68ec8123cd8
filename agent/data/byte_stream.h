// Bytes of a file in their order: as they lie there, or unpacked by zlib. The files are foreign: what unpacks to far
// more than data do is refused while it unpacks.
#pragma once

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

namespace starling {

enum class Packing { kNone, kGzip, kDeflate };

// Where bytes lie: a file, or a member of an archive.
struct ByteRange {
  std::string path;
  std::string member;  // of an archive, for messages; empty: the file itself
  Packing packing = Packing::kNone;
  uint64_t packed_at = 0, packed_bytes = 0;  // in the file
  uint64_t begin = 0;                        // first byte, among those that the packed ones unpack to
  uint64_t bytes = 0;                        // unpacked; of a gzipped file the most that it may hold

  std::string name() const;  // "PATH" or "PATH: MEMBER"
};

// The most that packed bytes may unpack to: 200 times as many, or 64 MiB.
uint64_t unpacked_max(uint64_t packed_bytes);

// gzip is known by the first bytes. Throws as open_data_file().
ByteRange whole_file(const std::string& path);

// All errors are std::runtime_errors that name the file: cut short, damaged, unpacks to too much.
class ByteStream {
 public:
  explicit ByteStream(const ByteRange& range);
  ~ByteStream();

  size_t read_some(uint8_t* to, size_t count);  // fewer than `count`: the end
  void read(uint8_t* to, size_t count);
  void seek(uint64_t position);  // REQUIRES: reaches(the range, position)

  // Unpacked bytes before the next one; range.begin is such a number.
  uint64_t position() const { return buffer_at_ + next_; }
  // Whether seek(position) gets there, in this file and this member of a zip archive.
  bool reaches(const ByteRange& range, uint64_t position) const;

 private:
  struct Inflater;

  bool fill();
  size_t load(std::vector<uint8_t>& to);
  bool inflate_some();
  [[noreturn]] void refuse_short() const;

  ByteRange range_;
  std::ifstream file_;
  uint64_t loaded_ = 0;     // packed bytes that were read
  uint64_t buffer_at_ = 0;  // position of the buffer's first byte
  size_t next_ = 0;         // in the buffer
  std::vector<uint8_t> buffer_;
  std::unique_ptr<Inflater> inflater_;  // none: nothing is packed
};

}  // namespace starling
