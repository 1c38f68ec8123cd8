// The sections of the trainer that the agent shares, cut into blocks, and the encoder that turns them into payloads.
// Applies the deltas that exchanges decided. One call at a time, while the trainer is idle. Once the rounds have begun,
// only worker jobs call it, so that only one thread changes the codec's memory.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "agent/share/local_rule.h"
#include "agent/share/model_memory.h"
#include "agent/share/source.h"
#include "agent/train/trainer.h"
#include "compression/encoder.h"
#include "gossip/exchange/exchange.h"
#include "kernels/projection.h"

namespace starling {

// The sections that are shared: mixed and averaged ones, and momentum if it is carried.
std::vector<TrainerSection> shared_sections(Trainer& trainer, bool carry_momentum);

class SharedModel final : public ModelMemory {
 public:
  // The sections are encoded in this order; the first is params. `rule` may be null: none.
  SharedModel(Trainer& trainer, std::vector<TrainerSection> sections, std::unique_ptr<Codec> codec,
              size_t block_elements, std::unique_ptr<Source> source, std::unique_ptr<LocalRule> rule);

  Encoder& encoder() { return encoder_; }
  ConstView params() const { return sections_[0].view; }

  // False: round_began() has nothing to do.
  bool follows_rounds() const { return rule_ || source_->follows_rounds(); }
  void round_began();  // the steps of a round start from what the sections hold now
  ConstView correction() const override { return rule_ ? rule_->correction() : ConstView{}; }  // of these steps

  // Applies the deltas, and lets the encoder learn from the verdicts.
  void apply(const Decided& decided);

  struct Encoded {
    bool healthy = true;                   // false: something is not finite
    double params_rms = -1;                // negative: not measured
    std::optional<Projection> projection;  // of the params; nullopt: not measured, or not finite
  };
  // As apply(), and fills the snapshot's blocks. Frees the memory of the deltas block by block. `measure`: the params,
  // in two passes more.
  Encoded apply_and_encode(Decided& decided, Snapshot* snapshot, bool measure);

  // What a checkpoint keeps of the codec and the rule. Without a rule: what the encoder saves; else, little-endian:
  //   0   u8 0x81, u8 version 2, u16 zero, u32 size of what the encoder saves; that; what the rule saves
  std::vector<std::byte> save() const override;
  // False: a part does not fit and starts fresh. A saved rule state is dropped if there is no rule now; a rule without
  // saved state starts fresh.
  [[nodiscard]] bool load(std::span<const std::byte> saved) override;
  // Loads the rule's part alone, when the agent goes back to an earlier model: what the encoder remembers now is newer.
  [[nodiscard]] bool load_rule(std::span<const std::byte> saved) override;

 private:
  View view_of(const Block& block);
  std::vector<ConstView> views() const;
  void learn(const std::vector<BlockLesson>& lessons);
  static std::vector<CodecTerm> terms_of(const std::vector<Delta>& deltas, size_t k);
  size_t end_of_pass(size_t first) const;  // the block behind the last that is encoded with `first`
  bool pass(size_t first, size_t end, std::vector<Delta>& deltas, Snapshot& snapshot);
  void follow_rule(Decided& decided);

  Trainer& trainer_;
  std::vector<TrainerSection> sections_;
  Encoder encoder_;
  std::unique_ptr<Source> source_;
  std::unique_ptr<LocalRule> rule_;  // null: none
};

}  // namespace starling
