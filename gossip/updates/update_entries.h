// Entries of one slice's log that arrived, until the log takes them: put together from their parts, decoded once on the
// worker, held until the entry before them is there.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "gossip/updates/slice_replica.h"
#include "gossip/updates/update_log.h"
#include "gossip/updates/update_memory.h"
#include "gossip/updates/update_parts.h"
#include "gossip/updates/update_refusals.h"
#include "gossip/worker.h"

namespace starling {

class UpdateEntries {
 public:
  static constexpr size_t kHeldMax = kRecentEntries;

  // All references must outlive the object. `on_checked`: an entry passed or failed; called from worker completions.
  UpdateEntries(size_t element_count, const UpdateCodecs& codecs, Worker& worker, UpdateRefusals& refusals,
                std::function<void()> on_checked);

  // REQUIRES: the part fits (PartBuffer::fits) and the codec is known. Entries far beyond the log's head are not held.
  void add(const PeerId& from, const LogEntry& entry, const SharedBytes& part, const UpdateLog& log);

  // Appends an entry that follows the log's head, and drops those that cannot follow any more. False: there is none.
  bool append_next(UpdateLog& log);

  // Whether the entry with this hash is here, and all those between it and the log's head.
  bool connects(const Digest16& hash, const UpdateLog& log) const;
  size_t bytes(HeldBytes& held) const;  // that it holds, and `held` has not seen
  bool checking() const;                // an entry is here whole, and the worker still looks at it

 private:
  enum class State { kAssembling, kChecking, kChecked, kBad };
  // The hash that an entry says it has, and one of all that its frames say: one that bears another entry's hash takes
  // nobody's place.
  using Key = std::pair<Digest16, Digest16>;
  struct Item {
    LogEntry entry;
    std::optional<PeerId> from;  // nullopt: several sent its parts
    PartBuffer parts;
    State state = State::kAssembling;
    Digest16 payload_hash{};
    double norm = 0;
  };
  static Key key_of(const LogEntry& entry);
  void check(const Key& key);
  const Item* whole(const Digest16& hash) const;
  void make_room();

  const size_t element_count_;
  const UpdateCodecs& codecs_;
  Worker& worker_;
  UpdateRefusals& refusals_;
  std::function<void()> on_checked_;
  std::map<Key, Item> items_;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);  // completions of a destroyed object do nothing
};

}  // namespace starling
