#include "gossip/net/link_gate.h"

#include <malloc.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gossip/clock.h"
#include "gossip/limits.h"
#include "gossip/net/open_links.h"
#include "kernels/check.h"

namespace starling {
namespace {

constexpr int kEvents =
    ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_MONITOR_STOPPED | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL;
constexpr Duration kLately = std::chrono::seconds(4);  // longer than a handshake may take (zmq_transport.cpp)
constexpr int kAgeEveryMs = 500;
constexpr Duration kMeasureEvery = std::chrono::milliseconds(10);     // a fast link brings 10 MB meanwhile
constexpr Duration kMeasureEachLink = std::chrono::microseconds(20);  // beside it: a link costs a microsecond
constexpr Duration kNeverIdle = std::chrono::milliseconds(200);       // then a busy reader protects nobody
constexpr Duration kStrikesLast = std::chrono::minutes(1);
constexpr size_t kStrikeSourcesMax = 1024;
constexpr size_t kClosedWorthATrim = 64;  // links, of some 28 KiB each
constexpr const char* kLetIn = "200";
constexpr const char* kLater = "300";  // its owner tries again; with 400 and 500 it never would
constexpr const char* kNever = "400";
constexpr int kEnforceDomain = 93;  // ZMQ_ZAP_ENFORCE_DOMAIN, a draft in the header: no answer lets nobody in

struct Event {
  uint16_t kind = 0;
  int32_t value = 0;  // the connection's file descriptor
};

// All parts of the next message; empty: there is none.
std::vector<std::string> receive(void* socket) {
  std::vector<std::string> parts;
  for (bool more = true; more;) {
    zmq_msg_t part;
    zmq_msg_init(&part);
    if (zmq_msg_recv(&part, socket, ZMQ_DONTWAIT) < 0) return {};
    parts.emplace_back(static_cast<const char*>(zmq_msg_data(&part)), zmq_msg_size(&part));
    more = zmq_msg_more(&part) != 0;
    zmq_msg_close(&part);
  }
  return parts;
}

std::optional<Event> receive_event(void* monitor) {
  const std::vector<std::string> parts = receive(monitor);
  if (parts.empty() || parts[0].size() < sizeof(uint16_t) + sizeof(int32_t)) return std::nullopt;
  Event event;
  std::memcpy(&event.kind, parts[0].data(), sizeof event.kind);
  std::memcpy(&event.value, parts[0].data() + sizeof event.kind, sizeof event.value);
  return event;
}

// A link may be open and yet turned away: ZeroMQ closes it at the time limit of its handshake, and until then nothing
// tells it from another of its host. So what counts is who was let in lately, and every link that is older than that.
struct Count {
  size_t old = 0, lately = 0;
  size_t sum() const { return old + lately; }
};

struct Strikes {
  uint32_t count = 0;
  TimePoint since;
};

struct Group {
  size_t most = kStrangerLinksMax;
  uint64_t refused = 0, cut = 0, strangers = 0;
  bool closed = false;  // to all but the doors
  std::map<CurveKey, PeerId> doors;
  std::shared_ptr<FramesRead> read = std::make_shared<FramesRead>();
  TimePoint idle;  // the reader, last seen so
  std::map<std::string, Strikes> strikes;
  std::map<int, std::string> to_cut;  // links and their sources
  Count all;
  std::map<std::string, Count> by_source;
  std::deque<std::pair<TimePoint, std::string>> let_in;  // lately

  bool takes(const std::string& source, TimePoint now) {
    age(now);
    const auto found = by_source.find(source);
    const size_t own = found == by_source.end() ? 0 : found->second.sum();
    if (all.sum() >= most || own >= std::max<size_t>(1, most / 2)) return false;
    let_in.emplace_back(now, source);
    add(&Count::lately, source, 1);
    return true;
  }
  void add(size_t Count::* kind, const std::string& source, int change) {
    Count& own = by_source[source];
    for (Count* count : {&all, &own}) count->*kind += static_cast<size_t>(change);
    if (own.sum() == 0) by_source.erase(source);
  }
  void age(TimePoint now) {
    for (; !let_in.empty() && now - let_in.front().first >= kLately; let_in.pop_front()) {
      add(&Count::lately, std::string(let_in.front().second), -1);
    }
  }
};

struct Monitor {
  void* socket = nullptr;
  uint64_t group = 0;
  size_t unfinished_max = 0;
  std::shared_ptr<FramesRead> read;
  OpenLinks links{kLately};
  LinkLoads loads{};

