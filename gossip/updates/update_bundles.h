// Frames of updates that wait for others of the same bucket and receiver, to travel with them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gossip/net/message.h"
#include "gossip/net/outbox.h"

namespace starling {

// What a contribution takes beside its payload, an entry, each payload that it counts, and the frame around them.
inline constexpr size_t kContributionHeaderBytes = 160, kEntryHeaderBytes = 192, kCountedBytes = 56;
inline constexpr size_t kFrameHeaderBytes = 104;

class UpdateBundles {
 public:
  explicit UpdateBundles(Outbox& outbox) : outbox_(outbox) {}  // it outlives the object

  void hold() { holds_ = true; }
  bool holds() const { return holds_; }
  // REQUIRES: holds(), and the message is one part.
  template <class UpdateMessage>
  void add(const PeerId& to, uint32_t bucket, const UpdateMessage& message, const SharedBytes& payload) {
    Waiting& waiting = waiting_for(to, bucket, payload.size, header_bytes(message));
    list_of<UpdateMessage>(waiting.bundle).push_back(message);
    payloads_of<UpdateMessage>(waiting).push_back(payload);
  }
  void release();                            // sends all, in the order in which the first of each bucket came
  uint64_t saved() const { return saved_; }  // frames that were not sent, since they travelled with others

 private:
  struct Waiting {
    PeerId to;
    uint32_t bucket = 0;
    UpdateBundle bundle;
    std::vector<SharedBytes> contributions, entries;  // payloads
    size_t payload_bytes = 0, header_bytes = 0;
    size_t count() const { return contributions.size() + entries.size(); }
  };
  static size_t header_bytes(const Contribution&) { return kContributionHeaderBytes; }
  static size_t header_bytes(const LogEntry& entry) {
    return kEntryHeaderBytes + entry.plan.size() + kCountedBytes * entry.counted.size();
  }
  template <class UpdateMessage>
  static std::vector<UpdateMessage>& list_of(UpdateBundle& bundle) {
    if constexpr (std::is_same_v<UpdateMessage, Contribution>)
      return bundle.contributions;
    else
      return bundle.entries;
  }
  template <class UpdateMessage>
  static std::vector<SharedBytes>& payloads_of(Waiting& waiting) {
    if constexpr (std::is_same_v<UpdateMessage, Contribution>)
      return waiting.contributions;
    else
      return waiting.entries;
  }
  Waiting& waiting_for(const PeerId& to, uint32_t bucket, size_t payload_bytes, size_t header_bytes);
  void send(Waiting& waiting);

  Outbox& outbox_;
  bool holds_ = false;
  std::vector<Waiting> waiting_;
  uint64_t saved_ = 0;
};

// The payloads of a bundle, each in memory of its own: one may be kept for long after the others.
// REQUIRES: the sizes add up to the payload's.
std::vector<SharedBytes> payloads_of(const UpdateBundle& bundle, const SharedBytes& payload);

}  // namespace starling
