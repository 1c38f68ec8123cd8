#include "agent/run/shared_model.h"

#include <cmath>

#include "gossip/net/hash.h"
#include "kernels/transfer.h"

namespace starling {
namespace {

constexpr uint64_t kRmsEvery = 16;   // snapshots between two looks at the params' norm

}  // namespace

// The round's one step is taken from these params: what changes is the gradient times the learning rate.
void SharedModel::keep_base() {
  const View params = trainer_.params();
  base_.resize(params.count);
  copy_to_host(params, base_.data());
}

View SharedModel::view_of(const Block& block) {
  const View section = block.section == 0 ? trainer_.params() : trainer_.momentum();
  return section.part(block.offset, block.element_count);
}

void SharedModel::apply_block(const std::vector<PairDelta>& deltas, size_t k, View x) {
  terms_.clear();
  for (const PairDelta& delta : deltas) {
    if (!(delta.blocks[k / 8] >> (k % 8) & 1)) continue;
    terms_.push_back({delta.coefficient, delta.own[k].span(), delta.peer[k].span()});
  }
  codec_.apply_all(terms_, x);
}

void SharedModel::apply(const std::vector<PairDelta>& deltas) {
  if (deltas.empty()) return;
  for (size_t k = 0; k < layout_.blocks.size(); ++k) apply_block(deltas, k, view_of(layout_.blocks[k]));
  trainer_.params_changed();
}

bool SharedModel::encode_block(size_t k, View x, const BlockState& state, MutableBytes out) {
  if (base_.empty()) return codec_.encode(x, state, out);
  drift_.resize(x.count);
  const float* base = base_.data() + layout_.blocks[k].offset;
  for (size_t i = 0; i < x.count; ++i) drift_[i] = x.data[i] - base[i];
  return codec_.encode({drift_.data(), x.count, MemorySpace::kHost}, state, out);
}

// Block by block, so that what was just applied is encoded while it is still in the cache.
SharedModel::Encoded SharedModel::apply_and_encode(std::vector<PairDelta>& deltas,
                                                   const std::vector<BlockState>& states, Snapshot* snapshot) {
  Encoded encoded;
  snapshot->blocks.resize(layout_.blocks.size());
  for (size_t k = 0; k < layout_.blocks.size(); ++k) {
    const View x = view_of(layout_.blocks[k]);
    apply_block(deltas, k, x);
    for (PairDelta& delta : deltas) delta.own[k] = delta.peer[k] = {};   // memory for this block's new payload
    const size_t size = codec_.payload_bytes(x.count);
    const std::shared_ptr<std::byte[]> storage(new std::byte[size]);
    encoded.healthy = encode_block(k, x, states[k], {storage.get(), size}) && encoded.healthy;
    snapshot->blocks[k] = {storage, storage.get(), size, xxh3_64({storage.get(), size})};
  }
  if (!deltas.empty()) trainer_.params_changed();
  const View params = trainer_.params();
  if (snapshot->number % kRmsEvery == 1 && params.count > 0) {
    encoded.params_rms = std::sqrt(squared_norm(ConstView(params)) / static_cast<double>(params.count));
  }
  return encoded;
}

}  // namespace starling
