#include "compression/layout.h"

#include <gtest/gtest.h>

#include "compression/codec.h"
#include "tests/kernels/inputs.h"

namespace starling {
namespace {

TEST(Layout, CutsEachSectionAndLeavesTheRestInTheLastBlock) {
  const Layout layout = Layout::cut({{"params", 10}, {"momentum", 4}}, 4);
  ASSERT_EQ(layout.blocks.size(), 4u);
  const size_t expected[4][3] = {{0, 0, 4}, {0, 4, 4}, {0, 8, 2}, {1, 0, 4}};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(layout.blocks[i].section, expected[i][0]) << i;
    EXPECT_EQ(layout.blocks[i].offset, expected[i][1]) << i;
    EXPECT_EQ(layout.blocks[i].element_count, expected[i][2]) << i;
  }
  EXPECT_EQ(layout.sections[1].name, "momentum");
}

TEST(Layout, BlocksCoverEverySectionOnceInOrder) {
  TestRng rng(draw_rng_seed());
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<Section> sections(rng() % 4);
    for (Section& section : sections) section.element_count = rng() % 3 == 0 ? 0 : rng() % 1000;
    const size_t block_elements = 1 + rng() % 300;
    const Layout layout = Layout::cut(sections, block_elements);
    std::vector<size_t> covered(sections.size());
    size_t total = 0;
    uint32_t section = 0;
    for (const Block& block : layout.blocks) {
      ASSERT_GE(block.section, section) << "sections lie end to end";
      section = block.section;
      ASSERT_EQ(block.offset, covered[section]);
      ASSERT_GT(block.element_count, 0u);
      ASSERT_LE(block.element_count, block_elements);
      covered[section] += block.element_count;
      total += block.element_count;
    }
    for (size_t s = 0; s < sections.size(); ++s) EXPECT_EQ(covered[s], sections[s].element_count);
    EXPECT_EQ(layout.element_count(), total);
  }
}

TEST(Layout, PayloadBytesAreTheSumOverTheBlocks) {
  const Layout layout = Layout::cut({{"params", 10}, {"momentum", 10}}, 4);
  EXPECT_EQ(layout.payload_bytes_max(*make_codec(CodecKind::kFp32, MemorySpace::kHost)), 80u);
  EXPECT_EQ(layout.payload_bytes_max(*make_codec(CodecKind::kBf16, MemorySpace::kHost)), 40u);
  EXPECT_EQ(layout.payload_bytes_max(*make_codec(CodecKind::kModulo8, MemorySpace::kHost)), 20u + 6 * 8u);
}

TEST(LayoutDeathTest, NoBlockSizeIsABug) { EXPECT_DEATH((void)Layout::cut({{"params", 1}}, 0), "check failed"); }

}  // namespace
}  // namespace starling
