// Gives the states of slices to members that are far behind. The slice is copied when it is asked for, because it moves
// on. The last two copies of each slice are kept for a while, so that a receiver can ask for the blocks that it lacks.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "gossip/clock.h"
#include "gossip/net/outbox.h"
#include "gossip/updates/slice_replica.h"
#include "gossip/updates/update_state.h"
#include "gossip/worker.h"

namespace starling {

class UpdateDonor {
 public:
  static constexpr size_t kCopiesMax = 2;
  static constexpr size_t kWaitingMax = 32;                        // members that wait for one copy
  static constexpr Duration kCopyLife = std::chrono::seconds(30);  // since somebody asked for it

  // All references must outlive the object. `replicas` are read by worker jobs only.
  UpdateDonor(const std::vector<SliceReplica>& replicas, Worker& worker, const Clock& clock, Outbox& outbox)
      : replicas_(replicas), worker_(worker), clock_(clock), outbox_(outbox), slices_(replicas.size()) {}

  // Sends blocks of the state at `head`, the replica's, or of the copy that the receiver is collecting already: as many
  // as one credit allows. It asks again for the rest.
  void give(const PeerId& to, const LogPull& pull, const LogHead& head);

  void drop_old_copies();  // each is as large as its slice
  size_t bytes() const;    // of all copies

  uint64_t bytes_sent() const { return bytes_sent_; }

 private:
  struct Slice {
    std::deque<std::shared_ptr<const StateCopy>> copies;  // the newest first
    std::vector<PeerId> waiting;                          // for the copy that the worker makes
    bool copying = false;
    TimePoint asked_at;
  };
  void copy(uint32_t slice);
  void send(const PeerId& to, const StateCopy& copy, const Bitmap& missing);

  const std::vector<SliceReplica>& replicas_;
  Worker& worker_;
  const Clock& clock_;
  Outbox& outbox_;
  std::vector<Slice> slices_;
  uint64_t bytes_sent_ = 0;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);  // completions of a destroyed object do nothing
};

}  // namespace starling
