// How the vectors an agent shares are cut into blocks. Sections lie end to end, in the
// order given (params first); a block is a run inside one section: the unit of encoding, sending, losing and mixing.
// Every member derives the same layout from the settings, so block indices need no names on the wire.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace starling {

struct Section {
  std::string name;  // "params", "state", "momentum"
  size_t element_count = 0;
};

struct Block {
  uint32_t section = 0;  // index into Layout::sections
  size_t offset = 0;     // first element, inside the section
  size_t element_count = 0;
};

struct Layout {
  std::vector<Section> sections;
  std::vector<Block> blocks;

  // Cuts each section into blocks of `block_elements` (the last one may be shorter). REQUIRES: block_elements > 0.
  static Layout cut(std::vector<Section> sections, size_t block_elements);

  size_t element_count() const;                              // over all sections
  size_t payload_bytes_max(const class Codec& codec) const;  // over all blocks
};

}  // namespace starling
