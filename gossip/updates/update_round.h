// One round of updates at one member: what it sends, the members that it waits for, and its end. A round decides the
// owner of a slice and when to stop waiting, never whether a payload counts.
//
// The parts of a slice's payload are the blocks of GroupStreams: contributions to the slice's owner, its entry back.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "gossip/exchange/group_members.h"
#include "gossip/exchange/group_streams.h"
#include "gossip/exchange/round_numbers.h"
#include "gossip/exchange/round_wait.h"
#include "gossip/net/outbox.h"
#include "gossip/updates/member_waits.h"
#include "gossip/updates/sent_payloads.h"
#include "gossip/updates/update_bundles.h"

namespace starling {

struct UpdateRoundOptions {
  Duration deadline_min{}, deadline_max{};  // of each of the two phases
  std::vector<uint32_t> parts{};            // by slice: of its largest payload
  size_t part_bytes = 0;                    // of the largest part
  bool last_first = false;                  // slices are handed in while steps go on, the last one first: credits
                                            //   begin with it, and waits count by member (member_waits.h)
};

class UpdateRound {
 public:
  // References must outlive the object.
  UpdateRound(const UpdateRoundOptions& options, const Clock& clock, Outbox& outbox, const RoundNumbers& numbers);

  // Of the rounds that begin from now on, by slice; empty: each slice travels alone. All parts of one bucket that are
  // handed in together travel together, and so do its entries.
  void set_buckets(std::vector<uint32_t> buckets) { buckets_ = std::move(buckets); }
  uint64_t frames_saved() const { return bundles_.saved(); }
  uint64_t frames_sent() const { return frames_sent_ - bundles_.saved(); }  // of contributions and entries, ever

  // `handed_in` by slice; none from a sick member. `heads` of the replicas that the payloads were made from. With
  // `open` slices are handed in one by one until close(), and nobody is waited for before that.
  void begin(const GroupMembers& members, uint64_t number, double mass,
             const std::vector<std::optional<SentPayload>>& handed_in, const std::vector<LogHead>& heads,
             uint32_t audited, const Digest16& audit, bool open = false);
  // What is left of an open round.
  void close(const std::vector<std::optional<SentPayload>>& handed_in, const std::vector<LogHead>& heads,
             const Digest16& audit);
  bool open() const { return open_; }
  uint32_t audited() const { return audited_; }
  void set_audit(const Digest16& audit) { audit_ = audit; }
  // In the middle of the round: it is open, or the slice's owner asked for it.
  void submit(uint32_t slice, const SentPayload& payload);
  // In which order this member hands in several slices at once: positions in `slices`, which go from the last slice
  // down. Each member begins with the owner before itself: else all would send to one owner first, and the downlinks of
  // the others would stand idle. Slices of one owner keep their order.
  std::vector<size_t> in_turn(std::span<const uint32_t> slices) const;
  // Between these two, parts of one bucket wait for each other.
  void hold() {
    if (!buckets_.empty()) bundles_.hold();
  }
  void release() { bundles_.release(); }
  const Contribution& contribution(uint32_t slice) const { return contributions_[slice]; }  // the own one
  // An own entry. It waits for send_made() where its slice is in a bucket with others.
  void entry_made(const LogEntry& entry, const SharedBytes& payload);
  // Sends the entries of buckets without a slice that is being merged.
  void send_made(const std::function<bool(uint32_t slice)>& is_being_merged);
  void end() {
    ended_ = true;
    open_ = false;
  }

  uint64_t number() const { return number_; }  // 0: none yet
  const GroupMembers& members() const { return members_; }
  bool ended() const { return ended_; }
  bool waits_for(size_t rank) const { return waits_for_[rank]; }
  // The round has ended here, and another member has given no credit yet for all that it is to get. Until when it may.
  std::optional<TimePoint> serving_until() const;
  RoundWait& wait() { return wait_; }
  const RoundWait& wait() const { return wait_; }
  GroupStreams& streams() { return streams_; }

  // A part of a contribution (phase 0) or of an entry (phase 1) from another member of the group, of whatever round:
  // feeds deadlines and credits. It decides nothing. `parts`: of its payload; the stream has places for those of fp32.
  void note_arrival(const PeerId& from, uint64_t group, uint64_t round, uint8_t phase, uint32_t slice, uint32_t part,
                    uint32_t parts, size_t bytes);

  void stop_waiting(size_t rank) { waits_for_[rank] = false; }
  // This member is in a later round, or in one of another roster: it sends nothing more of this one.
  void went_on(size_t rank) {
    went_on_[rank] = true;
    stop_waiting(rank);
  }
  bool has_gone_on(size_t rank) const { return went_on_[rank]; }
  void stop_waiting_for_those_ahead();
  void stop_waiting_for_the_silent();
  void forget(const PeerId& peer);
  void lost(const PeerId& peer);

  void tick_credits();
  TimePoint next_deadline() const;

 private:
  struct Arrival {
    uint8_t phase;
    uint32_t index;
    uint32_t none_from, none_to;  // places in the stream of parts that this payload does not have
    size_t bytes;
  };
  struct Early {
    uint64_t group = 0, round = 0;
    std::vector<Arrival> blocks;
  };
  static constexpr size_t kEarlyMax = 1024;  // blocks of one member
  static constexpr int kCreditRepeats = 8;   // per first deadline, while blocks are missing

  // Among all slices in the order in which they are handed in; its own inverse.
  uint32_t place(uint32_t slice) const {
    return options_.last_first ? static_cast<uint32_t>(options_.parts.size()) - 1 - slice : slice;
  }
  uint32_t first_of(uint32_t slice) const { return first_[place(slice)]; }
  std::vector<uint32_t> blocks_of(size_t rank) const;
  void announce();
  void give(size_t rank, uint8_t phase, uint32_t slice, const std::vector<SharedBytes>& parts);
  void send_entry(const LogEntry& entry, const SharedBytes& payload);
  void send(size_t rank, uint8_t phase, uint32_t index, const SharedBytes& part);
  template <class UpdateMessage>
  void send(size_t rank, const UpdateMessage& frame, const SharedBytes& part);
  void take_early(size_t rank);
  void arrived(size_t rank, const Arrival& part);
  void handed_in_all();  // another member, of this one's slices
  void arrived_late(size_t rank, uint64_t group, uint64_t round, const Arrival& part);

  const UpdateRoundOptions options_;
  std::vector<uint32_t> first_;  // by place() of a slice: the index of its first part; the end
  const Clock& clock_;
  Outbox& outbox_;
  RoundWait wait_;
  GroupStreams streams_;
  MemberWaits waits_;
  std::vector<uint32_t> buckets_;  // by slice; empty: each alone
  UpdateBundles bundles_;
  uint64_t frames_sent_ = 0;                            // each part as one
  std::vector<std::pair<LogEntry, SharedBytes>> made_;  // own entries that wait for others of their bucket
  GroupMembers members_;
  uint64_t number_ = 0;
  double mass_ = 1;
  std::vector<LogHead> heads_;  // of the replicas
  uint32_t audited_ = 0;
  Digest16 audit_{};
  std::vector<Contribution> contributions_;  // by slice, without the part
  std::vector<LogEntry> entries_;
  std::vector<bool> waits_for_, went_on_;  // by rank
  std::map<PeerId, Early> early_;
  size_t handed_in_all_ = 0;  // others that have
  bool ended_ = true, open_ = false;
};

}  // namespace starling
