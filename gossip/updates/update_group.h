// Updates in one group of all members. Each hands in what it learned, and the owner of a slice merges that into the
// next entry of the slice's log. All members apply the entries, so that members with one head hold the same bits.
//
//   boundary: begin(x) ─> drift joins the accumulators, entries are applied, x := R ─> training goes on from R
//             (or from R + accumulator: resume_with_residual())
//   round:    payloads ─> owners of the slices; their entries ─> all; queued for the next boundary
//   or:       open(), submit() slice by slice while backward goes on, begin() with what is left: the same round, whose
//             deadlines begin with begin()
//
// What no entry counts stays in its sender's accumulator, so a round without an entry of a slice costs nothing. Nobody
// takes over inside a round: the first owner may be late, not dead, and two entries would be a split. Heads are ordered
// by contributions counted, then by hash. A member that hears of a greater head pulls what it lacks: single entries if
// it is up to eight behind, else the whole slice. A newcomer is a member that is far behind. README.md has the rules.
//
// A state machine: no sockets, no threads, arithmetic on the worker. All calls on the control thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "gossip/exchange/round_numbers.h"
#include "gossip/updates/early_slices.h"
#include "gossip/updates/entry_feasibility.h"
#include "gossip/updates/log_rounds.h"
#include "gossip/updates/options.h"
#include "gossip/updates/overdue_entries.h"
#include "gossip/updates/update_messages.h"
#include "gossip/updates/update_owner.h"
#include "gossip/updates/update_plan.h"
#include "gossip/updates/update_refusals.h"
#include "gossip/updates/update_replicas.h"
#include "gossip/updates/update_reports.h"
#include "gossip/updates/update_round.h"
#include "gossip/updates/update_slice.h"
#include "gossip/updates/update_tables.h"

namespace starling {

// What the worker took for slices that were handed in early.
struct UpdateSelection {
  size_t elements = 0;
  Duration took{};
};

struct UpdateTally {
  uint64_t entries_made = 0;
  UpdateRefusals refused;
  uint64_t states_adopted = 0;
  uint64_t audits_failed = 0;  // an own replica was not what most others have under the same head
  uint64_t pulls_sent = 0;
  uint64_t handed_in_early = 0;  // payloads, before the boundary
  uint64_t injected = 0;
  uint64_t ignored_messages = 0;  // from strangers, or impossible
};

class UpdateGroup {
 public:
  // All references and `memory` must outlive the object; the codecs work on host memory and are used on the worker.
  // `memory.params` is the genesis, and so are the logs: empty.
  UpdateGroup(const UpdateGroupOptions& options, std::span<const SliceRange> slices, const SliceMemory& memory,
              const UpdateCodecs& codecs, Worker& worker, const Clock& clock, Outbox& outbox, PeerSampler& sampler);

  // A boundary, then a round. `x`: R plus the drift of the local steps; it becomes the new R and must stay where it is
  // until `trainable` is called. False: this agent is in no group of 1 to kUpdateMembersMax members, or busy.
  // Not `makes_x`: nobody trains until catch_up(), so x is left to it. With `may_miss` no round begins if this member
  // comes too late for it, before settle(): then missed() says since when the others have been taking the steps that
  // follow.
  bool begin(std::span<float> x, double mass, uint64_t agent_round, std::function<void()> trainable,
             bool makes_x = true, bool may_miss = false);
  std::optional<TimePoint> missed() const { return log_rounds_.missed(); }  // of the last begin()
  // Before the steps have ended: hands in slices with a known drift, so that they travel meanwhile. Once a step and
  // slice, and begin() follows, or abandon(). Entries are applied no earlier than there. `x` as for begin(), of these
  // slices; it must stay where it is until begin() has called `trainable`. `sent` is called when others may follow.
  // Returns false if the slices are left for a later call or for begin(). The round before still goes on, there is no
  // group, or a run ends. Or the codec must know all slices at once (sketch; dgc with a clip).
  bool submit(std::span<const uint32_t> slices, std::span<const float> x, double mass, uint64_t agent_round,
              std::function<void()> sent);
  bool may_hand_in() const;
  // No begin() follows. What was handed in may count all the same.
  void abandon();

  // Which slices are selected and sent together, as the log says. propose() is heard when this member next makes slice
  // 0's entry. buckets(): by slice, of the open round, or else of the next one.
  UpdatePlans& plans() { return plans_; }
  const UpdatePlans& plans() const { return plans_; }
  std::vector<uint32_t> buckets() const { return plans_.bucket_of_slices(round() + !round_.open()); }
  uint64_t frames_saved() const { return round_.frames_saved(); }

  bool under_way() const { return boundary_ || !round_.ended(); }
  // Others still take what this member has for them of the round that ended here. begin() drops it.
  std::optional<TimePoint> serving_until() const { return boundary_ ? std::nullopt : round_.serving_until(); }

  // While this member waits for others after a begin() that did not make x: a slice takes its entry of the round, if
  // that is here, and x becomes R there. So little is left for catch_up(). One slice at a time, on the worker; its end
  // wakes the caller for the next one. `x` as for catch_up(), which must follow.
  void keep_up(std::span<float> x);

