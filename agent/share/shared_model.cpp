#include "agent/share/shared_model.h"

#include <algorithm>
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
    const size_t count = section.view.count, params = std::min(section.state_from, count);
    switch (section.kind) {
      case SectionKind::kMixed:
        shared.push_back({section.name, section.kind, section.view.part(0, params)});
        if (params < count) {
          shared.push_back({"state", SectionKind::kAveraged, section.view.part(params, count - params)});
        }
        break;
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

std::vector<CodecTerm> SharedModel::terms_of(const std::vector<Delta>& deltas, size_t k) {
  std::vector<CodecTerm> terms;
  for (const Delta& delta : deltas) {
    if (!(delta.blocks[k / 8] >> (k % 8) & 1)) continue;
    terms.push_back({delta.coefficient, delta.own[k].span(), delta.peer[k].span()});
  }
  return terms;
}

void SharedModel::apply(const Decided& decided) {
  learn(decided.lessons);
  if (decided.deltas.empty()) return;
  const std::vector<Block>& blocks = encoder_.layout().blocks;
  for (size_t k = 0; k < blocks.size(); ++k) {
    encoder_.codec().apply_all(terms_of(decided.deltas, k), view_of(blocks[k]));
  }
  if (rule_) rule_->after_mix(sections_[0].view);
  trainer_.params_changed();
}

// With a rule, applying and encoding are two passes, because the rule sees the whole model in between.
void SharedModel::follow_rule(Decided& decided) {
  apply(decided);
  decided = {};
  rule_->before_share(sections_[0].view);
  trainer_.params_changed();
}

// On the host block by block, so that a block is encoded while its values are still in the cache.
SharedModel::Encoded SharedModel::apply_and_encode(Decided& decided, Snapshot* snapshot, bool measure) {
  if (rule_) follow_rule(decided);
  learn(decided.lessons);
  decided.lessons.clear();
  Encoded encoded;
  const std::vector<Block>& blocks = encoder_.layout().blocks;
  snapshot->blocks.resize(blocks.size());
  encoder_.begin_snapshot(views());
  for (size_t first = 0, end = 0; first < blocks.size(); first = end) {
    end = end_of_pass(first);
    encoded.healthy &= pass(first, end, decided.deltas, *snapshot);
  }
  if (!decided.deltas.empty()) trainer_.params_changed();
  const View params = sections_[0].view;
  if (measure && encoded.healthy && params.count > 0) {
    encoded.params_rms = std::sqrt(squared_norm(ConstView(params)) / static_cast<double>(params.count));
    encoded.projection = project(params);
  }
  return encoded;
}

size_t SharedModel::end_of_pass(size_t first) const {
  const std::vector<Block>& blocks = encoder_.layout().blocks;
  const size_t most = encoder_.codec().pass_elements();
  size_t end = first + 1, elements = blocks[first].element_count;
  while (end < blocks.size() && elements + blocks[end].element_count <= most) elements += blocks[end++].element_count;
  return end;
}

// False: something is not finite. What the deltas hold of these blocks is freed: room for the payloads of the next.
bool SharedModel::pass(size_t first, size_t end, std::vector<Delta>& deltas, Snapshot& snapshot) {
  std::vector<std::vector<CodecTerm>> terms;
  std::vector<UnsetBytes> rooms;
  std::vector<BlockPass> passes(end - first);
  for (size_t k = first; k < end; ++k) {
    const Block& block = encoder_.layout().blocks[k];
    BlockPass& one = passes[k - first];
    one.x = view_of(block);
    one.terms = terms.emplace_back(terms_of(deltas, k));
    one.out = rooms.emplace_back(encoder_.payload_bytes_max(k)).span();
    if (!source_->follows_rounds() || sections_[block.section].kind != SectionKind::kMixed) continue;
    one.shared = [this, &block](ConstView x) { return source_->shared(block.section, block.offset, x); };
  }
  encoder_.pass(first, passes);
  bool healthy = true;
  for (size_t k = first; k < end; ++k) {
    for (Delta& delta : deltas) delta.own[k] = delta.peer[k] = {};
    const std::optional<size_t> size = passes[k - first].size;
    healthy &= size.has_value();
    snapshot.blocks[k] = rooms[k - first].first(size.value_or(0));
    snapshot.blocks[k].checksum = xxh3_64(snapshot.blocks[k].span());
  }
  return healthy;
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
