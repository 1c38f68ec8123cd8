// What becomes of the links that this process opens: a monitor of one socket's handshakes, and what these have shown of
// the addresses that it expects peers at. So a newcomer learns why no link of its own opens.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "gossip/clock.h"
#include "gossip/peer.h"

namespace starling {

enum class HandshakeEvent : uint8_t {
  kConnected,  // the handshake begins
  kSucceeded,
  kBrokenOff,   // by the other side, or at the time limit
  kOtherKind,   // one side encrypts and the other does not; final
  kNotTheirs,   // the other side has another key; final
  kTurnedAway,  // the own key is none that gets in; final
  kLater,       // at a bound; ZeroMQ tries again
  kEnded        // of a link that was open
};

// Of one socket, which outlives it.
class HandshakeMonitor {
 public:
  HandshakeMonitor() = default;  // of none
  // Before the socket is connected. Throws std::runtime_error: too many files are open.
  HandshakeMonitor(void* zmq_context, void* zmq_socket);
  ~HandshakeMonitor();
  HandshakeMonitor(HandshakeMonitor&& other) noexcept
      : watched_(std::exchange(other.watched_, nullptr)), events_(std::exchange(other.events_, nullptr)) {}
  HandshakeMonitor& operator=(HandshakeMonitor&& other) noexcept {
    std::swap(watched_, other.watched_);
    std::swap(events_, other.events_);
    return *this;
  }

  bool watches() const { return events_ != nullptr; }
  std::optional<HandshakeEvent> next();                     // nullopt: none now
  std::optional<HandshakeEvent> wait_next(int timeout_ms);  // nullopt: none until then

 private:
  void* watched_ = nullptr;
  void* events_ = nullptr;
};

// The addresses that tickets or an earlier life name.
class ExpectedPeers {
 public:
  // `keyed`: this process has the keys of a swarm with tickets.
  explicit ExpectedPeers(bool keyed) : keyed_(keyed) {}

  void expect(const PeerAddress& place) { places_[place.endpoint] = {.id = place.id}; }
  bool empty() const { return places_.empty(); }
  bool contains(const Endpoint& at) const { return places_.contains(at); }
  PeerId id_at(const Endpoint& at) const;  // zero: not known

  // Calls `next_event(endpoint, id)` for each until it gives none, and then `refused(endpoint, id)` where one is final.
  template <typename NextEvent, typename Refused>
  void look(TimePoint now, const NextEvent& next_event, const Refused& refused) {
    for (auto& [at, place] : places_) {
      while (const std::optional<HandshakeEvent> event = next_event(at, place.id)) {
        if (note(place, *event, now)) refused(at, place.id);
      }
      note_lasting(place, now);
    }
  }

  void sent(const Endpoint& at, TimePoint now);  // a frame, over the link to there

  std::string why_closed(const Endpoint& at) const;  // as Transport says; empty: a link opens, or it is not known yet
  bool surely_closed(const Endpoint& at) const;      // that is no guess; with keys a guess is taken for it

 private:
  enum class Closed { kNo, kWantsTicket, kHasNoTickets, kOtherKey, kNoMember };
  struct Place {
    PeerId id;
    Closed closed = Closed::kNo;
    bool guessed = false;
    TimePoint connected;
    int broken = 0;                     // handshakes in a row
    bool open = false;                  // a link is
    std::optional<TimePoint> judged{};  // over it, or before its opening was told, the first frame went
    int cut = 0;                        // links in a row, as soon as they were judged
  };
  bool note(Place& place, HandshakeEvent event, TimePoint now) const;  // true: ZeroMQ does not try again
  static void note_ended(Place& place, TimePoint now);
  static void note_lasting(Place& place, TimePoint now);

  const bool keyed_;
  std::map<Endpoint, Place> places_;
};

}  // namespace starling
