#include "agent/run/shared_model.h"

#include <cmath>
#include <utility>

#include "gossip/net/hash.h"
#include "kernels/transfer.h"

namespace starling {
namespace {

constexpr uint64_t kRmsEvery = 16;   // snapshots between two looks at the params' norm

Layout layout_of(const std::vector<SharedSection>& sections, size_t block_elements) {
  std::vector<Section> lengths;
  for (const SharedSection& section : sections) lengths.push_back({section.name, section.view.count});
  return Layout::cut(std::move(lengths), block_elements);
}

}  // namespace

SharedModel::SharedModel(Trainer& trainer, std::vector<SharedSection> sections, std::unique_ptr<Codec> codec,
                         size_t block_elements)
    : trainer_(trainer), sections_(std::move(sections)),
      encoder_(std::move(codec), layout_of(sections_, block_elements)) {}

// The round's one step is taken from these params: what changes is the gradient times the learning rate.
void SharedModel::keep_base() {
  const View& params = sections_[0].view;
  base_.resize(params.count);
  copy_to_host(params, base_.data());
}

View SharedModel::view_of(const Block& block) {
  return sections_[block.section].view.part(block.offset, block.element_count);
}

void SharedModel::learn(const std::vector<BlockLesson>& lessons) {
  for (const BlockLesson& lesson : lessons) encoder_.learn(lesson.block, lesson.verdict());
}

void SharedModel::apply_block(const std::vector<PairDelta>& deltas, size_t k, View x) {
  terms_.clear();
  for (const PairDelta& delta : deltas) {
    if (!(delta.blocks[k / 8] >> (k % 8) & 1)) continue;
    terms_.push_back({delta.coefficient, delta.own[k].span(), delta.peer[k].span()});
  }
  encoder_.codec().apply_all(terms_, x);
}

void SharedModel::apply(const Decided& decided) {
  learn(decided.lessons);
  if (decided.deltas.empty()) return;
  const std::vector<Block>& blocks = encoder_.layout().blocks;
  for (size_t k = 0; k < blocks.size(); ++k) apply_block(decided.deltas, k, view_of(blocks[k]));
  trainer_.params_changed();
}

ConstView SharedModel::what_is_shared(size_t k, View x) {
  if (base_.empty()) return x;
  drift_.resize(x.count);
  const float* base = base_.data() + encoder_.layout().blocks[k].offset;
  for (size_t i = 0; i < x.count; ++i) drift_[i] = x.data[i] - base[i];
  return {drift_.data(), x.count, MemorySpace::kHost};
}

// Block by block, so that what was just applied is encoded while it is still in the cache.
SharedModel::Encoded SharedModel::apply_and_encode(Decided& decided, Snapshot* snapshot) {
  learn(decided.lessons);
  decided.lessons.clear();
  Encoded encoded;
  const std::vector<Block>& blocks = encoder_.layout().blocks;
  snapshot->blocks.resize(blocks.size());
  std::vector<ConstView> views;
  for (const SharedSection& section : sections_) views.push_back(section.view);
  encoder_.begin_snapshot(std::move(views));
  for (size_t k = 0; k < blocks.size(); ++k) {
    const View x = view_of(blocks[k]);
    apply_block(decided.deltas, k, x);
    for (PairDelta& delta : decided.deltas) delta.own[k] = delta.peer[k] = {};   // memory for this block's new payload
    const size_t size_max = encoder_.payload_bytes_max(k);
    const std::shared_ptr<std::byte[]> storage(new std::byte[size_max]);
    const std::optional<size_t> size = encoder_.encode(k, what_is_shared(k, x), {storage.get(), size_max});
    encoded.healthy = encoded.healthy && size;
    const std::span<const std::byte> payload(storage.get(), size.value_or(0));
    snapshot->blocks[k] = {storage, payload.data(), payload.size(), xxh3_64(payload)};
  }
  if (!decided.deltas.empty()) trainer_.params_changed();
  const View params = sections_[0].view;
  if (snapshot->number % kRmsEvery == 1 && params.count > 0) {
    encoded.params_rms = std::sqrt(squared_norm(ConstView(params)) / static_cast<double>(params.count));
  }
  return encoded;
}

}  // namespace starling
