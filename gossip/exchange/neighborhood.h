// The neighborhood exchange: D-PSGD (Lian et al., NIPS 2017). In each round an agent sends its
// snapshot to all neighbors of the topology, one way, and mixes what they sent:
//
//   x_i += sum_j w_ij (x_j - x_i)          w: company.neighbors(round); what is missing to 1 stays with i
//
// Rows sum to 1 whatever is lost. A late neighbor counts with its last payload, block by block, for kAgeMax rounds at
// most, or the mean would lose a straggler's data; then its weight stays with us. With one local step and overlap this
// is the textbook's x_i <- sum_j w_ij x_j - eta g_i(x_i); without overlap the step is taken where the average lies.
//
// One latency and one transfer a round; deg payloads out and in, no handshake. The wait follows the arrivals, early and
// late ones, of the neighbors that are not the slowest; who sends less often than we mix is not waited for,
// and who never sent anything only for a moment.
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
  Neighborhood(const NeighborhoodOptions& options, const Layout& layout, const Codec& codec, Worker& worker,
               const Clock& clock, Outbox& outbox, Company& company);
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
  const BlockTally& block_tally() const;      // counted: new since the last round, be it late; nothing is lost as late
  uint64_t round() const;             // by number, which may jump
  uint64_t rounds() const;            // that this agent began
  Duration current_deadline() const;   // of a round begun now

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace starling
