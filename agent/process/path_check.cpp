#include "agent/process/path_check.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "gossip/net/file.h"
#include "gossip/net/name_cache.h"

namespace starling {
namespace {

constexpr Duration kPatience = std::chrono::seconds(3), kGoodFor = std::chrono::seconds(20);
constexpr Duration kAcceptsFor = std::chrono::seconds(6);  // a peer that just began to listen is asked once more
constexpr size_t kPathsMax = 64, kQueueMax = 8;

File begin_to_connect(const Way& way, Tried& tried) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* found = nullptr;
  if (getaddrinfo(way.number.c_str(), std::to_string(way.port).c_str(), &hints, &found) != 0) {
    tried.error = EINVAL;
    return File(-1);
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> guard(found, freeaddrinfo);
  File fd(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd.is_open() && (connect(fd.fd(), found->ai_addr, found->ai_addrlen) == 0 || errno == EINPROGRESS)) {
    tried = {local_number(fd.fd()), ETIMEDOUT};
    return fd;
  }
  tried.error = errno;
  return File(-1);
}

std::string in_words(int error, uint16_t port) {
  if (error == ECONNREFUSED) return fmt::format("refused, as nobody listens at port {}", port);
  if (error == ETIMEDOUT) return fmt::format("no answer from port {}", port);
  std::string text = std::strerror(error);
  if (!text.empty()) text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  return text;
}

// "10.0.0.1 accepts connections, but not at the next port: ..."; also where the agent begins at the port before.
std::string without_bulk(const std::string& number, const Endpoint& to, int bulk_error, Duration patience) {
  const std::string text = fmt::format("{} accepts connections, but not at the next port: {}", number,
                                       in_words(bulk_error, static_cast<uint16_t>(to.port + 1)));
  if (to.port < 2) return text;
  const Endpoint before{to.host, static_cast<uint16_t>(to.port - 1)};
  if (try_to_connect({{number, before.port}}, patience, true)[0].error != 0) return text;
  return fmt::format("{}; port {} accepts them: {} may be the second port of what listens there, so try {}", text,
                     before.port, to.port, before.to_string());
}

}  // namespace

std::string local_number(int fd) {
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  char host[NI_MAXHOST];
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) != 0 ||
      getnameinfo(reinterpret_cast<sockaddr*>(&own), size, host, sizeof host, nullptr, 0, NI_NUMERICHOST) != 0) {
    return "";
  }
  return host;
}

std::vector<Tried> try_to_connect(const std::vector<Way>& ways, Duration patience, bool first_only) {
  std::vector<Tried> all(ways.size());
  std::vector<File> open;
  for (size_t i = 0; i < ways.size(); ++i) open.push_back(begin_to_connect(ways[i], all[i]));
  const SteadyClock clock;
  for (const TimePoint end = clock.now() + patience; clock.now() < end;) {
    std::vector<pollfd> items;
    std::vector<size_t> indices;
    for (size_t i = 0; i < open.size(); ++i) {
      if (!open[i].is_open()) continue;
      items.push_back({open[i].fd(), POLLOUT, 0});
      indices.push_back(i);
    }
    if (items.empty()) break;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - clock.now()).count();
    if (poll(items.data(), items.size(), static_cast<int>(std::max<int64_t>(left, 0))) <= 0) continue;
    for (size_t k = 0; k < items.size(); ++k) {
      if (items[k].revents == 0) continue;
      socklen_t size = sizeof(int);
      Tried& tried = all[indices[k]];
      if (getsockopt(items[k].fd, SOL_SOCKET, SO_ERROR, &tried.error, &size) != 0) tried.error = errno;
      open[indices[k]] = File(-1);
      if (first_only && tried.error == 0) return all;
    }
  }
  return all;
}

PathFound check_path(const Endpoint& to, Duration patience) {
  const std::vector<std::string> numbers = is_number(to.host)       ? std::vector{to.host}
                                           : to.host == "localhost" ? std::vector<std::string>{"127.0.0.1", "::1"}
                                                                    : NameCache::system_look_up(to.host);
  PathFound found{.known = true, .named = !numbers.empty(), .refuses = !numbers.empty()};
  if (numbers.empty()) found.text = "no name server tells its address (see: getent hosts " + to.host + ")";
  std::vector<Way> ways;
  const auto bulk = static_cast<uint16_t>(to.port + 1);
  for (const std::string& number : numbers) {
    ways.push_back({number, to.port});
    ways.push_back({number, bulk});
  }
  const std::vector<Tried> tried = try_to_connect(ways, patience, false);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const int control_error = tried[2 * i].error, bulk_error = tried[2 * i + 1].error;
    const bool accepts = control_error == 0 && bulk_error == 0;
    found.accepts |= accepts;
    found.refuses &= control_error == ECONNREFUSED;
    if (i > 0) found.text += "; ";
    if (accepts) {
      found.text += numbers[i] + " accepts connections";
    } else if (control_error == 0) {
      found.text += without_bulk(numbers[i], to, bulk_error, patience);
    } else {
      found.text += numbers[i] + ": " + in_words(control_error, to.port);
    }
  }
  return found;
}

PathFound KnownPaths::find(const Endpoint& to, TimePoint now) {
  auto known = known_.find(to);
  if (known == known_.end()) {
    if (known_.size() >= kPathsMax) {
      std::erase_if(known_, [](const auto& one) { return !one.second.asked; });
    }
    known = known_.emplace(to, Known{}).first;
  }
  const bool old = !known->second.found.known || now - known->second.at > kGoodFor;
  if (old && !known->second.asked && asked_.size() < kQueueMax) {
    known->second.asked = true;
    asked_.push_back(to);
  }
  PathFound found = known->second.found;
  found.accepts &= now - known->second.accepts_since >= kAcceptsFor;
  return found;
}

std::optional<Endpoint> KnownPaths::next() {
  if (asked_.empty()) return std::nullopt;
  const Endpoint to = asked_.front();
  asked_.pop_front();
  return to;
}

void KnownPaths::found(const Endpoint& to, PathFound found, TimePoint now) {
  Known& one = known_[to];
  const TimePoint since = one.found.accepts ? one.accepts_since : now;
  one = {std::move(found), now, since, false};
}

struct PathCheck::Shared {
  std::mutex mutex;
  std::condition_variable work;
  KnownPaths paths;
  bool ended = false;
  SteadyClock clock;

  void run() {
    std::unique_lock lock(mutex);
    std::optional<Endpoint> to;
    while (true) {
      work.wait(lock, [&] { return ended || (to = paths.next()); });
      if (ended) return;
      lock.unlock();
      PathFound found = check_path(*to, kPatience);
      lock.lock();
      paths.found(*to, std::move(found), clock.now());
    }
  }
};

PathCheck::PathCheck() : shared_(std::make_shared<Shared>()) {
  std::thread([shared = shared_] { shared->run(); }).detach();  // a look-up of a name cannot be interrupted
}

PathCheck::~PathCheck() {
  const std::lock_guard lock(shared_->mutex);
  shared_->ended = true;
  shared_->work.notify_one();
}

PathFound PathCheck::find(const Endpoint& to) {
  const std::lock_guard lock(shared_->mutex);
  PathFound found = shared_->paths.find(to, shared_->clock.now());
  shared_->work.notify_one();
  return found;
}

}  // namespace starling
