// Beside a running member or registry. Says which links prove no membership. In a certified swarm it takes what the
// state folder gets meanwhile: revocations where the swarm's key is, else the next ticket. It keeps the revocations
// that the member hears, and warns of a membership that ends and of a machine's clock that is wrong. Control thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "agent/observe/trouble_notice.h"
#include "agent/process/state_folder.h"
#include "agent/process/trust.h"
#include "gossip/clock.h"
#include "gossip/membership/member_clocks.h"
#include "gossip/net/zmq_transport.h"

namespace starling {

class TrustWatch {
 public:
  // All but the functions outlive the object. `revoke` takes revocations, as Membership's does; `others` counts the
  // members that live, this one left out; `lives`: the member does.
  TrustWatch(const StatePlace& place, const Trusted& trusted, ZmqTransport& transport, const Clock& clock,
             MemberClocks& clocks, std::function<void(std::string_view entries)> revoke, std::function<size_t()> others,
             std::function<bool(const PeerId& member)> lives);

  // Throws std::runtime_error, with the remedy: this process is revoked.
  void tick();
  TimePoint next_deadline() const;  // max: there is nothing to watch

 private:
  bool changed(const std::string& name);
  void read_admissions_again();
  void take_next_ticket();
  void keep_ticket(const Ticket& ticket);
  void keep_revocations();
  void warn_of_end();
  void warn_of_others_ends();
  void warn_of_clock();

  const StatePlace& place_;
  ZmqTransport& transport_;
  const Clock& clock_;
  MemberClocks& clocks_;
  const std::function<void(std::string_view entries)> revoke_;
  const std::function<size_t()> others_;
  const std::function<bool(const PeerId& member)> lives_;
  const std::shared_ptr<Revocations> revocations_;  // null: the swarm is not certified
  std::shared_ptr<const MemberKeys> keys_;
  TimePoint next_look_;
  std::string stamp_;      // of the file that is watched
  size_t kept_count_ = 0;  // revocations in the folder
  std::set<PeerId> told_;
  uint64_t next_warning_ = 0;        // seconds since 1970
  std::map<PeerId, uint64_t> ends_;  // of the memberships that were signed here, where they do; likewise
  struct Warned {
    uint64_t end = 0, again_at = 0;  // seconds since 1970
  };
  std::map<PeerId, Warned> warned_;  // of these
  TroubleNotice clock_notice_;
};

}  // namespace starling