  static void count_old(Group* group, const std::vector<std::string>& sources, int change) {
    for (const std::string& source : sources) {
      if (group) group->add(&Count::old, source, change);
    }
  }
};

}  // namespace

struct LinkGate::Impl {
  void run();
  bool tick();  // false: ended
  bool take_events(Monitor& monitor, TimePoint now);
  void judge_all(TimePoint now);
  void cut_refused();
  void measure(TimePoint now);
  int patience_ms(TimePoint now) const;
  std::string judge(const std::vector<std::string>& question, TimePoint now, std::string* swarm);

  void* context = nullptr;
  void* questions = nullptr;  // the thread's
  int wake_fd = -1;
  std::vector<Monitor> monitors;  // the thread's
  bool ages = false;              // the thread's: some links do
  size_t closed_count = 0;        // the thread's: links, since memory was last worth giving back
  int trims_due = 0;              // the thread's
  TimePoint next_measure{}, next_trim{};
  SteadyClock clock;
  mutable std::mutex mutex;  // for all below
  std::vector<Monitor> added;
  std::map<uint64_t, Group> groups;
  uint64_t next_group = 1, next_monitor = 1;
  bool ended = false;
  std::thread thread;
};

LinkGate::LinkGate(void* zmq_context) : impl_(std::make_unique<Impl>()) {
  impl_->context = zmq_context;
  impl_->wake_fd = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  impl_->questions = zmq_socket(zmq_context, ZMQ_REP);
  if (impl_->wake_fd < 0 || !impl_->questions) {
    throw std::runtime_error("cannot make a socket: too many open files; raise the limit (ulimit -n)");
  }
  STARLING_CHECK(zmq_bind(impl_->questions, "inproc://zeromq.zap.01") == 0);
  impl_->thread = std::thread([impl = impl_.get()] { impl->run(); });
}

LinkGate::~LinkGate() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->ended = true;
  }
  (void)eventfd_write(impl_->wake_fd, 1);
  impl_->thread.join();
  ::close(impl_->wake_fd);
}

uint64_t LinkGate::new_group() {
  const std::lock_guard lock(impl_->mutex);
  impl_->groups.try_emplace(impl_->next_group);
  return impl_->next_group++;
}

void LinkGate::guard(uint64_t group, void* zmq_router, size_t unfinished_max, const CurveKey* port_secret) {
  const std::string domain = std::to_string(group);
  const int on = 1;
  const auto set = [zmq_router](int option, const void* value, size_t size) {
    STARLING_CHECK(zmq_setsockopt(zmq_router, option, value, size) == 0);
  };
  set(ZMQ_ZAP_DOMAIN, domain.data(), domain.size());
  if (port_secret) {
    set(kEnforceDomain, &on, sizeof on);
    set(ZMQ_CURVE_SERVER, &on, sizeof on);
    set(ZMQ_CURVE_SECRETKEY, port_secret->data(), port_secret->size());
    // A link's name is its owner's to choose, and no other knows it: so a link that is opened anew takes its own place.
    set(ZMQ_ROUTER_HANDOVER, &on, sizeof on);
  }
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->groups.at(group).closed = port_secret != nullptr;
    const std::string address = "inproc://links." + std::to_string(impl_->next_monitor++);
    Monitor monitor{.socket = zmq_socket(impl_->context, ZMQ_PAIR),
                    .group = group,
                    .unfinished_max = unfinished_max,
                    .read = impl_->groups.at(group).read};
    const int unlimited = 0;  // ZeroMQ's threads would wait for room
    if (!monitor.socket || zmq_socket_monitor(zmq_router, address.c_str(), kEvents) != 0 ||
        zmq_setsockopt(monitor.socket, ZMQ_RCVHWM, &unlimited, sizeof unlimited) != 0 ||
        zmq_connect(monitor.socket, address.c_str()) != 0) {
      throw std::runtime_error("cannot watch a port's links: too many open files; raise the limit (ulimit -n)");
    }
    impl_->added.push_back(std::move(monitor));
  }
  (void)eventfd_write(impl_->wake_fd, 1);
}

