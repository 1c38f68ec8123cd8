// One member's copy of one slice: the params R that its log makes, and the member's own accumulator.
//
// Always:  accumulator = own drifts - own payloads that the held log counts (+ one correction for each long split),
//          but for the rounding of R + accumulator where steps began from it
//
// With a codec that has a velocity, a drift stands for the velocity that it became part of.
//
// With a codec that drops its residual, a payload takes the place of the drifts that it was encoded from.
//
// What was handed in is settled by the table of the log held, never by replies. So it stays true when entries are lost,
// late, or taken over with a whole state.
//
// Plain arithmetic over spans that the caller keeps: no messages, and no time but what a caller wants measured. Used
// from worker jobs, one at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "compression/outer_rule.h"
#include "compression/slice_math.h"
#include "compression/update_codec.h"
#include "gossip/clock.h"
#include "gossip/updates/counted_table.h"
#include "gossip/updates/sent_payloads.h"
#include "gossip/updates/update_log.h"

namespace starling {

// The vectors of one slice, where UpdateCodecs::math works; `momentum` is empty if the outer rule has none, `velocity`
// if the codec has none. Must outlive its users.
struct SliceMemory { std::span<float> params, momentum, accumulator, velocity{}; };

// What the worker took to choose the elements of payloads, apart from coding them.
struct SelectTime {
  const Clock* clock = nullptr;  // null: nothing is timed
  Duration sum{};

  template <class Choose>
  auto timed(const Choose& choose) {
    const TimePoint began = clock ? clock->now() : TimePoint();
    auto chosen = choose();
    if (clock) sum += clock->now() - began;
    return chosen;
  }
};

// The codecs that payloads may have: that of the settings, and fp32 for the end of a run; and what works with them.
struct UpdateCodecs {
  const UpdateCodec* running = nullptr;
  const UpdateCodec* exact = nullptr;
  const SliceMath* math = &host_slice_math();
  const UpdateCodec* of(uint8_t kind) const;  // null: neither
};

// What the replica cannot keep exact. All zero in a swarm without splits if each member hears of every eighth entry.
struct ReplicaTally {
  uint64_t short_splits = 0;   // another log took over, and what only the old one counted was taken back
  uint64_t long_splits = 0;    // the difference of both logs became drift
  uint64_t settled_blind = 0;  // counted by an entry that this member never saw: settled in full
  uint64_t lost_payloads = 0;  // counted, but not held any more
  uint64_t forged = 0;         // counted, but never handed in: an owner lied
};

class SliceReplica {
 public:
  // Begins with an empty log: `params` are the genesis.
  SliceReplica(const PeerId& self, uint64_t generation, const SliceMemory& memory, const OuterRule& rule,
               const UpdateCodecs& codecs);

  // The memory holds the replica of this log, saved by an earlier process. Before anything else.
  void restore(const SliceState& state);

  size_t size() const { return memory_.params.size(); }
  const LogHead& head() const { return head_; }
  const CountedTable& table() const { return table_; }
  const std::vector<RecentEntry>& recent() const { return recent_; }  // as the log had it at `head`
  const SliceMemory& memory() const { return memory_; }
  const SliceMath& math() const { return *codecs_.math; }
  const SentPayloads& sent() const { return sent_; }
  const ReplicaTally& tally() const { return tally_; }

  // x = R + accumulator, for the steps before the next add_drift(). A member would otherwise learn again what no entry
  // counts yet, and both would count. REQUIRES: x is R; no velocity.
  void resume_with_residual(std::span<float> x);

  // accumulator += scale * drift, by way of the velocity where there is one. The drift is what x moved since it was R,
  // or since resume_with_residual(). `round`: a round begins, and the velocity of the one before goes on. False, and
  // nothing is changed: x is not finite.
  [[nodiscard]] bool add_drift(std::span<const float> x, bool round = true, float scale = 1);

  // The next entry of the log. REQUIRES: the log took it, and its payload passed UpdateCodec::check().
  void apply(const LoggedEntry& logged);

  // Another log takes over: `params` and `momentum` are its replica, in host memory. REQUIRES: they have this slice's
  // sizes.
  void adopt(const SliceState& state, std::span<const float> params, std::span<const float> momentum);

  // The payload to hand in now: a new one, of the whole accumulator, while SentPayloads::may_join(), else
  // the newest again. One of those that wait can count. nullopt: the accumulator is not finite. `requested`:
  // UpdateSeeds.
  std::optional<SentPayload> submit(const UpdateCodec& codec, SelectTime& select,
                                    std::span<const uint32_t> requested = {});
  std::optional<SentPayload> submit(const UpdateCodec& codec, std::span<const uint32_t> requested = {}) {
    SelectTime untimed;
    return submit(codec, untimed, requested);
  }
  // Whether submit() makes a new payload.
  bool hands_in_new() const;
  // The table of what a new payload would hand in. Empty: the accumulator is not finite.
  SharedBytes table(const SketchTables& tables) const;

  // Drops what was never handed in.
  void keep_only_sent();

  // A sick member drops its own work and keeps the log.
  void drop_own_work();

 private:
  void settle(SentPayload& payload, float coefficient, const UpdateCodec* entry_codec, const SharedBytes& entry);
  void mask(const SentPayload& payload, const UpdateSupport& on);
  void unsettle(SentPayload& payload);
  void follow_table();
  bool differ_in_what_is_gone(const CountedTable& theirs, bool parted) const;
  bool parted(const SliceState& state) const;

  const PeerId self_;
  const uint64_t generation_;
  const SliceMemory memory_;
  const OuterRule rule_;
  const UpdateCodecs codecs_;
  OuterReach reach_;
  LogHead head_;
  CountedTable table_;
  std::vector<RecentEntry> recent_;
  SentPayloads sent_;
  bool from_rest_ = false;  // x began at R + accumulator
  uint64_t first_seq_ = 1;  // what was handed in before was dropped in a sickness
  ReplicaTally tally_;
};

}  // namespace starling
