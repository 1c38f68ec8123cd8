// What travels of the model in a pair exchange: the blocks, each whole, or of a block of low rank two halves
// (compression/low_rank.h), of which the second can only be made once the peer's first is here. Parts are numbered: the
// blocks whole or their first halves, by block, and then the second halves, by block.
//
//   proposer   PROPOSE, first halves ->
//   acceptor   <- ACCEPT, first halves; second halves, each once it has the proposer's first
//   proposer   second halves, each once it has the acceptor's first ->
//   acceptor   <- HAVE, and on as any pair
//
// A block of which one half is lost, or refused, leaves the exchange whole at both ends. Nothing of this is remembered
// beyond an exchange.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "compression/codec.h"
#include "compression/layout.h"
#include "compression/low_rank.h"
#include "gossip/exchange/bitmap.h"
#include "gossip/exchange/peer_blocks.h"
#include "gossip/exchange/snapshot.h"

namespace starling {

enum class PartKind : uint8_t { kWhole, kFirst, kSecond };

struct PairPart {
  PartKind kind = PartKind::kWhole;
  uint32_t block = 0;
  uint32_t other = 0;                // of a half: the part that is the other one
  size_t bytes_max = 0;
};

class PairParts {
 public:
  PairParts(const Layout& layout, const Codec& codec);   // they outlive the object

  size_t count() const { return parts_.size(); }
  const PairPart& operator[](size_t part) const { return parts_[part]; }
  bool in_halves() const { return parts_.size() > layout_.blocks.size(); }   // some are
  // The share of a difference's squares that an exchange takes at least, on average: of one with no direction of its
  // own a step of power iteration takes about twice what directions at random would. 1 without blocks of low rank.
  double reach() const;
  Bitmap without_lone_halves(Bitmap parts) const;

 private:
  const Layout& layout_;
  std::vector<PairPart> parts_;
};

// The halves that an agent makes in one exchange, by part. Each payload is written by one worker job, and read on the
// control thread after the job has ended.
struct OwnHalves {
  explicit OwnHalves(size_t parts) : payloads(parts), made(make_bitmap(parts)), sent(make_bitmap(parts)) {}
  std::vector<SharedBytes> payloads;
  Bitmap made, sent;                 // of all parts
};

// A worker's job: judges a part that came. Of a first half that passes, it makes the own second half. Owns all that it
// reads except the codec, since the exchange may end before it runs.
struct PairJudgement {
  PairPart part;
  Block block;
  std::shared_ptr<const Snapshot> own;
  std::shared_ptr<OwnHalves> halves;      // null: a whole block
  uint32_t index = 0;                     // of the part
  SharedBytes payload;
  BlockVerdict verdict = BlockVerdict::kRefused;
  PairStats stats{};
  void decide(const Codec& codec);

 private:
  void decide_whole(const Codec& codec);
};

// Likewise: makes all first halves.
struct FirstHalves {
  std::vector<Block> blocks;
  ExchangeId xid;
  std::shared_ptr<const Snapshot> own;
  std::shared_ptr<OwnHalves> halves;
  void make() const;
};

}  // namespace starling