void LinkGate::set_doors(uint64_t group, std::map<CurveKey, PeerId> swarms) {
  const std::lock_guard lock(impl_->mutex);
  impl_->groups.at(group).doors = std::move(swarms);
}

void LinkGate::set_most(uint64_t group, size_t most) {
  const std::lock_guard lock(impl_->mutex);
  impl_->groups.at(group).most = most;
}

LinkCounters LinkGate::counters(uint64_t group) const {
  const std::lock_guard lock(impl_->mutex);
  const Group& found = impl_->groups.at(group);
  return {found.all.sum(), found.refused, found.cut, found.strangers};
}

FramesRead& LinkGate::frames_read(uint64_t group) {
  const std::lock_guard lock(impl_->mutex);
  return *impl_->groups.at(group).read;
}

void LinkGate::frame_refused(uint64_t group, int connection, const std::string& source) {
  {
    const std::lock_guard lock(impl_->mutex);
    Group& found = impl_->groups.at(group);
    const TimePoint now = impl_->clock.now();
    if (found.strikes.size() >= kStrikeSourcesMax && !found.strikes.contains(source)) found.strikes.clear();
    Strikes& strikes = found.strikes.try_emplace(source, Strikes{0, now}).first->second;
    if (now - strikes.since >= kStrikesLast) strikes = {0, now};
    if (++strikes.count <= kUnreadableFramesMax || !found.to_cut.try_emplace(connection, source).second) return;
  }
  (void)eventfd_write(impl_->wake_fd, 1);
}

void LinkGate::cut(uint64_t group, int connection, const std::string& source) {
  {
    const std::lock_guard lock(impl_->mutex);
    if (!impl_->groups.at(group).to_cut.try_emplace(connection, source).second) return;
  }
  (void)eventfd_write(impl_->wake_fd, 1);
}

void LinkGate::remove(uint64_t group) {
  const std::lock_guard lock(impl_->mutex);
  impl_->groups.erase(group);
}

void LinkGate::Impl::run() {
  while (tick()) {
  }
  for (const Monitor& monitor : monitors) zmq_close(monitor.socket);
  zmq_close(questions);
}

bool LinkGate::Impl::tick() {
  std::vector<zmq_pollitem_t> items = {{nullptr, wake_fd, ZMQ_POLLIN, 0}, {questions, 0, ZMQ_POLLIN, 0}};
  for (const Monitor& monitor : monitors) items.push_back({monitor.socket, 0, ZMQ_POLLIN, 0});
  (void)zmq_poll(items.data(), static_cast<int>(items.size()), patience_ms(clock.now()));  // -1: a signal came
  eventfd_t wakes;
  (void)eventfd_read(wake_fd, &wakes);
  const TimePoint now = clock.now();
  const std::lock_guard lock(mutex);
  std::move(added.begin(), added.end(), std::back_inserter(monitors));
  added.clear();
  std::erase_if(monitors, [this, now](Monitor& monitor) {
    const bool goes_on = take_events(monitor, now);
    if (!goes_on) zmq_close(monitor.socket);
    return !goes_on;
  });
  judge_all(now);
  cut_refused();
  measure(now);
  ages = std::any_of(monitors.begin(), monitors.end(), [](const Monitor& one) { return one.links.some_grow_old(); });
  for (auto& [number, group] : groups) {
    group.age(now);
    ages = ages || !group.let_in.empty();
  }
  return !ended;
}

// False: its socket is closed, and with it all links.
bool LinkGate::Impl::take_events(Monitor& monitor, TimePoint now) {
  const auto found = groups.find(monitor.group);
  Group* group = found == groups.end() ? nullptr : &found->second;
  while (const std::optional<Event> event = receive_event(monitor.socket)) {
    if (event->kind == ZMQ_EVENT_ACCEPTED) {
      if (monitor.links.opened(event->value, source_of(event->value), now)) {
        monitor.loads.opened(event->value, *monitor.read);
      }
    } else if (event->kind == ZMQ_EVENT_DISCONNECTED) {
      Monitor::count_old(group, monitor.links.closed(event->value), -1);
      monitor.loads.closed(event->value);
      ++closed_count;
    } else if (event->kind == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL) {
      if (group && group->closed) ++group->strangers;
    } else if (event->kind == ZMQ_EVENT_MONITOR_STOPPED) {
      Monitor::count_old(group, monitor.links.all_closed(), -1);
      return false;
    }
  }
  Monitor::count_old(group, monitor.links.grown_old(now), 1);
  return true;
}

