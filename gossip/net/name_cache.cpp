#include "gossip/net/name_cache.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

namespace starling {
namespace {

constexpr size_t kNamesMax = 1024;                            // kept
constexpr size_t kAskedMax = 64;                              // waiting to be looked up
constexpr Duration kGoodFor = std::chrono::minutes(1);
constexpr Duration kNoneFor = std::chrono::seconds(10);

}  // namespace

bool is_number(const std::string& host) {
  in_addr v4;
  in6_addr v6;
  return ::inet_pton(AF_INET, host.c_str(), &v4) == 1 ||
         ::inet_pton(AF_INET6, host.substr(0, host.find('%')).c_str(), &v6) == 1;
}

struct NameCache::Shared {
  struct Answer {
    std::optional<std::string> number;
    TimePoint good_until;            // then it is asked for again; until the new answer comes, this one counts
    bool asked = false;
  };
  std::mutex mutex;
  std::condition_variable work;
  std::map<std::string, Answer> answers;
  std::deque<std::string> asked;
  std::function<void()> changed;     // called under the mutex, so that it is never called after the owner is gone
  bool ended = false;
  LookUp look_up;
  SteadyClock clock;

  void run();
};

void NameCache::Shared::run() {
  std::unique_lock lock(mutex);
  while (true) {
    work.wait(lock, [this] { return ended || !asked.empty(); });
    if (ended) return;
    const std::string name = std::move(asked.front());
    asked.pop_front();
    lock.unlock();
    const std::optional<std::string> number = look_up(name);
    lock.lock();
    if (ended) return;
    Answer& answer = answers[name];
    if (number) answer.number = number;   // where the name server fails, the last good answer stays
    answer.good_until = clock.now() + (number ? kGoodFor : kNoneFor);
    answer.asked = false;
    changed();
  }
}

NameCache::NameCache(std::function<void()> changed, LookUp look_up) : shared_(std::make_shared<Shared>()) {
  shared_->changed = std::move(changed);
  shared_->look_up = std::move(look_up);
  std::thread([shared = shared_] { shared->run(); }).detach();   // a look-up cannot be interrupted
}

NameCache::~NameCache() {
  const std::lock_guard lock(shared_->mutex);
  shared_->ended = true;
  shared_->work.notify_one();
}

std::optional<std::string> NameCache::find(const std::string& name) {
  if (is_number(name)) return name;
  const std::lock_guard lock(shared_->mutex);
  const TimePoint now = shared_->clock.now();
  auto found = shared_->answers.find(name);
  if (found == shared_->answers.end()) {
    if (shared_->asked.size() >= kAskedMax) return std::nullopt;   // asked for again with the next frame
    if (shared_->answers.size() >= kNamesMax) {
      std::erase_if(shared_->answers,
                    [now](const auto& item) { return !item.second.asked && item.second.good_until < now; });
    }
    if (shared_->answers.size() >= kNamesMax) return std::nullopt;
    found = shared_->answers.emplace(name, Shared::Answer{}).first;
  }
  Shared::Answer& answer = found->second;
  if (!answer.asked && now >= answer.good_until && shared_->asked.size() < kAskedMax) {
    answer.asked = true;
    shared_->asked.push_back(name);
    shared_->work.notify_one();
  }
  return answer.number;
}

std::optional<std::string> NameCache::system_look_up(const std::string& name) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_ADDRCONFIG;
  addrinfo* list = nullptr;
  if (::getaddrinfo(name.c_str(), nullptr, &hints, &list) != 0) return std::nullopt;
  char text[NI_MAXHOST];
  const bool ok = ::getnameinfo(list->ai_addr, list->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0;
  ::freeaddrinfo(list);
  return ok ? std::optional<std::string>(text) : std::nullopt;
}

}  // namespace starling
