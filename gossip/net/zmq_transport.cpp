#include "gossip/net/zmq_transport.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>
#include <zmq.hpp>

#include "gossip/limits.h"
#include "gossip/net/file_limit.h"
#include "gossip/net/handshakes.h"
#include "gossip/net/link_gate.h"
#include "gossip/net/repeat_limit.h"
#include "gossip/net/zmq_address.h"
#include "kernels/check.h"

namespace starling {
namespace {

constexpr int kSocketsMax = 4096;
constexpr size_t kLinksMax = 2 * (kMembersMax + 128);
constexpr int kPortPairAttempts = 64;
constexpr int kControlStreakMax = 16;  // control frames in a row while bulk waits
constexpr int kRefusedPerPollMax = 64;
constexpr Duration kNumberPatience = std::chrono::milliseconds(1500);  // then another number of the name is tried
constexpr Duration kPendingLife[2] = {std::chrono::seconds(2), std::chrono::seconds(5)};
constexpr size_t kHeaderPartBytesMax = kControlFrameBytesMax;
constexpr size_t kUnfinishedBytesMaxOf[2] = {1024 * 1024, 4 * kBulkFrameBytesMax};  // of one link; more is no message
constexpr size_t kSealBytesMax = 64;                                                // that encryption adds to a part
constexpr size_t kJudgedLinksMax = 16384;                       // remembered; the others are judged anew
constexpr Duration kLookEvery = std::chrono::milliseconds(50);  // at handshakes
constexpr Duration kRefusedLinkLife = std::chrono::seconds(5);  // then another one is tried
constexpr Duration kUnusedLink = std::chrono::seconds(10);      // not up, with nothing to send
constexpr Duration kDeadLink = std::chrono::seconds(30);        // nothing was taken: ZeroMQ may have given it up
constexpr Duration kProofPatience = std::chrono::seconds(10);
constexpr Duration kForeignFirst = std::chrono::minutes(1), kForeignMax = std::chrono::hours(1);
constexpr size_t kPartBytesMax[2] = {kControlFrameBytesMax, kBulkFrameBytesMax};

size_t index_of(Channel channel) { return static_cast<size_t>(channel); }

// Every socket is made here: the options of both channels, side by side.
zmq::socket_t make_socket(zmq::context_t& context, zmq::socket_type type, Channel channel) {
  const bool bulk = channel == Channel::kBulk;
  zmq::socket_t socket(context, type);
  socket.set(zmq::sockopt::linger, 0);                // -1 would keep a leaving agent for ever
  socket.set(zmq::sockopt::sndhwm, bulk ? 64 : 256);  // frames per peer; 8 MiB of 128 KiB payloads
  socket.set(zmq::sockopt::rcvhwm, bulk ? 64 : 1024);
  socket.set(zmq::sockopt::maxmsgsize, static_cast<int64_t>(kPartBytesMax[index_of(channel)] + kSealBytesMax));
  socket.set(zmq::sockopt::handshake_ivl, 3000);  // silent connections give their slot back
  socket.set(zmq::sockopt::reconnect_ivl, 200);
  socket.set(zmq::sockopt::reconnect_ivl_max, 10'000);
  socket.set(zmq::sockopt::connect_timeout, 5000);
  socket.set(zmq::sockopt::tcp_maxrt, bulk ? 30'000 : 15'000);  // finds dead paths; no ZMTP heartbeats
  socket.set(zmq::sockopt::tcp_keepalive, 1);
  socket.set(zmq::sockopt::tcp_keepalive_idle, 15);
  socket.set(zmq::sockopt::tcp_keepalive_intvl, 5);
  socket.set(zmq::sockopt::tcp_keepalive_cnt, 3);
  socket.set(zmq::sockopt::ipv6, 1);
  socket.set(zmq::sockopt::backlog, 256);
  if (type == zmq::socket_type::router) {
    socket.set(zmq::sockopt::router_mandatory, 1);
    socket.set(zmq::sockopt::router_handover, 0);
  } else {
    socket.set(zmq::sockopt::immediate, 1);  // nothing is queued for a peer that is not there
  }
  return socket;
}

uint32_t bound_port(const zmq::socket_t& socket) {
  const std::string address = socket.get(zmq::sockopt::last_endpoint);
  return static_cast<uint32_t>(std::stoul(address.substr(address.rfind(':') + 1)));
}

// Runs on a thread of ZeroMQ's: drops the reference, no more.
void drop_owner(void*, void* hint) { delete static_cast<std::shared_ptr<const void>*>(hint); }

zmq::message_t payload_message(const SharedBytes& payload) {
  auto owner = std::make_unique<std::shared_ptr<const void>>(payload.owner);
  zmq::message_t message(const_cast<std::byte*>(payload.data), payload.size, drop_owner, owner.get());
  owner.release();
  return message;
}

SharedBytes shared(zmq::message_t message) {
  const auto owner = std::make_shared<zmq::message_t>(std::move(message));
  return {owner, owner->data<std::byte>(), owner->size()};
}

void set_curve_client(zmq::socket_t& dealer, const CurveKey& server, const CurvePair& own) {
  const auto set = [&dealer](int option, const CurveKey& key) {
    STARLING_CHECK(zmq_setsockopt(dealer.handle(), option, key.data(), key.size()) == 0);
  };
  set(ZMQ_CURVE_SERVERKEY, server);
  set(ZMQ_CURVE_PUBLICKEY, own.open);
  set(ZMQ_CURVE_SECRETKEY, own.secret);
}

// ZeroMQ's name for a link whose owner has opened another one: what waits in it is lost.
bool is_renamed(const zmq::message_t& routing_id) { return routing_id.size() == 5 && *routing_id.data<char>() == 0; }

struct Pending {
  Frame frame;
  TimePoint expires;
};

// One DEALER, connected to one port of one peer, and what it could not take yet.
struct Link {
  zmq::socket_t socket;
  HandshakeMonitor monitor;            // where handshakes are watched
  std::optional<TimePoint> refused{};  // for good: ZeroMQ does not try again
  Endpoint to;
  Channel channel = Channel::kControl;
  PeerId swarm{};
  std::string number;     // the address of the host that is tried now; empty: its name is being looked up
  std::string connected;  // the same, in ZeroMQ's words
  TimePoint tried;        // since then
  TimePoint taken;        // the last frame, or when it was made
  std::deque<Pending> pending;
  size_t pending_bytes = 0;
  uint64_t last_used = 0;
};

size_t bytes_of(const Frame& frame) { return frame.header.size() + frame.payload.size; }

}  // namespace

struct ZmqContext::Impl {
  explicit Impl(int io_thread_count) : context(io_thread_count, kSocketsMax), gate(context.handle()) {}
  zmq::context_t context;
  LinkGate gate;
};

ZmqContext::ZmqContext(int io_thread_count) {
  raise_file_limit();
  impl_ = std::make_unique<Impl>(io_thread_count);
}

ZmqContext::~ZmqContext() = default;

// Of one swarm: how its members open links, and where they are.
struct Door {
  std::shared_ptr<const MemberKeys> keys;  // null: the swarm is open
  ExpectedPeers expected{keys != nullptr};
  std::string foreign{};  // to be told, of a link without a membership
  RepeatLimit foreign_limit{kForeignFirst, kForeignMax};
};

// All that a holder of the door key can make a log say.
void note_foreign(Door& door, const std::string& source, const char* why, TimePoint now) {
  if (!door.foreign_limit.allows(now)) return;
  door.foreign = "a link from " + source + " is cut: it shows " + why;
}

struct ZmqTransportImpl {
  using LinkKey = std::tuple<Endpoint, Channel, PeerId, PeerId>;  // the reader, and the key of the swarm

