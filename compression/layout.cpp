#include "compression/layout.h"

#include <algorithm>
#include <utility>

#include "compression/codec.h"
#include "compression/low_rank.h"
#include "kernels/check.h"

namespace starling {

Layout Layout::cut(std::vector<Section> sections, size_t block_elements, size_t rank) {
  STARLING_CHECK(block_elements > 0);
  Layout layout;
  for (size_t s = 0; s < sections.size(); ++s) {
    size_t offset = 0;
    const auto cut_until = [&](size_t end) {
      STARLING_CHECK(offset <= end && end <= sections[s].element_count);
      while (offset < end) {
        const size_t count = std::min(block_elements, end - offset);
        layout.blocks.push_back({static_cast<uint32_t>(s), offset, count});
        offset += count;
      }
    };
    for (const Matrix& matrix : sections[s].matrices) {
      const MatrixSize size{matrix.rows, matrix.columns, rank};
      if (rank == 0 || !LowRank::pays(size)) continue;
      cut_until(matrix.offset);
      layout.blocks.push_back({static_cast<uint32_t>(s), offset, matrix.rows * matrix.columns, size});
      offset += layout.blocks.back().element_count;
    }
    cut_until(sections[s].element_count);
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
