// With the codec sketch (compression/update_sketch.h): what comes before the payloads of a round.
//
//   member: table of what it has to hand in ─> owner of the slice
//   owner:  adds tables, asks all members for the elements that they show to be large
//   member: hands in these elements' values, as a contribution like any other
//
// A table or a request that is lost costs its sender or its receiver this round's contribution, and nothing else: what
// was not handed in stays in the accumulator. An owner waits for tables until half of the round's first deadline, so
// the round's two deadlines hold.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "compression/update_sketch.h"
#include "gossip/clock.h"
#include "gossip/exchange/group_members.h"
#include "gossip/net/message.h"
#include "gossip/net/outbox.h"
#include "gossip/updates/update_parts.h"
#include "gossip/updates/update_slice.h"
#include "gossip/worker.h"

namespace starling {

class UpdateTables {
 public:
  // The owner of a slice asks for these elements, perhaps this agent itself. From calls and worker completions.
  using OnRequested = std::function<void(uint32_t slice, const std::vector<uint32_t>& elements)>;

  // `tables` null: the codec has none, and nothing ever happens here. All references must outlive the object.
  UpdateTables(const SketchTables* tables, const PeerId& self, const UpdateSlices& slices, Worker& worker,
               const Clock& clock, Outbox& outbox, UpdateRefusals& refusals, OnRequested on_requested);

  // The round began. `own`: this agent's tables by slice, empty where it has none; or none at all.
  void begin(const GroupMembers& members, uint64_t round, double mass, Duration wait,
             const std::vector<SharedBytes>& own);
  void end() { ended_ = true; }

  // From another member. REQUIRES: the slice exists.
  void receive(const PeerId& from, const SketchTable& message, const SharedBytes& part);
  void receive(const PeerId& from, const SketchRequest& message, const SharedBytes& part);

  // This agent owns the slice and has not asked for its elements in this round.
  bool may_ask(uint32_t slice) const {
    return tables_ != nullptr && !ended_ && !slices_[slice].asked && members_.owner(slice, round_) == members_.self;
  }
  bool has_table(uint32_t slice, const PeerId& from) const;  // of this round
  // Asks, if there is a table, and `all` that are waited for are there or the wait is over. REQUIRES: may_ask().
  void ask_if_due(uint32_t slice, bool all);
  // True, once a round: the wait for tables is over.
  [[nodiscard]] bool wait_ends();
  TimePoint next_deadline() const { return ended_ || waited_ ? TimePoint::max() : wait_until_; }

  uint64_t take_bytes_sent() { return std::exchange(bytes_sent_, 0); }
  uint64_t take_bytes_received() { return std::exchange(bytes_received_, 0); }

 private:
  // Of one sender: of one round.
  template <class Message>
  struct Arriving {
    Message message;
    PartBuffer parts;
  };
  struct Slice {
    std::map<PeerId, Arriving<SketchTable>> tables;
    std::map<PeerId, Arriving<SketchRequest>> requests;
    bool asked = false, answered = false;  // in this round
  };

  template <class Message>
  bool take(std::map<PeerId, Arriving<Message>>& all, const PeerId& from, const Message& message,
            const SharedBytes& part, size_t bytes_max);
  template <class Message>
  void send(const PeerId& to, Message message, const SharedBytes& payload);
  void answer(uint32_t slice);
  void ask(uint32_t slice, const SharedBytes& request);

  const SketchTables* tables_;
  const PeerId self_;
  const UpdateSlices& update_slices_;
  Worker& worker_;
  const Clock& clock_;
  Outbox& outbox_;
  UpdateRefusals& refusals_;
  OnRequested on_requested_;
  std::vector<Slice> slices_;
  GroupMembers members_;
  uint64_t round_ = 0;
  bool ended_ = true, waited_ = true;
  TimePoint wait_until_{};
  uint64_t bytes_sent_ = 0, bytes_received_ = 0;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);  // completions of a destroyed object do nothing
};

}  // namespace starling
