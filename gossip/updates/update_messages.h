// What other members send about updates: checks it, hands it to the slice that it belongs to, answers pulls, and asks
// for what this member turns out to lack. All of it is hostile until checked.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "gossip/exchange/round_numbers.h"
#include "gossip/updates/options.h"
#include "gossip/updates/update_donor.h"
#include "gossip/updates/update_pulls.h"
#include "gossip/updates/update_replicas.h"
#include "gossip/updates/update_round.h"
#include "gossip/updates/update_slice.h"
#include "gossip/updates/update_tables.h"

namespace starling {

struct MessageTally {
  uint64_t frames = 0;         // of contributions and entries
  uint64_t injected = 0;       // lost on purpose
  uint64_t ignored = 0;        // from strangers, or impossible
  uint64_t audits_failed = 0;  // an own replica was not what most others have under the same head
};

class UpdateMessages {
 public:
  // All references must outlive the object. `advance`: something happened to this slice.
  UpdateMessages(const UpdateGroupOptions& options, const UpdateCodecs& codecs, const UpdateReplicas& replicas,
                 UpdateSlices& slices, UpdateRound& round, UpdateTables& tables, RoundNumbers& numbers,
                 UpdateRefusals& refusals, Worker& worker, const Clock& clock, Outbox& outbox, PeerSampler& sampler,
                 std::function<void(uint32_t slice)> advance);

  // After the round began. `heads`: of the replicas.
  void begin_round(std::vector<LogHead> heads);
  // The replicas moved on to these heads.
  void replicas_moved(std::vector<LogHead> heads) { heads_ = std::move(heads); }
  void replica_moved(uint32_t slice, const LogHead& head) { heads_[slice] = head; }

  void handle(const PeerId& from, uint64_t generation, const ExchangeMessage& message, const SharedBytes& payload);
  // Asks one of the members for what follows this slice's log.
  void ask_anyone(uint32_t slice) { pulls_.ask_anyone(*slices_[slice]); }

  // Whether another member has told, since forget_ends(), that its log of the slice ends as the own one does now.
  bool ends_as_others(uint32_t slice) const { return ends_[slice] == slices_[slice]->log().head(); }
  void forget_ends() { ends_.assign(ends_.size(), std::nullopt); }

  // Sends the entries that follow this head. False: there are none, or not all of them are here any more.
  bool send_after(uint32_t slice, const PeerId& to, const LogHead& head);

  // The own replica of the slice is wrong: asks for the donor's.
  void replace(uint32_t slice, const PeerId& donor) {
    slices_[slice]->distrust();
    ++tally_.audits_failed;
    pulls_.ask_for_state(*slices_[slice], donor);
  }

  // Most members hold another log of the slice than this one; `donor` is one of them. That it was asked just now for
  // what follows the own log brings nothing.
  void yield(uint32_t slice, const PeerId& donor) {
    UpdateSlice& of = *slices_[slice];
    const bool before = of.yields();
    of.yield();
    of.yields() && !before ? pulls_.ask_for_state(of, donor) : pulls_.ask(of, donor);
  }

  void tick();
  TimePoint next_deadline() const { return pulls_.next_deadline(slices_); }
  const MessageTally& tally() const { return tally_; }
  uint64_t pulls_sent() const { return pulls_.sent(); }
  double patience() const { return pulls_.patience(); }       // before it asks for what may only be late
  size_t bytes_for_others() const { return donor_.bytes(); }  // of the states that they asked for

 private:
  void ignore() { ++tally_.ignored; }
  void refuse(const PeerId& from, uint64_t UpdateRefusals::* kind);
  bool is_member(const PeerId& peer);
  bool lost(const PeerId& from, uint64_t round, uint32_t slice, uint8_t phase);
  void on_contribution(const PeerId& from, uint64_t generation, const Contribution& message, const SharedBytes& part);
  void on_bundle(const PeerId& from, uint64_t generation, const UpdateBundle& bundle, const SharedBytes& payload);
  template <class Message>
  void on_tables(const PeerId& from, const Message& message, uint8_t phase, const SharedBytes& part);
  void on_entry(const PeerId& from, const LogEntry& entry, const SharedBytes& part);
  void on_pull(const PeerId& from, const LogPull& pull);
  void on_state(const PeerId& from, const SliceState& state, const SharedBytes& block);
  void on_credit(const PeerId& from, const RoundCredit& credit);
  bool plausible(const LogEntry& entry) const;
  bool goes_on_without(const UpdateSlice& slice, const LogEntry& entry) const;
  bool believes(const PeerId& from, UpdateSlice& slice, const LogHead& head) const;
  bool is_alone(const UpdateSlice& slice) const;
  void hear(const PeerId& from, uint32_t slice, const LogHead& head);
  void note(const PeerId& from, uint64_t group, uint64_t round);
  void look_at_rosters();
  void note_entry(const PeerId& from, const LogEntry& entry);

  const UpdateGroupOptions& options_;
  const UpdateCodecs& codecs_;
  UpdateSlices& slices_;
  UpdateRound& round_;
  UpdateTables& tables_;
  RoundNumbers& numbers_;
  UpdateRefusals& refusals_;
  Outbox& outbox_;
  PeerSampler& sampler_;
  std::function<void(uint32_t slice)> advance_;
  std::vector<LogHead> heads_;                // of the replicas, after the last boundary
  std::vector<std::optional<LogHead>> ends_;  // of others, told last
  UpdateDonor donor_;
  UpdatePulls pulls_;
  MessageTally tally_;
};

}  // namespace starling
