// Reads the records of a whole swarm from one of its agents, or from a registry, again and again. It joins nothing: no
// member keeps more of it than the address to answer to. A state machine: no threads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gossip/clock.h"
#include "gossip/membership/member.h"
#include "gossip/net/message.h"
#include "gossip/net/transport.h"

namespace starling {

// All members as the one that answered sees them.
struct SwarmView {
  struct Row {
    PeerRecord record;
    MemberState state = MemberState::kAlive;  // never kLeft
  };
  std::string settings;  // the agreed text; empty: the member has not joined, or the registry knows no swarm
  uint64_t swarm_id = 0;
  PeerRecord teller;
  std::vector<Row> rows;  // by id, the teller's among them; without settings there are none
  TimePoint at;           // when it was complete
};

struct SwarmReaderOptions {
  Endpoint asked;           // an agent or a registry
  uint64_t swarm = 0;       // the swarm to read; 0: the only one there
  Endpoint own;             // where answers are sent
  uint64_t generation = 1;  // of this process, in ms since 1970
  uint64_t secret = 1;      // nobody else may guess it, since the numbers of the questions follow from it
  Duration every = std::chrono::seconds(1);  // a new view
  PeerId self{};                             // where links have keys, the one that the transport proves; zero: any
};

class SwarmReader {
 public:
  // The transport and the clock outlive the reader.
  SwarmReader(const SwarmReaderOptions& options, Transport& transport, const Clock& clock);

  void tick();
  TimePoint next_deadline() const { return next_; }

  const std::optional<SwarmView>& view() const { return view_; }  // the newest whole one
  // The last answer was a refusal: for people, with the remedy. Empty: it was none.
  const std::string& refusal() const { return refusal_; }

 private:
  void ask();
  void take(const FrameHeader& header, const Message& message);
  void take_expired(const PeerId& member);
  void take(const JoinReply& reply, const FrameHeader& header);
  void take(const Sync& page);
  void complete();
  std::string explain(const JoinRefused& refused) const;

  const SwarmReaderOptions options_;
  PeerRecord self_;
  Transport& transport_;
  const Clock& clock_;
  uint64_t asked_ = 0, cookie_ = 0;
  uint64_t nonce_ = 0;  // of the question under way; 0: none
  std::optional<JoinReply> reply_;
  uint64_t swarm_id_ = 0;
  std::vector<std::optional<Sync>> pages_;  // that have come so far
  std::optional<SwarmView> view_;
  std::string refusal_;
  TimePoint next_;
};

}  // namespace starling
