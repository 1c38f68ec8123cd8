#include "agent/share/shared_model.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "gossip/net/hash.h"
#include "kernels/transfer.h"

namespace starling {
namespace {

Layout layout_of(const std::vector<TrainerSection>& sections, size_t block_elements) {
  std::vector<Section> lengths;
  for (const TrainerSection& section : sections) lengths.push_back({section.name, section.view.count});
  return Layout::cut(std::move(lengths), block_elements);
}

// Of a checkpoint with a rule; what the encoder saves has a 1 in its second byte.
constexpr std::array kRuleMark = {std::byte{0x81}, std::byte{2}, std::byte{0}, std::byte{0}};
constexpr size_t kRuleHeadBytes = kRuleMark.size() + sizeof(uint32_t);

struct Saved { std::span<const std::byte> of_encoder, of_rule; };

// nullopt: it is damaged.
std::optional<Saved> split(std::span<const std::byte> saved) {
  if (saved.size() < kRuleMark.size() || std::memcmp(saved.data(), kRuleMark.data(), kRuleMark.size()) != 0) {
    return Saved{saved, {}};
  }
  uint32_t size = 0;
  if (saved.size() < kRuleHeadBytes) return std::nullopt;
  std::memcpy(&size, saved.data() + kRuleMark.size(), sizeof size);
  const auto rest = saved.subspan(kRuleHeadBytes);
  if (size > rest.size()) return std::nullopt;
  return Saved{rest.first(size), rest.subspan(size)};
}

}  // namespace

std::vector<TrainerSection> shared_sections(Trainer& trainer, bool carry_momentum) {
  std::vector<TrainerSection> shared;
  for (const TrainerSection& section : trainer.sections()) {
    switch (section.kind) {
      case SectionKind::kMixed:
      case SectionKind::kAveraged: shared.push_back(section); break;
      case SectionKind::kLocal:
        if (carry_momentum && section.name == "momentum") shared.push_back(section);
        break;
      case SectionKind::kFrozen: break;
    }
  }
  return shared;
}

SharedModel::SharedModel(Trainer& trainer, std::vector<TrainerSection> sections, std::unique_ptr<Codec> codec,
                         size_t block_elements, std::unique_ptr<Source> source, std::unique_ptr<LocalRule> rule)
    : trainer_(trainer),
      sections_(std::move(sections)),
      encoder_(std::move(codec), layout_of(sections_, block_elements)),
      source_(std::move(source)),
      rule_(std::move(rule)) {}

void SharedModel::round_began() {
  source_->round_began(views());
  if (rule_) rule_->round_began(sections_[0].view);
}

std::vector<ConstView> SharedModel::views() const {
  std::vector<ConstView> views;
  for (const TrainerSection& section : sections_) views.push_back(section.view);
  return views;
}

View SharedModel::view_of(const Block& block) {
  return sections_[block.section].view.part(block.offset, block.element_count);
}

void SharedModel::learn(const std::vector<BlockLesson>& lessons) {
  for (const BlockLesson& lesson : lessons) encoder_.learn(lesson.block, lesson.verdict());
}

void SharedModel::apply_block(const std::vector<Delta>& deltas, size_t k, View x) {
  terms_.clear();
  for (const Delta& delta : deltas) {
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
  if (rule_) rule_->after_mix(sections_[0].view);
  trainer_.params_changed();
}

ConstView SharedModel::what_is_shared(const Block& block, View x) {
  if (sections_[block.section].kind != SectionKind::kMixed) return x;
  return source_->shared(block.section, block.offset, x);
}

// With a rule, applying and encoding are two passes, because the rule sees the whole model in between.
void SharedModel::follow_rule(Decided& decided) {
  apply(decided);
  decided = {};
  rule_->before_share(sections_[0].view);
  trainer_.params_changed();
}

// Block by block, so that a block is encoded while its values are still in the cache.
SharedModel::Encoded SharedModel::apply_and_encode(Decided& decided, Snapshot* snapshot, bool measure) {
  if (rule_) follow_rule(decided);
  learn(decided.lessons);
  decided.lessons.clear();
  Encoded encoded;
  const std::vector<Block>& blocks = encoder_.layout().blocks;
  snapshot->blocks.resize(blocks.size());
  encoder_.begin_snapshot(views());
  for (size_t k = 0; k < blocks.size(); ++k) {
    const View x = view_of(blocks[k]);
    apply_block(decided.deltas, k, x);
    for (Delta& delta : decided.deltas) delta.own[k] = delta.peer[k] = {};  // room for this block's new payload
    const size_t size_max = encoder_.payload_bytes_max(k);
    const std::shared_ptr<std::byte[]> storage(new std::byte[size_max]);
    const std::optional<size_t> size = encoder_.encode(k, what_is_shared(blocks[k], x), {storage.get(), size_max});
    encoded.healthy = encoded.healthy && size;
    const std::span<const std::byte> payload(storage.get(), size.value_or(0));
    snapshot->blocks[k] = {storage, payload.data(), payload.size(), xxh3_64(payload)};
  }
  if (!decided.deltas.empty()) trainer_.params_changed();
  const View params = sections_[0].view;
  if (measure && encoded.healthy && params.count > 0) {
    encoded.params_rms = std::sqrt(squared_norm(ConstView(params)) / static_cast<double>(params.count));
    encoded.projection = project(params);
  }
  return encoded;
}

std::vector<std::byte> SharedModel::save() const {
  std::vector<std::byte> of_encoder = encoder_.save();
  if (!rule_) return of_encoder;
  std::vector<std::byte> saved(kRuleMark.begin(), kRuleMark.end());
  const auto size = std::bit_cast<std::array<std::byte, sizeof(uint32_t)>>(static_cast<uint32_t>(of_encoder.size()));
  saved.insert(saved.end(), size.begin(), size.end());
  saved.insert(saved.end(), of_encoder.begin(), of_encoder.end());
  const std::vector<std::byte> of_rule = rule_->save();
  saved.insert(saved.end(), of_rule.begin(), of_rule.end());
  return saved;
}

bool SharedModel::load(std::span<const std::byte> saved) {
  const std::optional<Saved> parts = split(saved);
  if (!parts) return false;
  const bool encoder_fits = encoder_.load(parts->of_encoder);
  return load_rule(saved) && encoder_fits;
}

bool SharedModel::load_rule(std::span<const std::byte> saved) {
  const std::optional<Saved> parts = split(saved);
  if (!parts) return false;
  return !rule_ || parts->of_rule.empty() || rule_->load(parts->of_rule);
}

}  // namespace starling
