// The donors of one ModelFetch: which member to ask next, and which ones to avoid and for how long.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gossip/clock.h"
#include "gossip/membership/membership.h"
#include "gossip/net/message.h"
#include "gossip/rng.h"

namespace starling {

struct ModelFetchOptions {
  Duration block_timeout = std::chrono::seconds(2);
  uint32_t blocks_in_flight = 8;  // per donor
  uint32_t donors_max = 3;
  std::function<bool(const MemberMeta&)> gives;  // empty: each member with a model may be asked for it
};

// A donor in use.
struct ModelSource {
  uint64_t generation = 0;
  uint64_t nonce = 0;     // which its answers repeat; the same in all requests, as they may be slow
  uint64_t cookie = 0;    // of the donor; 0: it gave none yet
  bool is_newer = false;  // it has repeated its number
  bool is_older = false;  // an answer came in its name as programs give that repeat no number
  ModelOffer offer;       // all hashes, once `ready`
  bool ready = false;
  TimePoint progress;                  // last answer, or the request that ended a pause
  std::map<uint32_t, uint64_t> asked;  // block -> number of the request
  uint64_t requests = 0;
  uint32_t gone = 0;  // times the donor replaced its file since the last block
};

class ModelSources {
 public:
  // `secret`: nobody else may guess it; the numbers of the requests follow from it.
  ModelSources(const ModelFetchOptions& options, const Membership& membership, const Clock& clock, uint64_t rng_seed,
               uint64_t secret);

  // Live agents that train or have trained and are not in use, near the greatest number of steps, in random order.
  // Agents that fell silent come last; agents far behind are left out.
  std::vector<PeerId> choose(size_t count_max);

  std::map<PeerId, ModelSource>& in_use() { return in_use_; }
  const std::map<PeerId, ModelSource>& in_use() const { return in_use_; }
  ModelSource* find(const PeerId& peer);
  // The source with an answer that repeats this number; null: not in use, or it may not have sent the answer.
  ModelSource* find_answering(const PeerId& peer, uint64_t nonce);
  ModelSource& use(const PeerId& peer);

  // Of those in use: the dead, left and restarted ones, and those that owe an answer for too long.
  std::vector<PeerId> departed() const;
  std::vector<PeerId> overdue() const;
  TimePoint next_overdue() const;

  // The reasons to stop with one; each ends its use. The last text is for people.
  void refuse(const PeerId& peer, const std::string& why);       // for good, until it restarts
  void fell_silent(const PeerId& peer);                          // longer each time
  void has_nothing(const PeerId& peer, const std::string& why);  // asked again soon
  void is_gone(const PeerId& peer);                              // dead, left or restarted
  bool count_bad_block(const PeerId& peer);                      // true: that was one too many

  void asked_after_a_pause(const PeerId& peer);
  void asked_block(const PeerId& peer) { ++history_[peer].owed; }
  bool take_owed(const PeerId& peer);                // a block came. False: more have come than were asked for
  void answered(const PeerId& peer);                 // a block came, needed or not
  Duration patience_with(const PeerId& peer) const;  // for the next block
  std::string describe(const PeerId& peer) const;    // short name and address
  const std::string& last_trouble() const { return last_trouble_; }

 private:
  struct History {
    uint64_t generation = 0;
    bool refused = false;
    TimePoint not_before;
    TimePoint busy_since;       // its last block, or the request that ended a pause
    Duration block_interval{};  // about the longest lately
    uint32_t silences = 0, bad_blocks = 0;
    uint64_t owed = 0;  // blocks that it was asked for and that have not come
  };
  void stop(const PeerId& peer, const std::string& why);
  bool is_usable(const Member& member) const;
  uint64_t nonce_for(const PeerId& peer, uint64_t generation) const;
  uint32_t silences_of(const PeerId& peer) const;
  TimePoint due(const PeerId& peer, const ModelSource& source) const;  // of the answer that it owes; max: none

  const ModelFetchOptions& options_;
  const Membership& membership_;
  const Clock& clock_;
  Rng rng_;
  const uint64_t secret_;
  std::map<PeerId, ModelSource> in_use_;
  std::map<PeerId, History> history_;
  std::string last_trouble_;
};

}  // namespace starling