  // A boundary without a round: applies what came and hands in nothing. `x` and `trainable` as for begin(). After a
  // round that training waited for, so that it goes on from that round's entries. REQUIRES: no boundary is under way.
  void catch_up(std::span<float> x, std::function<void()> trainable);
  // x = R becomes R + what no entry counts yet, for the local steps of the next round: a member that lost a
  // contribution would otherwise learn it again from R, and both would count. False: x stays R. Nothing waits, the run
  // ends, or the codec does more than round (fp32, bf16, int8, int4 round). REQUIRES: no boundary is under way, x is R.
  bool resume_with_residual(std::span<float> x, std::function<void()> trainable);
  bool has_news() const;  // catch_up() would move the replica
  // For a member without rounds, which hears of no entries, when the others have ended. It asks for what its logs may
  // lack until others have told, since forget_ends(), that all logs end as its own do.
  void forget_ends() { messages_.forget_ends(); }
  void ask_for_ends();
  bool ends_as_others() const;
  // This member is sick: its next boundary drops its own work and makes x the replica.
  void drop_own_work() { drop_ = true; }

  bool sick() const { return sick_; }  // the last boundary dropped the own work

  // An earlier process of this member saved these states, and the memory holds their replicas. Before anything else.
  void restore(std::span<const SliceState> states);

  // No steps follow: the accumulators run empty. The next boundary is as before. Later ones hand in what is left, in
  // fp32, if the codec holds back little. What top-k or signs hold back is the sum of many rounds, which ruins the
  // model when it is added at once, so it is dropped.
  // `on` false: steps follow after all.
  void settle(bool on) { settling_ = on; }
  bool drained() const { return drained_; }  // every accumulator was empty at the last boundary
  // Whether all members of the roster hold this replica and have handed in everything: the last entries of every slice
  // count each of them twice, with nothing. (A payload still under way was encoded before the first of the two.)
  bool agreed() const;
  // How many entries the own log of the slice that is farthest behind lacks, as others claim.
  uint64_t behind() const;
  // Whether every slice got an entry since this process began.
  bool heard() const;

  void handle(const PeerId& from, uint64_t generation, const ExchangeMessage& message, const SharedBytes& payload) {
    messages_.handle(from, generation, message, payload);
  }
  void tick();
  TimePoint next_deadline() const;
  void forget(const PeerId& peer);  // it restarted, or left for good
  void lost(const PeerId& peer);    // it is believed dead: the round does not wait for it

  std::vector<UpdateReport> take_reports() { return reports_.take(); }
  uint64_t round() const { return round_.number(); }                            // 0: none yet
  const UpdateLog& log(uint32_t slice) const { return slices_[slice]->log(); }  // entries not applied yet included
  const UpdateReplicas& replicas() const { return replicas_; }                  // REQUIRES: no boundary is under way
  UpdateTally tally() const;
  UpdateMemory memory() const;  // now. REQUIRES: no boundary is under way
  uint32_t slice_count() const { return static_cast<uint32_t>(slices_.size()); }
  const ReplicaTally& splits() const { return splits_; }  // as of the last boundary, like the next
  double held_back() const { return held_back_; }         // the norm of all accumulators
  // What the worker took for boundaries that hand in, and for slices handed in before, since the last call: to choose
  // the elements of payloads, and for all else.
  Duration take_select_time() { return std::exchange(select_time_, Duration::zero()); }
  Duration take_encode_time() { return std::exchange(encode_time_, Duration::zero()); }
  std::vector<UpdateSelection> take_selections() { return std::exchange(selections_, {}); }  // since the last call
  const UpdateReport& last_report() const { return reports_.last(); }  // of the last round that ended

 private:
  std::shared_ptr<BoundaryJob> make_job(std::span<float> x);
  uint32_t next_audited() const;
  bool open_round(double mass, uint64_t agent_round);
  void close_round(const BoundaryJob& job);
  void hand_in_rest(std::span<const float> x);
  void handed_in(const EarlyJob& job, uint64_t number);
  void note_times(Duration took, Duration select);
  void choose_encoder(BoundaryJob& job);
  void end_boundary(const BoundaryJob& job);
  void begin_round(const GroupMembers& members, uint64_t agent_round, double mass, const BoundaryJob& job,
                   bool open = false);
  bool may_keep_up(uint32_t slice) const;
  void miss_round(const GroupMembers& members);
  void answer(uint32_t slice, const std::vector<uint32_t>& requested);
  void take_own(uint32_t slice, const SentPayload& payload);
  void advance(uint32_t slice);
  void look_at_plan();
  bool send_to_those_behind(uint32_t slice);  // false: there are none
  void try_end();
  void ask_for_overdue();

  const UpdateGroupOptions options_;
  const UpdateCodecs codecs_;
  Worker& worker_;
  const Clock& clock_;
  Outbox& outbox_;
  PeerSampler& sampler_;
  UpdateRefusals refusals_;
  UpdateSlices slices_;
  UpdateReplicas replicas_;
  UpdatePlans plans_;
  Digest16 plan_seen_{};  // slice 0's entry with the plan that was looked at last
  RoundNumbers numbers_;
  UpdateRound round_;
  UpdateOwner owner_;
  UpdateTables tables_;
  UpdateMessages messages_;
  LogRounds log_rounds_;
  EntryFeasibility outlook_;
  OverdueEntries overdue_;
  UpdateReports reports_;
  EarlySlices early_;
  const UpdateCodec* encoder_ = nullptr;  // of this round
  bool boundary_ = false, drained_ = false;
  bool x_is_due_ = false;             // the last boundary left x to catch_up()
  bool keeps_up_ = false;             // the worker makes a slice of x R
  std::vector<bool> kept_up_;         // by slice: it has, since the last boundary
  bool sick_ = false, drop_ = false;  // at the last boundary; at the next one
  bool settling_ = false, last_drift_taken_ = false;
  ReplicaTally splits_;
  double held_back_ = 0;
  Duration select_time_{}, encode_time_{};
  std::vector<UpdateSelection> selections_;
  uint64_t entries_made_ = 0, handed_in_early_ = 0;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);  // completions of a destroyed object do nothing
};

}  // namespace starling
