#include "agent/data/byte_stream.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "agent/data/file.h"
#include "kernels/check.h"

namespace starling {
namespace {

constexpr size_t kBufferBytes = 1 << 16;
constexpr uint64_t kAlwaysUnpacked = 64 << 20, kRatioMax = 200;

}  // namespace

struct ByteStream::Inflater {
  explicit Inflater(Packing packing) {
    STARLING_CHECK(inflateInit2(&zlib, packing == Packing::kGzip ? 16 + MAX_WBITS : -MAX_WBITS) == Z_OK);
  }
  ~Inflater() { inflateEnd(&zlib); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  z_stream zlib{};
  std::vector<uint8_t> input;
  bool ended = false;
};

std::string ByteRange::name() const { return member.empty() ? path : path + ": " + member; }

uint64_t unpacked_max(uint64_t packed_bytes) {
  uint64_t most = 0;
  if (__builtin_mul_overflow(packed_bytes, kRatioMax, &most)) return UINT64_MAX;
  return std::max(most, kAlwaysUnpacked);
}

ByteRange whole_file(const std::string& path) {
  ByteRange range{.path = path};
  std::ifstream file = open_data_file(path, &range.packed_bytes);
  char magic[2] = {};
  const bool gzip = file.read(magic, 2) && magic[0] == '\x1f' && magic[1] == '\x8b';
  range.packing = gzip ? Packing::kGzip : Packing::kNone;
  range.bytes = gzip ? unpacked_max(range.packed_bytes) : range.packed_bytes;
  return range;
}

ByteStream::ByteStream(const ByteRange& range) : range_(range) {
  uint64_t file_bytes = 0;
  file_ = open_data_file(range.path, &file_bytes);
  file_.seekg(static_cast<std::streamoff>(range.packed_at));
  if (range.packing != Packing::kNone) inflater_ = std::make_unique<Inflater>(range.packing);
}

ByteStream::~ByteStream() = default;

void ByteStream::refuse_short() const {
  refuse_file(range_.name(), "cut short at byte " + std::to_string(position()), "fetch the file again");
}

// The next packed bytes.
size_t ByteStream::load(std::vector<uint8_t>& to) {
  to.resize(static_cast<size_t>(std::min<uint64_t>(kBufferBytes, range_.packed_bytes - loaded_)));
  if (!file_.read(reinterpret_cast<char*>(to.data()), static_cast<std::streamsize>(to.size()))) {
    refuse_file(range_.name(), "reading failed", "check the disk");
  }
  loaded_ += to.size();
  return to.size();
}

// False: the end. The buffer then is empty.
bool ByteStream::fill() {
  buffer_at_ += buffer_.size();
  next_ = 0;
  if (inflater_ == nullptr) return load(buffer_) > 0;
  buffer_.clear();
  return inflate_some();
}

bool ByteStream::inflate_some() {
  z_stream& zlib = inflater_->zlib;
  buffer_.resize(kBufferBytes);
  zlib.next_out = buffer_.data();
  zlib.avail_out = kBufferBytes;
  while (zlib.avail_out == kBufferBytes && !inflater_->ended) {
    if (zlib.avail_in == 0) {
      zlib.avail_in = static_cast<uInt>(load(inflater_->input));
      zlib.next_in = inflater_->input.data();
    }
    const bool had_input = zlib.avail_in > 0;
    const int status = inflate(&zlib, Z_NO_FLUSH);
    if (status == Z_STREAM_END) {  // of one member of a gzip file, which may have several
      const bool more = range_.packing == Packing::kGzip && (zlib.avail_in > 0 || loaded_ < range_.packed_bytes);
      if (more) {
        inflateReset(&zlib);
      } else {
        inflater_->ended = true;
      }
    } else if (status == Z_BUF_ERROR && !had_input) {
      buffer_.clear();
      refuse_short();
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      const std::string why = zlib.msg != nullptr ? zlib.msg : "zlib " + std::to_string(status);
      refuse_file(range_.name(), "damaged where it is compressed (" + why + ")", "fetch the file again");
    }
  }
  buffer_.resize(kBufferBytes - zlib.avail_out);
  if (buffer_at_ + buffer_.size() > unpacked_max(range_.packed_bytes)) {
    refuse_file(range_.name(),
                std::to_string(range_.packed_bytes) + " bytes unpack to more than " +
                    std::to_string(unpacked_max(range_.packed_bytes)) + ", which data hardly do",
                "check where the file is from, or unpack it yourself");
  }
  return !buffer_.empty();
}

size_t ByteStream::read_some(uint8_t* to, size_t count) {
  size_t done = 0;
  while (done < count) {
    if (next_ == buffer_.size() && !fill()) break;
    const size_t now = std::min(count - done, buffer_.size() - next_);
    std::memcpy(to + done, buffer_.data() + next_, now);
    next_ += now;
    done += now;
  }
  return done;
}

void ByteStream::read(uint8_t* to, size_t count) {
  if (read_some(to, count) < count) refuse_short();
}

bool ByteStream::reaches(const ByteRange& range, uint64_t position) const {
  const bool same = range.path == range_.path && range.packed_at == range_.packed_at;
  return same && (inflater_ == nullptr || position >= buffer_at_);
}

void ByteStream::seek(uint64_t position) {
  STARLING_CHECK(reaches(range_, position));
  while (position < buffer_at_ || position > buffer_at_ + buffer_.size()) {
    if (inflater_ == nullptr) {
      if (position > range_.packed_bytes) refuse_short();
      file_.clear();
      file_.seekg(static_cast<std::streamoff>(range_.packed_at + position));
      loaded_ = buffer_at_ = position;
      buffer_.clear();
    } else if (!fill()) {
      refuse_short();
    }
  }
  next_ = static_cast<size_t>(position - buffer_at_);
}

}  // namespace starling