int LinkGate::Impl::patience_ms(TimePoint now) const {
  const bool some =
      std::any_of(monitors.begin(), monitors.end(), [](const Monitor& one) { return one.loads.count() > 0; });
  if (!some && closed_count < kClosedWorthATrim && trims_due == 0) return ages ? kAgeEveryMs : -1;
  const Duration left = std::max(Duration(0), next_measure - now);
  return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count());
}

void LinkGate::Impl::cut_refused() {
  for (Monitor& monitor : monitors) {
    const auto found = groups.find(monitor.group);
    if (found == groups.end()) continue;
    for (const auto& [connection, source] : found->second.to_cut) {
      found->second.cut += monitor.loads.shut(connection, source);
    }
  }
  for (auto& [number, group] : groups) group.to_cut.clear();
}

// Frames that wait for their reader are whole, so they are no reason to cut a link; only a reader that stays busy for
// long is not waited for.
void LinkGate::Impl::measure(TimePoint now) {
  if (now < next_measure) return;
  next_measure = now + kMeasureEvery;
  for (auto& [number, group] : groups) {
    if (group.read->idle()) group.idle = now;
    if (now - group.idle >= kNeverIdle) group.idle = now;
    size_t held = 0;
    std::vector<LinkLoads*> loads;
    for (Monitor& monitor : monitors) {
      if (monitor.group != number) continue;
      next_measure += static_cast<int64_t>(monitor.loads.count()) * kMeasureEachLink;
      if (group.idle != now) continue;
      monitor.loads.measure(*monitor.read);
      const size_t shut = monitor.loads.shut_above(monitor.unfinished_max);
      group.cut += shut;
      closed_count += shut * kClosedWorthATrim;
      held += monitor.loads.held();
      loads.push_back(&monitor.loads);
    }
    while (held > kUnfinishedBytesMax) {
      LinkLoads& largest = **std::max_element(
          loads.begin(), loads.end(), [](const LinkLoads* a, const LinkLoads* b) { return a->held() < b->held(); });
      held -= largest.held();
      if (!largest.shut_largest()) break;
      held += largest.held();
      ++group.cut;
      closed_count += kClosedWorthATrim;
    }
  }
  if (closed_count >= kClosedWorthATrim) {
    closed_count = 0;
    trims_due = 2;  // ZeroMQ frees what a link held after it has told that the link is closed
  }
  if (trims_due == 0 || now < next_trim) return;
  --trims_due;
  next_trim = now + std::chrono::seconds(1);
  malloc_trim(0);
}

// A question: version, its number, the domain, the source address, the link's name (empty with CURVE), the mechanism,
// and its key.
void LinkGate::Impl::judge_all(TimePoint now) {
  while (true) {
    const std::vector<std::string> question = receive(questions);
    if (question.empty()) return;
    const bool whole = question.size() >= 6;
    std::string swarm;
    const std::string verdict = whole ? judge(question, now, &swarm) : kNever;
    const std::string parts[] = {"1.0", whole ? question[1] : "", verdict, "", swarm, ""};
    for (size_t i = 0; i < std::size(parts); ++i) {
      const int more = i + 1 < std::size(parts) ? ZMQ_SNDMORE : 0;
      (void)zmq_send(questions, parts[i].data(), parts[i].size(), more);  // to a thread of this process
    }
  }
}

// `swarm`: that of the door key in the question.
std::string LinkGate::Impl::judge(const std::vector<std::string>& question, TimePoint now, std::string* swarm) {
  const auto found = groups.find(std::strtoull(question[2].c_str(), nullptr, 10));
  if (found == groups.end()) return kLater;
  Group& group = found->second;
  if (group.closed) {
    CurveKey shown{};
    const bool shows = question[5] == "CURVE" && question.size() == 7 && question[6].size() == shown.size();
    if (shows) std::memcpy(shown.data(), question[6].data(), shown.size());
    const auto door = shows ? group.doors.find(shown) : group.doors.end();
    if (door == group.doors.end()) {
      ++group.strangers;
      return kNever;
    }
    *swarm = door->second.hex();
  }
  if (group.takes(question[3], now)) return kLetIn;
  ++group.refused;
  return kLater;
}

}  // namespace starling
