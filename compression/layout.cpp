#include "compression/layout.h"

#include <algorithm>
#include <utility>

#include "compression/codec.h"
#include "kernels/check.h"

namespace starling {

Layout Layout::cut(std::vector<Section> sections, size_t block_elements) {
  STARLING_CHECK(block_elements > 0);
  Layout layout;
  for (size_t s = 0; s < sections.size(); ++s) {
    for (size_t offset = 0; offset < sections[s].element_count; offset += block_elements) {
      const size_t count = std::min(block_elements, sections[s].element_count - offset);
      layout.blocks.push_back({static_cast<uint32_t>(s), offset, count});
    }
  }
  layout.sections = std::move(sections);
  return layout;
}

size_t Layout::element_count() const {
  size_t total = 0;
  for (const Section& section : sections) total += section.element_count;
  return total;
}

size_t Layout::payload_bytes_max(const Codec& codec) const {
  size_t total = 0;
  for (const Block& block : blocks) total += codec.payload_bytes_max(block.element_count);
  return total;
}

}  // namespace starling
