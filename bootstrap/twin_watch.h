// Judges records of this agent's or registry's id that another process made: an earlier life by a clock that was ahead,
// a process with a copy of the key, or a forger. The address in the record is asked. A process there that has the key
// signs its answer: the identity is in use twice.
// Where none answers, this process has to begin again above the record's generation, since members take no lower one.
// A twin that ends says so to this process alone: members would take a farewell of the id for this process's own.
// Two processes under one address cannot ask each other. Where a later process takes an earlier one's place, the
// earlier one begins again with the later one's number plus 1. So the later one knows, if its number is of its clock.
// A state machine. Any sender may cause a few pings a second, no more.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "gossip/clock.h"
#include "gossip/net/identity.h"
#include "gossip/net/message.h"
#include "gossip/net/outbox.h"
#include "gossip/net/wire.h"

namespace starling {

class TwinWatch {
 public:
  using Sign = std::function<Signature(std::span<const std::byte> text)>;

  struct Twin {
    Endpoint address;
    uint64_t generation = 0;
    bool older = false;  // it began before this process
    TimePoint found;
  };

  // `self` is this process's record, whichever version; it and the others outlive the object. `sign`: with its key;
  // empty: questions are not answered. `secret`: nobody else may guess it.
  TwinWatch(const PeerRecord& self, const Clock& clock, Outbox& outbox, uint64_t secret, Sign sign);

  void ask(const Endpoint& address);                               // whether a process of this id answers there
  void on_record(const PeerRecord& record);                        // of this id, by another process; asks there
  void handle(const FrameHeader& header, const Message& message);  // of a frame that names this id as its sender
  void tick();
  // Tells the older twin that this process ends. `farewell`: its record. REQUIRES: there is one.
  void part(const PeerRecord& farewell);
  TimePoint next_deadline() const;

  // Whether members may hear of this process: no other one answers, or could still answer soon after its start.
  bool may_join() const;
  const std::optional<Twin>& twin() const { return twin_; }  // nullopt: none answers
  // In words, with the remedy. Empty: nothing of the kind.
  std::string take_notice();  // of one that began later, and ends by itself
  // Why this process must end, once the other one knows. `of_clock`: its number is of the clock, so that no other start
  // in the folder has it, and records are signed.
  std::string must_end(bool of_clock) const;
  std::string must_begin_again(uint64_t now_by_clock) const;      // above overtaken()
  bool disputed() const { return later_ > 0 || overtaken_ > 0; }  // members hold a later generation than this one's
  uint64_t overtaken() const { return overtaken_; }  // a later generation that members hold of no process; 0: none

 private:
  struct Asked {
    uint64_t sequence = 0;
    uint32_t silent = 0;     // questions since the last answer
    bool of_record = false;  // else of a frame, or of the start
    TimePoint next;
  };
  bool is_self(const Endpoint& address, uint64_t generation) const;
  Asked* reserve(const Endpoint& address, bool of_record);
  bool told() const;  // the twin was answered, or has not asked for seconds
  void answer(const FrameHeader& header, uint64_t sequence);
  bool says_farewell(const FrameHeader& header, const Message& message) const;
  void give_up(const Endpoint& address);
  void settle();

  const PeerRecord& self_;
  const Clock& clock_;
  Outbox& outbox_;
  const TimePoint born_;
  const uint64_t secret_;
  const Sign sign_;
  std::map<Endpoint, Asked> asked_;
  uint64_t questions_ = 0;
  TimePoint next_answer_;
  Endpoint answered_;                   // last
  std::optional<Twin> twin_, ended_;    // ended_: the last one that began after this process
  std::optional<Endpoint> younger_;     // not taken yet; its farewell may come right behind its answer
  uint64_t later_ = 0, overtaken_ = 0;  // later_: what members hold, not judged yet
  uint64_t here_ = 0;                   // the latest that a record with the own address has
};

}  // namespace starling
