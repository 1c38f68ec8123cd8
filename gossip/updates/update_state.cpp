#include "gossip/updates/update_state.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "gossip/exchange/bitmap.h"
#include "gossip/net/hash.h"
#include "kernels/cast.h"
#include "kernels/check.h"

namespace starling {
namespace {

size_t block_bytes(size_t value_count, size_t block) {
  const size_t begin = block * kUpdatePartBytes;
  return std::min(kUpdatePartBytes, value_count * sizeof(float) - begin);
}

template <typename T>
void put(std::vector<std::byte>& bytes, const T& value) {
  const auto* begin = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), begin, begin + sizeof value);
}

SliceState header_of(uint32_t slice, const SliceReplica& replica) {
  return {slice, replica.head(), replica.table().rows(), replica.recent(), {}, 0};
}

// Params and momentum as one run of bytes, block by block.
template <typename Take>
void for_each_block(const SliceReplica& replica, const Take& take) {
  const SliceMemory& memory = replica.memory();
  std::vector<std::byte> bytes(memory.params.size_bytes() + memory.momentum.size_bytes());
  const std::span values(reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float));
  replica.math().copy(memory.params, values.first(memory.params.size()));
  replica.math().copy(memory.momentum, values.subspan(memory.params.size()));
  const SharedBytes all = SharedBytes::take(std::move(bytes));
  for (uint32_t i = 0; i < parts_of(all.size); ++i) take(part_of(all, i));
}

}  // namespace

Digest16 state_root(const SliceState& state) {
  std::vector<std::byte> bytes;
  put(bytes, state.slice);
  put(bytes, state.head.length);
  put(bytes, state.head.weight);
  put(bytes, state.head.hash);
  for (const CountedRow& row : state.table) {
    put(bytes, row.peer.bytes);
    put(bytes, row.generation);
    put(bytes, row.newest);
    put(bytes, row.window);
    put(bytes, row.length);
    put(bytes, row.far);
    put(bytes, row.before_far);
    put(bytes, row.before_window);
  }
  for (const RecentEntry& entry : state.recent) {
    put(bytes, entry.hash);
    put(bytes, entry.norm);
    put(bytes, entry.payload_norm);
  }
  for (const Digest16& hash : state.hashes) put(bytes, hash);
  return blake2b_128(bytes);
}

StateCopy copy_state(uint32_t slice, const SliceReplica& replica) {
  StateCopy copy{header_of(slice, replica), {}, {}};
  for_each_block(replica, [&](const SharedBytes& block) {
    copy.header.hashes.push_back(xxh3_128(block.span()));
    copy.blocks.push_back(block);
  });
  copy.root = state_root(copy.header);
  return copy;
}

Digest16 root_of(uint32_t slice, const SliceReplica& replica) { return copy_state(slice, replica).root; }

// ---- the receiver ----

bool StateCollection::fits(const SliceState& header, size_t value_count) {
  return header.hashes.size() == parts_of(value_count * sizeof(float));
}

StateCollection::StateCollection(const SliceState& header, size_t value_count)
    : header_(header), root_(state_root(header)), values_(value_count), blocks_(header.hashes.size(), false) {
  STARLING_CHECK(fits(header, value_count));
}

bool StateCollection::add(const PeerId& from, uint32_t block, const SharedBytes& bytes) {
  if (bytes.size != block_bytes(values_.size(), block)) return false;
  if (xxh3_128(bytes.span()) != header_.hashes[block] || !all_finite_f32(bytes.data, bytes.size / sizeof(float))) {
    return false;
  }
  shown_by_.insert(from);
  if (blocks_[block]) return true;
  std::memcpy(reinterpret_cast<std::byte*>(values_.data()) + block * kUpdatePartBytes, bytes.data, bytes.size);
  blocks_[block] = true;
  ++here_;
  return true;
}

Bitmap StateCollection::missing() const {
  Bitmap bits = make_bitmap(blocks_.size());
  for (size_t i = 0; i < blocks_.size(); ++i) {
    if (!blocks_[i]) set_bit(bits, i);
  }
  return bits;
}

}  // namespace starling