  ZmqTransportImpl(zmq::context_t& zmq_context, LinkGate& link_gate, std::shared_ptr<const MemberKeys> member_keys,
                   NameCache::LookUp look_up)
      : context(zmq_context),
        gate(link_gate),
        link_group(gate.new_group()),
        keyed(member_keys != nullptr),
        first(keyed ? member_keys->swarm() : PeerId{}),
        read(gate.frames_read(link_group)),
        link_count_max(std::min(kLinksMax, links_within_file_limit())) {
    wake_fd = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (wake_fd < 0) {
      throw std::runtime_error("cannot make an eventfd: too many open files; raise the limit (ulimit -n)");
    }
    doors.emplace(first, Door{std::move(member_keys)});
    name_doors();
    names.emplace([this] { wake(); }, std::move(look_up));
  }
  ~ZmqTransportImpl() {
    names.reset();  // it wakes
    ::close(wake_fd);
    gate.remove(link_group);
  }

  void bind(const Endpoint& listen);
  bool try_bind(const Endpoint& listen, uint32_t port, bool last_attempt);
  void prove_closed() const;
  void wake() const;
  void name_doors();
  Door* door_of(const PeerId& swarm);
  PeerId shown_by(zmq::message_t& part) const;
  Link* link_to(const Endpoint& to, Channel channel, const PeerId& reader, const PeerId& swarm);
  void prepare(Link& link, const PeerId& reader, const Door& door);
  void look_at_handshakes();
  void close_unused_links();
  void look_at_handshakes(const PeerId& swarm, Door& door);
  const SignedMembership* member_of(const PeerId& swarm, const zmq::message_t& routing_id, const std::string& source);
  bool connect(Link& link);
  void try_next_number(Link& link);
  void evict_oldest_link();
  void close_link(std::map<LinkKey, Link>::iterator link);
  void close_links_of(const PeerId& swarm, const Endpoint* to = nullptr);
  bool send_now(Link& link, const Frame& frame);
  void flush(Link& link);
  void flush_all();
  std::optional<ReceivedFrame> receive(Channel channel, bool* refused);
  int wait_for_events(int timeout_ms);

