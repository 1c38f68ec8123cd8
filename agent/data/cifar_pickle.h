// The pickles of CIFAR-10's Python version, read without running anything.
#pragma once

#include <cstdint>
#include <vector>

#include "agent/data/source.h"

namespace starling {

// Walks over the opcodes of a batch: the numbers behind the word `labels` are the labels, the long text behind `data`
// is the pixels. Nothing is called or built. Throws std::runtime_error: another opcode, or no such batch.
Records open_cifar_pickle(const ByteRange& where, uint64_t records_max, std::vector<uint8_t>& labels);

}  // namespace starling
