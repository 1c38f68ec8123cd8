// The arrays of NumPy's archives: what their headers say, checked against the bytes that are there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/data/byte_stream.h"

namespace starling {

struct NpyArray {
  ByteRange where;
  uint64_t first = 0;           // of the elements, in bytes from the beginning
  std::string type;             // "|u1", "<i8", "<f4"
  std::vector<uint64_t> shape;  // at most 4 dimensions; the last one is dense
};

// Throws std::runtime_error: no array, pickled objects, Fortran order, or a shape that the bytes do not fill.
NpyArray open_npy(const ByteRange& where);

}  // namespace starling
