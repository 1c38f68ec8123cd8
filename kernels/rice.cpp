#include "kernels/rice.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/check.h"

namespace starling {
namespace {

// Bits in order, eight bytes at a time.
class BitWriter {
 public:
  explicit BitWriter(std::byte* out) : begin_(out), out_(out) {}

  // REQUIRES: length <= 32, value < 2^length.
  void put(uint64_t value, unsigned length) {
    word_ |= value << filled_;
    filled_ += length;
    while (filled_ >= 8) drop_byte();
  }
  void put_unary(uint64_t zeros) {
    for (; zeros >= 32; zeros -= 32) put(0, 32);
    put(uint64_t{1} << zeros, static_cast<unsigned>(zeros) + 1);
  }
  // Fills the last byte with zeros. The value is how many bytes were written.
  size_t finish() {
    if (filled_ > 0) drop_byte();
    return static_cast<size_t>(out_ - begin_);
  }

 private:
  void drop_byte() {
    *out_++ = static_cast<std::byte>(word_);
    word_ >>= 8;
    filled_ = filled_ < 8 ? 0 : filled_ - 8;
  }
  std::byte* const begin_;
  std::byte* out_;
  uint64_t word_ = 0;
  unsigned filled_ = 0;
};

// Eight bytes from there on, zeros beyond the end.
uint64_t load_word(const std::byte* bytes, size_t size, size_t at) {
  uint64_t word = 0;
  if (at + sizeof word <= size) {
    std::memcpy(&word, bytes + at, sizeof word);
  } else if (at < size) {
    std::memcpy(&word, bytes + at, size - at);
  }
  return word;
}

}  // namespace

unsigned rice_bits(size_t count, size_t limit) {
  if (count == 0) return 0;
  // From a mean gap of 2^bits / (2 log(golden ratio)) on, so many bits cost less than one fewer (Kiely 2004, "Selecting
  // the Golomb Parameter in Rice Coding").
  const double mean = static_cast<double>(limit) / static_cast<double>(count);
  const auto whole = static_cast<uint64_t>(0.9624 * mean);
  return whole < 2 ? 0 : std::min(31u, static_cast<unsigned>(std::bit_width(whole)) - 1);
}

size_t rice_low_bytes(size_t count, unsigned bits) { return (count * bits + 7) / 8; }

size_t rice_bytes_max(size_t count, size_t limit, unsigned bits) {
  if (count == 0) return 0;
  return rice_low_bytes(count, bits) + (count + (limit >> bits) + 7) / 8;
}

size_t rice_encode(const uint32_t* indices, size_t count, unsigned bits, std::byte* out) {
  const uint64_t mask = (uint64_t{1} << bits) - 1;
  BitWriter low(out), unary(out + rice_low_bytes(count, bits));
  uint64_t next = 0;  // the smallest index that may come
  for (size_t j = 0; j < count; ++j) {
    const uint64_t gap = indices[j] - next;
    low.put(gap & mask, bits);
    unary.put_unary(gap >> bits);
    next = uint64_t{indices[j]} + 1;
  }
  STARLING_CHECK(low.finish() == rice_low_bytes(count, bits));
  return unary.finish();
}

// The ones of the unary stream stand at p(0), p(1), ...: before index j lie p(j) - j zeros, so index j is
// ((p(j) - j) << bits) + the sum of the low bits up to j + j. It ascends whatever the bytes are, so only the last is
// judged.
bool rice_decode(const std::byte* bytes, size_t unary_bytes, size_t count, unsigned bits, size_t limit,
                 uint32_t* indices) {
  const size_t low_bytes = rice_low_bytes(count, bits);
  const std::byte* const unary = bytes + low_bytes;
  if (count == 0) return unary_bytes == 0;
  if (unary_bytes == 0 || unary[unary_bytes - 1] == std::byte{0}) return false;
  const uint64_t mask = (uint64_t{1} << bits) - 1;
  uint64_t low = 0, index = 0;
  size_t j = 0, bit = 0;  // of the low bits
  const auto take = [&](size_t position, uint64_t word) {
    low += word & mask;
    index = (uint64_t{position - j} << bits) + low + j;
    indices[j] = static_cast<uint32_t>(index);
    ++j;
    bit += bits;
  };
  for (size_t at = 0; at < unary_bytes; at += 8) {
    uint64_t ones = load_word(unary, unary_bytes, at);
    const auto here = static_cast<size_t>(std::popcount(ones));
    if (here > count - j) return false;
    // A word of low bits holds 57 at least from any bit on; past the stream's end every load is shortened.
    const bool whole = ((bit + here * bits) >> 3) + 8 <= low_bytes;
    for (; ones != 0; ones &= ones - 1) {
      const size_t position = at * 8 + static_cast<size_t>(std::countr_zero(ones));
      uint64_t word;
      if (whole) {
        std::memcpy(&word, bytes + (bit >> 3), sizeof word);
      } else {
        word = load_word(bytes, low_bytes, bit >> 3);
      }
      take(position, word >> (bit & 7));
    }
  }
  if (j != count || index >= limit) return false;
  return (bit & 7) == 0 || std::to_integer<unsigned>(bytes[low_bytes - 1]) >> (bit & 7) == 0;
}

}  // namespace starling
