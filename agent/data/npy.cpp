// {"\x93NUMPY", version, length of the header}, a header in the syntax of Python, the elements. Pickled objects are
// refused, as reading them runs code.
#include "agent/data/npy.h"

#include <algorithm>

#include "agent/data/file.h"

namespace starling {
namespace {

constexpr size_t kHeaderMax = 4096, kDimensionsMax = 4;
constexpr uint64_t kSizeMax = uint64_t{1} << 32;  // of a dimension; samples are numbered in 32 bits

// What a key of the header has between `begin` and `end`; empty: there is no such key.
std::string value_of(const std::string& header, const std::string& key, char begin, char end) {
  const size_t at = header.find("'" + key + "':");
  const size_t from = at == std::string::npos ? at : header.find(begin, at + key.size() + 3);
  const size_t to = from == std::string::npos ? from : header.find(end, from + 1);
  return to == std::string::npos ? "" : header.substr(from + 1, to - from - 1);
}

std::string read_header(const ByteRange& where, uint64_t* first) {
  ByteStream stream(where);
  uint8_t front[12] = {};
  if (stream.read_some(front, 10) < 10 || std::string(front, front + 6) != "\x93NUMPY") {
    refuse_file(where.name(), "no NumPy array", "save the file again with numpy.savez");
  }
  if (front[6] > 1) stream.read(front + 10, 2);
  const size_t bytes = front[8] | front[9] << 8 | size_t{front[10]} << 16 | size_t{front[11]} << 24;
  if (bytes > kHeaderMax) refuse_file(where.name(), "a header of " + std::to_string(bytes) + " bytes", "save it again");
  std::string header(bytes, ' ');
  stream.read(reinterpret_cast<uint8_t*>(header.data()), bytes);
  *first = stream.position();
  return header;
}

std::vector<uint64_t> sizes_in(const std::string& shape, const std::string& name) {
  std::vector<uint64_t> sizes;
  for (size_t at = 0; (at = shape.find_first_of("0123456789", at)) != std::string::npos;) {
    const size_t end = std::min(shape.find_first_not_of("0123456789", at), shape.size());
    const uint64_t size = end - at > 10 ? kSizeMax : std::stoull(shape.substr(at, end - at));
    if (size >= kSizeMax || sizes.size() == kDimensionsMax) {
      refuse_file(name, "shape (" + shape + ")", "save an array of (count, height, width)");
    }
    sizes.push_back(size);
    at = end;
  }
  return sizes;
}

}  // namespace

NpyArray open_npy(const ByteRange& where) {
  NpyArray array{.where = where};
  const std::string header = read_header(where, &array.first);
  array.type = value_of(header, "descr", '\'', '\'');
  if (array.type.find('O') != std::string::npos) {
    refuse_file(where.name(), "holds pickled Python objects, which are never read", "save it as an array of numbers");
  }
  if (array.type.find_first_of("US") != std::string::npos) {
    refuse_file(where.name(), "holds texts", "save numbers: numpy.unique(y, return_inverse=True)[1].astype('uint8')");
  }
  if (header.find("'fortran_order': False") == std::string::npos) {
    refuse_file(where.name(), "is not in C order", "save numpy.ascontiguousarray of it");
  }
  array.shape = sizes_in(value_of(header, "shape", '(', ')'), where.name());
  const size_t digit = std::min(array.type.find_first_of("1248"), array.type.size());
  uint64_t bytes = digit + 1 == array.type.size() ? static_cast<uint64_t>(array.type[digit] - '0') : 0;
  if (bytes == 0) refuse_file(where.name(), "elements of type '" + array.type + "'", "save it as astype('uint8')");
  for (const uint64_t size : array.shape) {
    if (__builtin_mul_overflow(bytes, size, &bytes)) refuse_file(where.name(), "an endless shape", "save it again");
  }
  if (array.first > where.bytes || bytes != where.bytes - array.first) {
    refuse_file(where.name(),
                std::to_string(bytes) + " bytes by its shape, and " +
                    std::to_string(where.bytes - std::min(where.bytes, array.first)) + " are there",
                "save it again");
  }
  return array;
}

}  // namespace starling