  zmq::context_t& context;
  LinkGate& gate;
  const uint64_t link_group;
  const bool keyed;              // false: the transport is open
  const PeerId first;            // its first swarm; zero: open
  std::map<PeerId, Door> doors;  // by the key of the swarm
  FramesRead& read;
  zmq::socket_t routers[2];
  Endpoint local;
  int wake_fd = -1;
  std::map<LinkKey, Link> links;
  std::map<LinkKey, Link*> waiting;  // the links with something pending
  TimePoint next_look, next_unused;
  std::unordered_map<std::string, std::optional<SignedMembership>> judged;  // links of others, by swarm and routing id
  uint64_t own_strangers = 0;                                               // of prove_closed()
  size_t link_count_max;
  uint64_t use_count = 0;
  int control_streak = 0;
  TransportCounters counters;
  SteadyClock clock;
  std::optional<NameCache> names;
  std::map<std::string, std::string> good_numbers;  // of names, the one that was reached last
};

void ZmqTransportImpl::bind(const Endpoint& listen) {
  if (!Endpoint::is_valid_host(listen.host) || listen.port == 65535) {
    throw std::runtime_error("cannot listen on " + listen.to_string() +
                             ": no such address, or no port after it; "
                             "use --listen HOST:PORT with a port below 65535");
  }
  const int attempts = listen.port ? 1 : kPortPairAttempts;
  for (int i = 1; i <= attempts; ++i) {
    if (try_bind(listen, listen.port, i == attempts)) break;
  }
  if (!keyed) return;
  prove_closed();
  own_strangers = gate.counters(link_group).strangers;
}

// Ports that let in whoever comes would look like any others. So a key that nobody has is shown to both.
void ZmqTransportImpl::prove_closed() const {
  const bool all = local.host == "0.0.0.0" || local.host == "*";
  const std::string host = all ? "127.0.0.1" : local.host == "::" ? "::1" : local.host;
  for (const Channel channel : {Channel::kControl, Channel::kBulk}) {
    zmq::socket_t stranger = make_socket(context, zmq::socket_type::dealer, channel);
    set_curve_client(stranger, curve_public(doors.at(first).keys->self()).value(), curve_pair(random_seed()));
    HandshakeMonitor monitor(context.handle(), stranger.handle());
    stranger.connect(zmq_address(host, uint32_t{local.port} + index_of(channel)));
    std::optional<HandshakeEvent> event;
    const TimePoint deadline = clock.now() + kProofPatience;
    do {  // a handshake that lasts too long, on a busy machine, is tried again
      event = monitor.wait_next(100);
    } while ((!event || event == HandshakeEvent::kConnected || event == HandshakeEvent::kBrokenOff) &&
             clock.now() < deadline);
    if (event == HandshakeEvent::kTurnedAway || event == HandshakeEvent::kLater) continue;
    throw std::runtime_error(
        "the ports of this agent " +
        std::string(event == HandshakeEvent::kSucceeded
                        ? "let in a stranger without a ticket: this build of ZeroMQ lacks CURVE or ZAP"
                        : "do not answer a test at " + host + ":" + std::to_string(local.port) +
                              ": a firewall closes them on this machine, or it is overloaded") +
        "; nothing was started. Report it, or begin a swarm without tickets (trust: open)");
  }
}

// False: the port after the one that the system chose is taken.
bool ZmqTransportImpl::try_bind(const Endpoint& listen, uint32_t port, bool last_attempt) {
  for (const Channel channel : {Channel::kControl, Channel::kBulk}) {
    zmq::socket_t& router = routers[index_of(channel)];
    router = make_socket(context, zmq::socket_type::router, channel);
    gate.guard(link_group, router.handle(), kUnfinishedBytesMaxOf[index_of(channel)],
               keyed ? &doors.at(first).keys->port_secret() : nullptr);
    try {
      router.bind(zmq_listen_address(listen, port));
    } catch (const zmq::error_t& error) {
      const bool chosen = listen.port == 0 && channel == Channel::kBulk;
      if (chosen && !last_attempt && error.num() == EADDRINUSE) return false;
      throw_listen_failed({listen.host, static_cast<uint16_t>(port)}, error.num(), error.what());
    }
    if (channel == Channel::kBulk) break;
    port = bound_port(router);
    local = {listen.host, static_cast<uint16_t>(port)};
    if (port == 65535) return false;  // only a chosen one can be
    ++port;
  }
  return true;
}

void ZmqTransportImpl::name_doors() {
  std::map<CurveKey, PeerId> swarms;
  for (const auto& [swarm, door] : doors) {
    if (door.keys) swarms[door.keys->door().open] = swarm;
  }
  gate.set_doors(link_group, std::move(swarms));
}

// `swarm` zero: the first. nullptr: it is closed.
Door* ZmqTransportImpl::door_of(const PeerId& swarm) {
  const auto found = doors.find(swarm.is_zero() ? first : swarm);
  return found == doors.end() ? nullptr : &found->second;
}

// Of a part that came in: the swarm of its link's door key, as the gate has it.
PeerId ZmqTransportImpl::shown_by(zmq::message_t& part) const {
  const char* swarm = keyed ? zmq_msg_gets(part.handle(), "User-Id") : nullptr;
  return PeerId::parse(swarm ? swarm : "").value_or(PeerId{});
}

// nullptr: no socket can be had, the swarm is closed, or the address means nothing to ZeroMQ.
Link* ZmqTransportImpl::link_to(const Endpoint& to, Channel channel, const PeerId& reader, const PeerId& swarm) {
  const LinkKey key{to, channel, reader, swarm};
  auto found = links.find(key);
  if (found != links.end() && found->second.refused && clock.now() - *found->second.refused >= kRefusedLinkLife) {
    close_link(found);
    found = links.end();
  }
  if (found == links.end()) {
    const Door* const door = door_of(swarm);
    if (!door || (keyed && !curve_public(reader))) return nullptr;  // nobody can have this key
    if (links.size() >= link_count_max) evict_oldest_link();
    try {
      Link link{.socket = make_socket(context, zmq::socket_type::dealer, channel),
                .monitor = {},
                .to = to,
                .channel = channel,
                .swarm = swarm};
      link.taken = clock.now();
      prepare(link, reader, *door);
      if (!connect(link)) return nullptr;
      found = links.emplace(key, std::move(link)).first;
    } catch (const zmq::error_t&) {
      return nullptr;
    } catch (const std::runtime_error&) {
      return nullptr;
    }
  }
  found->second.last_used = ++use_count;
  return &found->second;
}

// REQUIRES: somebody can have the reader's key.
void ZmqTransportImpl::prepare(Link& link, const PeerId& reader, const Door& door) {
  if (door.keys) {
    set_curve_client(link.socket, curve_public(reader).value(), door.keys->door());
    link.socket.set(zmq::sockopt::routing_id, door.keys->proof_for(reader));
  }
  if (link.channel == Channel::kControl && door.expected.contains(link.to)) {
    link.monitor = HandshakeMonitor(context.handle(), link.socket.handle());
  }
}

void ZmqTransportImpl::look_at_handshakes() {
  if (clock.now() < next_look) return;
  next_look = clock.now() + kLookEvery;
  for (auto& [swarm, door] : doors) look_at_handshakes(swarm, door);
  close_unused_links();
}

// ZeroMQ would knock for ever, several times a second where another process has taken over the port. A bulk link that
// takes nothing may be full for minutes; where the control link is not up, it is not either.
void ZmqTransportImpl::close_unused_links() {
  const TimePoint now = clock.now();
  if (now < next_unused) return;
  next_unused = now + kUnusedLink / 2;
  const auto unused = [](const Link& link) {
    return link.pending.empty() && (link.socket.get(zmq::sockopt::events) & ZMQ_POLLOUT) == 0;
  };
  std::vector<LinkKey> closed;
  for (const auto& [key, link] : links) {
    if (link.channel == Channel::kControl && now - link.taken >= kUnusedLink && unused(link)) closed.push_back(key);
  }
  for (LinkKey& key : closed) {
    close_link(links.find(key));
    std::get<Channel>(key) = Channel::kBulk;
    const auto bulk = links.find(key);
    if (bulk != links.end() && unused(bulk->second)) close_link(bulk);
  }
}

void ZmqTransportImpl::look_at_handshakes(const PeerId& swarm, Door& door) {
  const auto link_of = [this, &swarm](const Endpoint& at, const PeerId& id) {
    return links.find({at, Channel::kControl, keyed ? id : PeerId{}, swarm});
  };
  const TimePoint now = clock.now();
  door.expected.look(
      now,
      [&](const Endpoint& at, const PeerId& id) {
        const auto link = link_of(at, id);
        return link == links.end() ? std::nullopt : link->second.monitor.next();
      },
      [&](const Endpoint& at, const PeerId& id) { link_of(at, id)->second.refused = now; });
}

// Where the host is a name whose number is not known yet, or is another one by now, it is looked up elsewhere; the
// link's frames wait meanwhile as they do for one that is not up. False: the address means nothing to ZeroMQ.
bool ZmqTransportImpl::connect(Link& link) {
  const std::vector<std::string> numbers = names->find(link.to.host);
  if (numbers.empty()) return true;
  const auto has = [&numbers](const std::string& number) {
    return std::find(numbers.begin(), numbers.end(), number) != numbers.end();
  };
  if (!has(link.number)) {
    const auto good = good_numbers.find(link.to.host);
    link.number = good != good_numbers.end() && has(good->second) ? good->second : numbers.front();
    link.tried = clock.now();
  }
  const std::string address = zmq_address(link.number, uint32_t{link.to.port} + (link.channel == Channel::kBulk));
  if (address == link.connected) return true;
  try {
    if (!link.connected.empty()) link.socket.disconnect(std::exchange(link.connected, {}));
    link.socket.connect(address);
  } catch (const zmq::error_t&) {
    return false;
  }
  link.connected = address;
  return true;
}

// Nobody is there: perhaps the name has moved, or another one of its numbers is reached.
void ZmqTransportImpl::try_next_number(Link& link) {
  const std::vector<std::string> numbers = names->find(link.to.host);
  const auto now = std::find(numbers.begin(), numbers.end(), link.number);
  if (now != numbers.end() && clock.now() - link.tried >= kNumberPatience) {
    link.number = now + 1 == numbers.end() ? numbers.front() : *(now + 1);
    link.tried = clock.now();
  }
  (void)connect(link);
}

void ZmqTransportImpl::evict_oldest_link() {
  const auto oldest = std::min_element(
      links.begin(), links.end(), [](const auto& a, const auto& b) { return a.second.last_used < b.second.last_used; });
  if (oldest != links.end()) close_link(oldest);
}

void ZmqTransportImpl::close_link(std::map<LinkKey, Link>::iterator link) {
  counters.frames_dropped += link->second.pending.size();
  waiting.erase(link->first);
  links.erase(link);
}

// `to`: only those to there; null: all.
void ZmqTransportImpl::close_links_of(const PeerId& swarm, const Endpoint* to) {
  auto link = to ? links.lower_bound({*to, Channel::kControl, PeerId{}, PeerId{}}) : links.begin();
  while (link != links.end() && (!to || std::get<Endpoint>(link->first) == *to)) {
    const auto one = link++;
    if (std::get<3>(one->first) == swarm) close_link(one);
  }
}

// False: not now. A frame whose link broke between its two parts is lost, like any other on a broken link.
bool ZmqTransportImpl::send_now(Link& link, const Frame& frame) {
  const bool two_parts = !frame.payload.empty();
  zmq::message_t header(frame.header.data(), frame.header.size());
  const auto more = two_parts ? zmq::send_flags::sndmore : zmq::send_flags::none;
  try {
    if (!link.socket.send(header, zmq::send_flags::dontwait | more)) return false;
    if (two_parts) {
      zmq::message_t payload = payload_message(frame.payload);
      if (!link.socket.send(payload, zmq::send_flags::dontwait)) {
        ++counters.frames_dropped;
        return true;
      }
    }
  } catch (const zmq::error_t& error) {
    if (error.num() == EINTR) return false;
    ++counters.frames_dropped;
    return true;
  }
  ++counters.frames_sent;
  counters.bytes_sent += bytes_of(frame);
  link.tried = link.taken = clock.now();
  if (link.monitor.watches()) door_of(link.swarm)->expected.sent(link.to, link.taken);
  if (link.number != link.to.host && good_numbers.size() < kLinksMax) good_numbers[link.to.host] = link.number;
  return true;
}

void ZmqTransportImpl::flush(Link& link) {
  if (link.connected.empty()) (void)connect(link);
  while (!link.pending.empty()) {
    const Pending& first = link.pending.front();
    if (clock.now() >= first.expires) {
      ++counters.frames_dropped;
      try_next_number(link);
      if (keyed && !link.refused && clock.now() - link.taken >= kDeadLink) link.refused = clock.now();
    } else if (!send_now(link, first.frame)) {
      return;
    }
    link.pending_bytes -= bytes_of(first.frame);
    link.pending.pop_front();
  }
}

void ZmqTransportImpl::flush_all() {
  std::erase_if(waiting, [this](const auto& item) {
    flush(*item.second);
    return item.second->pending.empty();
  });
}

// Null: the link is of no member, and never was. Its time may be over.
const SignedMembership* ZmqTransportImpl::member_of(const PeerId& swarm, const zmq::message_t& routing_id,
                                                    const std::string& source) {
  const auto door = doors.find(swarm);
  if (door == doors.end() || is_renamed(routing_id)) return nullptr;
  const std::string_view proof(routing_id.data<char>(), routing_id.size());
  std::string link(swarm.bytes.begin(), swarm.bytes.end());
  link += proof;
  auto found = judged.find(link);
  if (found == judged.end()) {
    const char* why = "";
    const std::optional<SignedMembership> member = door->second.keys->judge(proof, &why);
    if (!member) note_foreign(door->second, source, why, clock.now());
    if (judged.size() >= kJudgedLinksMax) judged.clear();
    found = judged.emplace(std::move(link), member).first;
  }
  return found->second ? &*found->second : nullptr;
}

std::optional<ReceivedFrame> ZmqTransportImpl::receive(Channel channel, bool* refused) {
  zmq::socket_t& router = routers[index_of(channel)];
  zmq::message_t routing_id, parts[2];
  size_t part_count = 0;
  try {
    if (!router.recv(routing_id, zmq::recv_flags::dontwait)) return std::nullopt;
    for (bool more = routing_id.more(); more; ++part_count) {
      zmq::message_t surplus;
      zmq::message_t& part = part_count < 2 ? parts[part_count] : surplus;
      if (!router.recv(part, zmq::recv_flags::dontwait)) break;  // parts come together, so this cannot be
      more = part.more();
    }
  } catch (const zmq::error_t& error) {
    STARLING_CHECK(error.num() == EINTR);
    return std::nullopt;
  }
  const char* source = zmq_msg_gets(parts[0].handle(), "Peer-Address");
  const char* connection = zmq_msg_gets(parts[0].handle(), "__fd");  // the value of ZMQ_SRCFD
  ReceivedFrame frame{.channel = channel, .source = source ? source : ""};
  if (connection) frame.connection = std::atoi(connection);
  read.set_idle(false);
  read.add(frame.connection);
  if (part_count < 1 || part_count > 2 || parts[0].size() > kHeaderPartBytesMax || parts[1].size() > kPayloadBytesMax) {
    *refused = true;
    ++counters.frames_refused;
    gate.frame_refused(link_group, frame.connection, frame.source);
    return std::nullopt;
  }
  frame.swarm = shown_by(parts[0]);
  const SignedMembership* const member = keyed ? member_of(frame.swarm, routing_id, frame.source) : nullptr;
  if (keyed && !member) {  // counted with the link that is cut
    *refused = true;
    // The connection of a renamed link may be its owner's new one by now.
    if (is_renamed(routing_id)) {
      gate.frame_refused(link_group, frame.connection, frame.source);
    } else {
      gate.cut(link_group, frame.connection, frame.source);
    }
    return std::nullopt;
  }
  if (member) {
    frame.authenticated = member->id;
    frame.not_after = member->not_after;
  }
  ++counters.frames_received;
  counters.bytes_received += parts[0].size() + parts[1].size();
  frame.header = shared(std::move(parts[0]));
  if (part_count == 2) frame.payload = shared(std::move(parts[1]));
  return frame;
}

void ZmqTransportImpl::wake() const {
  const uint64_t one = 1;
  // A full counter (EAGAIN) has woken it already.
  if (::write(wake_fd, &one, sizeof one) < 0) STARLING_CHECK(errno == EAGAIN || errno == EINTR);
}

// The result of zmq_poll: frames and wakes only; -1 when a signal came.
int ZmqTransportImpl::wait_for_events(int timeout_ms) {
  std::vector<zmq_pollitem_t> items = {{routers[0].handle(), 0, ZMQ_POLLIN, 0},
                                       {routers[1].handle(), 0, ZMQ_POLLIN, 0},
                                       {nullptr, wake_fd, ZMQ_POLLIN, 0}};
  for (const auto& [key, link] : waiting) items.push_back({link->socket.handle(), 0, ZMQ_POLLOUT, 0});
  if (zmq_poll(items.data(), static_cast<int>(items.size()), timeout_ms) < 0) return -1;
  uint64_t wakes;
  if (items[2].revents && ::read(wake_fd, &wakes, sizeof wakes) < 0) STARLING_CHECK(errno == EAGAIN);
  return (items[0].revents != 0) + (items[1].revents != 0) + (items[2].revents != 0);
}

ZmqTransport::ZmqTransport(const Endpoint& listen, ZmqContext& context, std::shared_ptr<const MemberKeys> keys,
                           NameCache::LookUp look_up)
    : impl_(std::make_unique<ZmqTransportImpl>(context.impl_->context, context.impl_->gate, std::move(keys),
                                               std::move(look_up))) {
  impl_->bind(listen);
}

ZmqTransport::~ZmqTransport() = default;

SendStatus ZmqTransport::send(const Endpoint& to, Channel channel, Frame frame) {
  ZmqTransportImpl& impl = *impl_;
  const bool good_port = to.port != 0 && (channel == Channel::kControl || to.port != 65535);
  const PeerId swarm = frame.swarm.is_zero() ? impl.first : frame.swarm;
  const Door* const door = impl.door_of(swarm);
  PeerId reader = impl.keyed ? frame.reader : PeerId{};
  if (impl.keyed && reader.is_zero() && door) reader = door->expected.id_at(to);
  Link* link = nullptr;
  SendStatus status = SendStatus::kQueued;
  if (frame.header.size() > kHeaderPartBytesMax || frame.payload.size > kPayloadBytesMax) {
    status = SendStatus::kTooLarge;
  } else if (!good_port || !Endpoint::is_valid_host(to.host)) {
    status = SendStatus::kBadAddress;
  } else if ((impl.keyed && reader.is_zero()) || !(link = impl.link_to(to, channel, reader, swarm))) {
    status = SendStatus::kBadAddress;
  }
  if (status != SendStatus::kQueued) {
    ++impl.counters.frames_dropped;
    return status;
  }
  impl.flush(*link);
  if (link->pending.empty() && impl.send_now(*link, frame)) return SendStatus::kQueued;
  const size_t bytes = bytes_of(frame);
  if (link->pending.size() >= kPendingFramesPerPeerMax || link->pending_bytes + bytes > kPendingBytesPerPeerMax) {
    ++impl.counters.frames_dropped;
    return SendStatus::kQueueFull;
  }
  link->pending.push_back({std::move(frame), impl.clock.now() + kPendingLife[index_of(channel)]});
  link->pending_bytes += bytes;
  impl.waiting[{to, channel, reader, swarm}] = link;
  return SendStatus::kQueued;
}

std::optional<ReceivedFrame> ZmqTransport::poll() {
  ZmqTransportImpl& impl = *impl_;
  impl.flush_all();
  impl.look_at_handshakes();
  for (int refused_count = 0; refused_count < kRefusedPerPollMax;) {
    const bool bulk_first = impl.control_streak >= kControlStreakMax;
    const Channel order[2] = {bulk_first ? Channel::kBulk : Channel::kControl,
                              bulk_first ? Channel::kControl : Channel::kBulk};
    bool refused = false;
    for (const Channel channel : order) {
      std::optional<ReceivedFrame> frame = impl.receive(channel, &refused);
      if (frame || refused || bulk_first) {
        impl.control_streak = channel == Channel::kControl ? impl.control_streak + 1 : 0;
      }
      if (frame) return frame;
      if (refused) break;
    }
    if (!refused) {
      impl.read.set_idle(true);
      return std::nullopt;
    }
    ++refused_count;
  }
  return std::nullopt;
}

void ZmqTransport::wait_until(TimePoint deadline) {
  constexpr Duration kLongest = std::chrono::minutes(1);
  while (true) {
    impl_->flush_all();
    const TimePoint now = impl_->clock.now();
    const Duration left = deadline <= now ? Duration(0) : std::min(deadline - now, kLongest);
    const auto left_ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
    if (impl_->wait_for_events(static_cast<int>(left_ms)) != 0 || impl_->clock.now() >= deadline) return;
  }
}

void ZmqTransport::wake() { impl_->wake(); }

void ZmqTransport::forget(const Endpoint& peer) {
  for (const auto& [swarm, door] : impl_->doors) forget(peer, swarm);
}

void ZmqTransport::forget(const Endpoint& peer, const PeerId& swarm) { impl_->close_links_of(swarm, &peer); }

void ZmqTransport::open_to(std::shared_ptr<const MemberKeys> keys) {
  STARLING_CHECK(impl_->keyed && keys && !impl_->doors.contains(keys->swarm()));
  for (const auto& [swarm, door] : impl_->doors) {
    STARLING_CHECK(keys->self() == door.keys->self());
    if (keys->door().open != door.keys->door().open) continue;
    throw std::invalid_argument(
        "its ticket opens the door of another swarm here, so the two cannot be told apart: take the ticket of "
        "`starling admit " +
        keys->self().hex() + "` of the holder of its key");
  }
  const PeerId swarm = keys->swarm();
  impl_->doors.emplace(swarm, Door{std::move(keys)});
  impl_->name_doors();
}

void ZmqTransport::close_to(const PeerId& swarm) {
  impl_->doors.erase(swarm);
  impl_->name_doors();
  impl_->close_links_of(swarm);
}

void ZmqTransport::expect_at(const PeerAddress& place, const PeerId& swarm) {
  if (Door* door = impl_->door_of(swarm)) door->expected.expect(place);
}

std::string ZmqTransport::why_closed(const Endpoint& at, const PeerId& swarm) const {
  const Door* door = impl_->door_of(swarm);
  return door ? door->expected.why_closed(at) : "";
}

bool ZmqTransport::surely_closed(const Endpoint& at) const {
  const Door* door = impl_->door_of({});
  return door && door->expected.surely_closed(at);
}

std::string ZmqTransport::take_foreign(const PeerId& swarm) {
  Door* door = impl_->door_of(swarm);
  return door ? std::exchange(door->foreign, {}) : "";
}

void ZmqTransport::renew(std::shared_ptr<const MemberKeys> keys) {
  Door& door = impl_->doors.at(keys->swarm());
  STARLING_CHECK(keys->self() == door.keys->self() && keys->door().open == door.keys->door().open);
  const PeerId swarm = keys->swarm();
  door.keys = std::move(keys);
  impl_->close_links_of(swarm);
}

void ZmqTransport::cut(const ReceivedFrame& frame) {
  impl_->gate.cut(impl_->link_group, frame.connection, frame.source);
}

void ZmqTransport::refuse(const ReceivedFrame& frame) {
  impl_->gate.frame_refused(impl_->link_group, frame.connection, frame.source);
}

Endpoint ZmqTransport::local() const { return impl_->local; }

TransportCounters ZmqTransport::counters() const {
  TransportCounters counters = impl_->counters;
  counters.links = impl_->gate.counters(impl_->link_group);
  counters.links.strangers -= impl_->own_strangers;
  return counters;
}

void ZmqTransport::expect_members(size_t count) {
  const size_t most = kLinksPerMemberMax * count + kStrangerLinksMax;
  impl_->gate.set_most(impl_->link_group, std::min(most, links_within_file_limit()));
}

}  // namespace starling
