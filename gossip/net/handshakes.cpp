#include "gossip/net/handshakes.h"

#include <zmq.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <stdexcept>

namespace starling {
namespace {

constexpr int kHandshakeEvents = ZMQ_EVENT_CONNECTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED |
                                 ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                                 ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_DISCONNECTED;
constexpr uint32_t kRefusedFrom = 400;                          // from this answer of the other side's gate on
constexpr Duration kBrokenOffWithin = std::chrono::seconds(1);  // a full port waits longer (handshake_ivl)
constexpr int kBrokenHandshakes = 3;                            // in a row: nobody breaks them off by chance
constexpr Duration kLasts = std::chrono::seconds(1);            // a link that is no member's does not
constexpr int kCutLinks = 3;                                    // in a row, likewise

HandshakeEvent event_of(uint16_t kind, uint32_t value) {
  switch (kind) {
    case ZMQ_EVENT_CONNECTED: return HandshakeEvent::kConnected;
    case ZMQ_EVENT_HANDSHAKE_SUCCEEDED: return HandshakeEvent::kSucceeded;
    case ZMQ_EVENT_DISCONNECTED: return HandshakeEvent::kEnded;
    case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
      return value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH ? HandshakeEvent::kOtherKind
                                                                 : HandshakeEvent::kNotTheirs;
    case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
      return value >= kRefusedFrom ? HandshakeEvent::kTurnedAway : HandshakeEvent::kLater;
    default: return HandshakeEvent::kBrokenOff;
  }
}

}  // namespace

HandshakeMonitor::HandshakeMonitor(void* zmq_context, void* zmq_socket) : watched_(zmq_socket) {
  static std::atomic<uint64_t> number = 0;
  const std::string address = "inproc://handshakes." + std::to_string(++number);
  const int none = 0, unlimited = 0;  // ZeroMQ's threads would wait for room
  events_ = ::zmq_socket(zmq_context, ZMQ_PAIR);
  if (events_ && zmq_setsockopt(events_, ZMQ_LINGER, &none, sizeof none) == 0 &&
      zmq_setsockopt(events_, ZMQ_RCVHWM, &unlimited, sizeof unlimited) == 0 &&
      zmq_socket_monitor(watched_, address.c_str(), kHandshakeEvents) == 0 &&
      zmq_connect(events_, address.c_str()) == 0) {
    return;
  }
  (void)zmq_socket_monitor(watched_, nullptr, 0);
  if (events_) zmq_close(events_);
  throw std::runtime_error("cannot watch a link: too many open files; raise the limit (ulimit -n)");
}

HandshakeMonitor::~HandshakeMonitor() {
  if (!events_) return;
  // First: a thread of ZeroMQ would wait for ever to tell a monitor that is gone.
  (void)zmq_socket_monitor(watched_, nullptr, 0);
  zmq_close(events_);
}

std::optional<HandshakeEvent> HandshakeMonitor::next() {
  if (!events_) return std::nullopt;
  char told[sizeof(uint16_t) + sizeof(uint32_t)] = {};
  if (zmq_recv(events_, told, sizeof told, ZMQ_DONTWAIT) < 0) return std::nullopt;
  (void)zmq_recv(events_, nullptr, 0, ZMQ_DONTWAIT);  // the address
  uint16_t kind;
  uint32_t value;
  std::memcpy(&kind, told, sizeof kind);
  std::memcpy(&value, told + sizeof kind, sizeof value);
  return event_of(kind, value);
}

std::optional<HandshakeEvent> HandshakeMonitor::wait_next(int timeout_ms) {
  zmq_pollitem_t told{events_, 0, ZMQ_POLLIN, 0};
  (void)zmq_poll(&told, 1, timeout_ms);
  return next();
}

PeerId ExpectedPeers::id_at(const Endpoint& at) const {
  const auto place = places_.find(at);
  return place == places_.end() ? PeerId{} : place->second.id;
}

bool ExpectedPeers::note(Place& place, HandshakeEvent event, TimePoint now) const {
  switch (event) {
    case HandshakeEvent::kConnected:
      place.connected = now;
      if (std::exchange(place.open, false)) place.judged.reset();  // its end was not told
      return false;
    case HandshakeEvent::kLater: return false;
    case HandshakeEvent::kSucceeded:
      if (place.closed != Closed::kNoMember) place.closed = Closed::kNo;
      place.broken = 0;
      place.open = true;
      return false;
    case HandshakeEvent::kEnded:
      if (keyed_) note_ended(place, now);
      return false;
    case HandshakeEvent::kBrokenOff:
      if (place.closed == Closed::kNoMember) place.closed = Closed::kNo;  // another process is there, or none
      if (now - place.connected < kBrokenOffWithin && ++place.broken >= kBrokenHandshakes &&
          place.closed == Closed::kNo) {
        // A port of the other kind does that too, where its word of it is lost.
        place.closed = keyed_ ? Closed::kOtherKey : Closed::kWantsTicket;
        place.guessed = true;
      }
      return false;
    case HandshakeEvent::kOtherKind: place.closed = keyed_ ? Closed::kHasNoTickets : Closed::kWantsTicket; break;
    case HandshakeEvent::kNotTheirs:
    case HandshakeEvent::kTurnedAway:
      if (keyed_) place.closed = Closed::kOtherKey;
      break;
  }
  place.guessed = false;
  return true;
}

void ExpectedPeers::sent(const Endpoint& at, TimePoint now) {
  const auto place = places_.find(at);
  if (place != places_.end() && !place->second.judged) place->second.judged = now;
}

// The other side judges a link's proof of membership by its first frame, which may come long after the link.
void ExpectedPeers::note_ended(Place& place, TimePoint now) {
  const bool open = std::exchange(place.open, false);
  const std::optional<TimePoint> judged = std::exchange(place.judged, std::nullopt);
  if (!open || !judged) return;
  place.cut = now - *judged < kLasts ? place.cut + 1 : 0;
  if (place.cut < kCutLinks) return;
  place.closed = Closed::kNoMember;
  place.guessed = true;
}

void ExpectedPeers::note_lasting(Place& place, TimePoint now) {
  if (!place.open || !place.judged || now - *place.judged < kLasts) return;
  place.cut = 0;
  if (place.closed == Closed::kNoMember) place.closed = Closed::kNo;
}

std::string ExpectedPeers::why_closed(const Endpoint& at) const {
  const auto place = places_.find(at);
  if (place == places_.end()) return "";
  const std::string to = at.to_string();
  if (keyed_ && place->second.id.is_zero()) {
    return "this swarm has tickets, and none of them names the agent at " + to + ": give it as " + to +
           "#TICKET, which stands in the file `ticket` of the state folder there, or leave this address out";
  }
  switch (place->second.closed) {
    case Closed::kNo: return "";
    case Closed::kWantsTicket:
      return to +
             " lets in nobody without a ticket, or another program listens there: ask for its ticket, which stands in "
             "the file `ticket` of the state folder there, and give the address as " +
             to + "#TICKET";
    case Closed::kHasNoTickets:
      return to +
             " asks for no ticket: an open swarm is there (trust: open), or an older Starling. Start "
             "without the ticket to join that swarm, or upgrade the program there";
    case Closed::kOtherKey:
      return "the ticket does not open " + to +
             ": it is of another swarm, the agent there began anew with another state folder, or it asks for no ticket "
             "(trust: open). Ask for the ticket that stands in that folder now";
    case Closed::kNoMember:
      return to +
             " breaks off each link once it is open. The ticket's membership is of another swarm than its door, or it "
             "has expired or is revoked there. Ask the holder of that swarm's key for the ticket of `starling admit`";
  }
  return "";
}

bool ExpectedPeers::surely_closed(const Endpoint& at) const {
  if (keyed_) return !why_closed(at).empty();
  const auto place = places_.find(at);
  return place != places_.end() && place->second.closed != Closed::kNo && !place->second.guessed;
}

}  // namespace starling
