#include "gossip/pairs/fragments.h"

#include <span>

#include "gossip/net/hash.h"
#include "kernels/check.h"

namespace starling {

std::vector<Bitmap> cut_fragments(const Layout& layout, uint32_t count) {
  STARLING_CHECK(count > 0);
  std::vector<size_t> of_section(layout.sections.size());
  for (const Block& block : layout.blocks) ++of_section[block.section];
  std::vector<Bitmap> fragments(count, make_bitmap(layout.blocks.size()));
  std::vector<size_t> seen(layout.sections.size());
  for (size_t i = 0; i < layout.blocks.size(); ++i) {
    const uint32_t section = layout.blocks[i].section;
    set_bit(fragments[seen[section]++ * count / of_section[section]], i);
  }
  return fragments;
}

uint32_t FragmentTurns::next_with(const PeerId& peer) const {
  if (const auto it = next_.find(peer); it != next_.end()) return it->second;
  PeerId both;  // the same at either end
  for (size_t i = 0; i < both.bytes.size(); ++i) both.bytes[i] = self_.bytes[i] ^ peer.bytes[i];
  return static_cast<uint32_t>(xxh3_64(std::as_bytes(std::span(both.bytes))) % count_);
}

void FragmentTurns::mixed(const PeerId& peer, uint32_t fragment) { next_[peer] = (fragment + 1) % count_; }

void FragmentTurns::taken_back(const PeerId& peer, uint32_t fragment) {
  if (next_with(peer) == (fragment + 1) % count_) next_[peer] = fragment;
}

}  // namespace starling
