// One slice at one member, as far as messages go: the log with all entries that arrived, what is missing of it, what
// members handed in. The replica takes what came at the next boundary, as a backlog.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "gossip/updates/head_announcements.h"
#include "gossip/updates/update_entries.h"
#include "gossip/updates/update_inbox.h"
#include "gossip/updates/update_log.h"
#include "gossip/updates/update_memory.h"
#include "gossip/updates/update_state.h"

namespace starling {

// A whole state that takes the place of what a replica holds.
struct AdoptedState {
  SliceState header;
  std::vector<float> values;  // params, then momentum
};

// What the log has and the replica lacks, in this order.
struct Backlog {
  std::optional<AdoptedState> adopted;
  std::vector<LoggedEntry> entries;
};

class UpdateSlice {
 public:
  struct Shape {
    uint32_t number = 0;
    size_t element_count = 0;
    size_t value_count = 0;  // of params and momentum together
  };
  // All references must outlive the object. `on_change`: the log went on, or could not; from worker completions.
  UpdateSlice(const Shape& shape, float first_norm_max, const UpdateCodecs& codecs, Worker& worker,
              UpdateRefusals& refusals, std::function<void()> on_change);
  // The replica holds this state: the log goes on from there. Before anything is received.
  void restore(const SliceState& state) { log_.adopt(state); }

  const Shape& shape() const { return shape_; }
  const UpdateLog& log() const { return log_; }
  UpdateInbox& inbox() { return inbox_; }
  HeadAnnouncements& claims() { return claims_; }
  const HeadAnnouncements& claims() const { return claims_; }
  uint64_t states_adopted() const { return states_adopted_; }
  // Whether the log has an entry of this round of the group, or of a later one. Rounds of other groups are no measure:
  // members that joined may have begun to count anew.
  uint64_t entry_round() const { return entry_round_; }  // of the newest entry; 0: this member saw none
  bool has_entry_of(uint64_t group, uint64_t round) const { return group == entry_group_ && entry_round_ >= round; }

  // Whether to believe that there is a log with this head in `round`. Since the newest entry here, if it is of the same
  // roster, each round made one entry at most, which counts each member once; members may be eight rounds ahead. More
  // than that is a lie or a log that was made apart, and as many must claim it as must show a split.
  bool believes(const PeerId& from, const LogHead& head, const GroupMembers& members, uint64_t round);

  // An entry from another member, or a part of it. REQUIRES: the part fits and the codec is known.
  void receive(const PeerId& from, const LogEntry& entry, const SharedBytes& part);
  // Whether this entry is here and follows the log, or those do that are here before it.
  bool expects(const Digest16& entry_hash) const { return entries_.connects(entry_hash, log_); }
  bool checking() const { return entries_.checking(); }  // an entry came that the log may take in a moment
  // The own entry. False: the log went on meanwhile.
  [[nodiscard]] bool append_own(const LogEntry& entry, const SharedBytes& payload, const Digest16& payload_hash,
                                double norm);

  // A block of a state. What is complete, greater than the log and shown by enough members takes its place at once.
  // True: it is complete now, and too few show it.
  [[nodiscard]] bool receive(const PeerId& from, const SliceState& state, const SharedBytes& block);
  // A claim was heard: perhaps enough members show the state that is complete.
  void look_again() {
    if (collection_ && collection_->complete() && believed(*collection_)) adopt();
  }
  // A round begins. `witnesses`: how many members must show a state that lacks what the own log counts: a split. One is
  // enough for a state that only continues the log. One is also enough after kStalledRounds without an entry: perhaps
  // each member was alone, and nobody else will ever show it.
  void begin_round(size_t witnesses);
  // The replica is not what its head says: a state of the same log takes its place too.
  void distrust() { distrusted_ = true; }
  // Most members hold another log, and too few show the own one to make the others move to it, though it is the heavier
  // one. Until the round ends this member moves to any log that is shown as often as a split must be.
  void yield() { yields_ = witnesses_ > 1; }
  bool yields() const { return yields_; }
  // What to ask others for: that which follows this head.
  LogHead asks_after() const { return distrusted_ || yields_ ? LogHead() : log_.head(); }
  // The state that is being collected; null: none.
  const StateCollection* collecting() const { return collection_ ? &*collection_ : nullptr; }
  void stop_collecting() { collection_.reset(); }

  // Adds what it holds, and `held` has not seen.
  void add_memory(HeldBytes& held, UpdateMemory* memory) const;

  // The newest round of the entries that the log took since the last call; 0: none.
  uint64_t take_newest_round() { return std::exchange(newest_round_, 0); }
  // The replica lacks more than a whole state would bring: no more entries are taken before the next boundary, and then
  // the state. With long steps a member would hold all that the others make meanwhile.
  bool full() const;
  bool has_backlog() const { return backlog_.adopted || !backlog_.entries.empty(); }
  Backlog take_backlog() { return std::exchange(backlog_, {}); }

 private:
  void advance();
  void queue_newest();
  bool repairs(const SliceState& state) const;
  bool wanted(const SliceState& state) const;
  void drop_unwanted();
  bool believed(const StateCollection& collected) const;
  void adopt();

  static constexpr size_t kBacklogMin = 4 << 20;  // bytes; a smaller backlog is never full

  const Shape shape_;
  UpdateLog log_;
  UpdateEntries entries_;
  UpdateInbox inbox_;
  HeadAnnouncements claims_;
  std::optional<StateCollection> collection_;
  Backlog backlog_;
  uint64_t entry_group_ = 0, entry_round_ = 0;  // of the newest entry
  uint64_t newest_round_ = 0;
  static constexpr int kStalledRounds = 2 * GroupMembers::kOwnerRounds;  // longer than one owner's turn
  size_t witnesses_ = 1;
  std::set<PeerId> claim_more_;           // than is possible, since a state was adopted
  bool moved_ = false, doubted_ = false;  // since the round began: the log went on; a split came that one shows
  int stalled_ = 0;                       // rounds with such a split, and without an entry
  bool distrusted_ = false, yields_ = false;
  UpdateRefusals& refusals_;
  std::function<void()> on_change_;
  uint64_t states_adopted_ = 0;
};

using UpdateSlices = std::vector<std::unique_ptr<UpdateSlice>>;  // by number

}  // namespace starling
