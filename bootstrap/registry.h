// A registry: brings the members of up to kRegistrySwarmsMax swarms together, each by the id of its settings. It has
// one router for each swarm, and knows a swarm from the first agent that joins with its settings until a minute after
// its last member. It checks a text before it serves it, keeps nothing on disk, and may be restricted to one swarm.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bootstrap/path_found.h"
#include "bootstrap/router.h"
#include "bootstrap/twin_watch.h"
#include "gossip/clock.h"
#include "gossip/limits.h"
#include "gossip/membership/options.h"
#include "gossip/net/outbox.h"
#include "gossip/net/transport.h"

namespace starling {

// What a registry has to know of a settings text.
struct SettingsRead {
  std::string problem;  // why nobody can use the text; empty: it is good, and the rest is filled in
  std::string name;     // of the swarm, for people
  MembershipOptions membership;
};

struct RegistryOptions {
  PeerRecord self;
  std::vector<Endpoint> seeds;  // as in RouterOptions; while no swarm lives here, they are asked for theirs
  uint64_t rng_seed = 1;
  uint64_t only = 0;  // the id of the one swarm to serve; 0: any
  std::function<std::string(const std::string&, const std::string&)> compare;  // as in RouterOptions
  // `signature`: of the swarm's key, as in Join and JoinReply; it is judged too.
  std::function<SettingsRead(const std::string& settings, const std::string& signature)> read;
  uint64_t secret = 0;                 // as in RouterOptions
  Revocations* revocations = nullptr;  // likewise
  FindPath find_path{};
  const MemberKeys* keys = nullptr;        // as in RouterOptions
  TwinWatch::Sign sign{};                  // likewise
  std::optional<Endpoint> last_address{};  // of the last process of this identity; nullopt: there was none
};

class Registry final : private Outbox {
 public:
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void on_swarm(const std::string& name, uint64_t id) = 0;  // serves it from now on
    virtual void on_swarm_forgotten(const std::string&, uint64_t) {}  // a minute after its last member was gone
    virtual void on_member(const Membership& membership, const MemberEvent& event) = 0;
  };

  // The transport and the clock outlive the registry.
  Registry(RegistryOptions options, Transport& transport, const Clock& clock);
  ~Registry() override;

  void tick(Listener& listener);
  TimePoint next_deadline() const;
  void announce_leave();                  // in all swarms
  void revoke(std::string_view entries);  // as Membership's

  size_t swarm_count() const { return swarms_.size(); }
  const Router* find(uint64_t swarm_id) const;  // null: not served
  size_t members() const;                       // that live, of all swarms
  void visit(const std::function<void(const Router&)>& use) const;
  std::vector<std::string> take_troubles();   // as Router's, of all swarms
  void move_to(const Endpoint& endpoint);     // likewise
  RouterCounters counters() const;            // of all swarms, and of frames that belong to none
  MemberClocks& clocks() { return clocks_; }  // of the members of all swarms
  TwinWatch& twins() { return twins_; }       // of this identity, in whichever swarm
  const TwinWatch& twins() const { return twins_; }

 private:
  struct Swarm;
  class Seeds;

  void receive(Listener& listener, ReceivedFrame frame);
  bool is_late(const ReceivedFrame& frame, const FrameHeader& header, const Message& message);
  MemberClocks* certified_clocks() { return options_.revocations ? &clocks_ : nullptr; }
  Swarm* swarm_of(Listener& listener, const FrameHeader& header, const Message& message, const std::string& source);
  Swarm* swarm_to_join(Listener& listener, const FrameHeader& header, const Join& join, const std::string& source);
  Swarm* swarm_to_read(const Join& join, const std::string& source);
  const Swarm* swarm_meant(const FrameHeader& header, const Join& join, const SettingsRead& read) const;
  bool let_in(const Join& join, const std::string& source);
  Swarm* begin(Listener& listener, const std::string& settings, const std::string& signature, const SettingsRead& read);
  void begin_as_told(Listener& listener, const JoinReply& reply);
  void seal();  // the own record
  void hear_of_self(const PeerRecord& held);
  void forget_empty(Listener& listener);
  std::vector<Swarm*> living_swarms() const;
  Swarm* largest_of(const std::string& name) const;
  void note_namesake(Swarm& added, Swarm* largest);
  void send(const PeerId& to, const Message& message, SharedBytes payload) override;
  void send(const PeerAddress& to, const Message& message, SharedBytes payload = {}) override;  // of no swarm
  void refuse(const Join& join, const std::string& why, const std::string& settings = "");
  std::string list_swarms() const;

  RegistryOptions options_;
  Transport& transport_;
  const Clock& clock_;
  std::map<uint64_t, std::unique_ptr<Swarm>> swarms_;  // by id
  const uint64_t secret_;                              // of all its routers, since they answer behind one address
  JoinGate gate_;
  TwinWatch twins_;
  MemberClocks clocks_;
  RouterCounters strangers_;
  uint64_t rng_seed_;
  std::unique_ptr<Seeds> seeds_;
};

}  // namespace starling
