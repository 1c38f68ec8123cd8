// The neighborhood exchange: D-PSGD (Lian et al., NIPS 2017). In each round an agent sends its snapshot to all of its
// neighbors in the topology and mixes the snapshots that they sent:
//
//   x_i += sum_j w_ij (x_j - x_i)          w: sampler.neighbors(round); the rest of row i is the self weight
//
// Each row sums to 1 whatever is lost. A late neighbor counts with its last payload, block by block, for at most
// kAgeMax rounds; otherwise the mean would lose a straggler's data. After that its weight goes to the agent itself.
// With one local step and overlap this is the textbook's x_i <- sum_j w_ij x_j - eta g_i(x_i). Without overlap the
// gradient is taken at the average instead.
//
// A round takes one latency and one transfer, with one payload out and in per neighbor and no handshake. The deadline
// is the lower median of what the neighbors' arrivals need, late arrivals included. A round does not wait for a
// neighbor that sends less often than this agent mixes, and waits only briefly for one that never sent anything.
// Only codecs whose payloads stand for themselves (CodecTraits::linear). A state machine, like all exchanges.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "compression/layout.h"
#include "gossip/exchange/exchange.h"
#include "gossip/exchange/options.h"
#include "gossip/net/outbox.h"
#include "gossip/worker.h"

namespace starling {

class Neighborhood final : public Exchange {
 public:
  static constexpr uint64_t kAgeMax = 4;   // rounds

  // All references must outlive the object. `codec` is used from worker jobs only.
  Neighborhood(const ExchangeOptions& options, const Layout& layout, const Codec& codec, Worker& worker,
               const Clock& clock, Outbox& outbox, PeerSampler& sampler);
  ~Neighborhood() override;

  void publish(std::shared_ptr<const Snapshot> snapshot) override;
  void retract() override;
  bool begin() override;
  void handle(const PeerId& from, uint64_t generation, const ExchangeMessage& message,
              const SharedBytes& payload) override;
  void tick() override;
  TimePoint next_deadline() const override;
  void forget(const PeerId& peer, uint64_t generation) override;
  Decided take_decided() override;
  std::vector<ExchangeReport> take_reports() override;
  ExchangeStatus status() const override;

  bool under_way() const;
  bool idle() const { return !under_way(); }
  const BlockTally& block_tally() const;   // a late block counts in the next round, so `late` stays 0
  uint64_t round() const;                  // the number of the current round, which may jump
  uint64_t rounds() const;                 // how many rounds this agent began
  Duration current_deadline() const;       // of a round begun now

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace starling
