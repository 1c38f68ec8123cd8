// Moves frames between agents. Promise: best effort. Frames may be lost, doubled or reordered between the two channels;
// nothing blocks but wait_until; payloads are sent without a copy and kept alive by their owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gossip/clock.h"
#include "gossip/peer.h"

namespace starling {

enum class Channel : uint8_t { kControl = 0, kBulk = 1 };

// Read-only bytes kept alive by `owner`, whatever it is (an encoded snapshot, a received message, a mapped file).
struct SharedBytes {
  std::shared_ptr<const void> owner;
  const std::byte* data = nullptr;
  size_t size = 0;
  std::optional<uint64_t> checksum{};  // XXH3-64 of the bytes, where somebody made it while they were in the cache
  std::span<const std::byte> span() const { return {data, size}; }
  bool empty() const { return size == 0; }
  static SharedBytes copy_of(std::span<const std::byte> bytes);
  static SharedBytes take(std::vector<std::byte> bytes);
};

// Bytes that are about to be written, which is cheaper than to zero them first.
class UnsetBytes {
 public:
  explicit UnsetBytes(size_t size) : bytes_(new std::byte[size]), size_(size) {}
  std::span<std::byte> span() const { return {bytes_.get(), size_}; }
  SharedBytes first(size_t size) const { return {bytes_, bytes_.get(), size}; }  // once they are written

 private:
  std::shared_ptr<std::byte[]> bytes_;
  size_t size_;
};

struct Frame {
  std::vector<std::byte> header;  // encoded by wire.h
  SharedBytes payload;            // may be empty: then the frame has one part
  PeerId reader{};                // with keys: the only one that can read it; zero: the peer that is known to be there
  PeerId swarm{};                 // with keys of several: the swarm's key; zero: the first
};

// A frame as it came in. Nothing in it is trusted yet.
struct ReceivedFrame {
  Channel channel = Channel::kControl;
  SharedBytes header;
  SharedBytes payload;
  std::optional<PeerId> authenticated{};  // the sender, proven by its key; empty on links without keys
  PeerId swarm{};                         // its swarm's key, proven likewise; zero on links without keys
  uint64_t not_after = 0;                 // its membership's end, in seconds since 1970; 0: it has none
  std::string source{};                   // the host that sent it, as the connection has it; empty: not known
  int connection = -1;                    // a name of the link, for refuse()
};

// kQueued promises nothing. The others are counted as dropped.
enum class [[nodiscard]] SendStatus { kQueued, kQueueFull, kBadAddress, kTooLarge };

// Links that others opened to this process.
struct LinkCounters {
  uint64_t open = 0;       // now
  uint64_t refused = 0;    // at the bound; a refused peer tries again
  uint64_t cut = 0;        // held too much before it was a frame, brought too many that nobody can read, or was not
                           // its sender's
  uint64_t strangers = 0;  // without the swarm's ticket
};

struct TransportCounters {
  uint64_t frames_sent = 0, frames_received = 0, bytes_sent = 0, bytes_received = 0;
  uint64_t frames_refused = 0;  // wrong number of parts or too large
  uint64_t frames_dropped = 0;  // queues full, links gone
  LinkCounters links;
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual SendStatus send(const Endpoint& to, Channel channel, Frame frame) = 0;
  virtual std::optional<ReceivedFrame> poll() = 0;  // nullopt: nothing now
  virtual void wait_until(TimePoint deadline) = 0;  // a frame, a wake() or the deadline; outermost loop only
  virtual void wake() = 0;                          // from any thread: end a wait_until
  virtual void forget(const Endpoint& peer) = 0;    // close the links to it, drop what is queued
  virtual void refuse(const ReceivedFrame&) {}      // nobody can read it; its link is cut after too many
  virtual void cut(const ReceivedFrame&) {}         // its sender is not the link's owner: the link is cut at once
  virtual Endpoint local() const = 0;               // where it is bound, port known
  virtual TransportCounters counters() const = 0;
};

}  // namespace starling
