#include "gossip/net/name_cache.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

namespace starling {
namespace {

constexpr size_t kNamesMax = 1024;  // kept
constexpr size_t kAskedMax = 64;    // waiting to be looked up
constexpr size_t kNumbersMax = 8;   // of one name
constexpr Duration kGoodFor = std::chrono::minutes(1);
constexpr Duration kNoneFor = std::chrono::seconds(10);

}  // namespace

bool is_number(const std::string& host) {
  in_addr v4;
  in6_addr v6;
  return ::inet_pton(AF_INET, host.c_str(), &v4) == 1 ||
         ::inet_pton(AF_INET6, host.substr(0, host.find('%')).c_str(), &v6) == 1;
}

bool is_loopback(const std::string& host) { return host == "localhost" || host == "::1" || host.starts_with("127."); }

std::string unmapped(const std::string& number) {
  return number.starts_with("::ffff:") && number.find('.') != std::string::npos ? number.substr(7) : number;
}

struct NameCache::Shared {
  struct Answer {
    std::vector<std::string> numbers;
    TimePoint good_until;  // then it is asked for again; until the new answer comes, this one counts
    bool asked = false;
  };
  std::mutex mutex;
  std::condition_variable work;
  std::map<std::string, Answer> answers;
  std::deque<std::string> asked;
  std::function<void()> changed;  // called under the mutex, so that it is never called after the owner is gone
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
    const std::vector<std::string> numbers = look_up(name);
    lock.lock();
    if (ended) return;
    Answer& answer = answers[name];
    if (!numbers.empty()) answer.numbers = numbers;  // where the name server fails, the last good answer stays
    answer.good_until = clock.now() + (numbers.empty() ? kNoneFor : kGoodFor);
    answer.asked = false;
    changed();
  }
}

NameCache::NameCache(std::function<void()> changed, LookUp look_up) : shared_(std::make_shared<Shared>()) {
  shared_->changed = std::move(changed);
  shared_->look_up = std::move(look_up);
  std::thread([shared = shared_] { shared->run(); }).detach();  // a look-up cannot be interrupted
}

NameCache::~NameCache() {
  const std::lock_guard lock(shared_->mutex);
  shared_->ended = true;
  shared_->work.notify_one();
}

std::vector<std::string> NameCache::find(const std::string& name) {
  if (is_number(name)) return {name};
  if (name == "localhost") return {"127.0.0.1", "::1"};
  const std::lock_guard lock(shared_->mutex);
  const TimePoint now = shared_->clock.now();
  auto found = shared_->answers.find(name);
  if (found == shared_->answers.end()) {
    if (shared_->asked.size() >= kAskedMax) return {};  // asked for again with the next frame
    if (shared_->answers.size() >= kNamesMax) {
      std::erase_if(shared_->answers,
                    [now](const auto& item) { return !item.second.asked && item.second.good_until < now; });
    }
    if (shared_->answers.size() >= kNamesMax) return {};
    found = shared_->answers.emplace(name, Shared::Answer{}).first;
  }
  Shared::Answer& answer = found->second;
  if (!answer.asked && now >= answer.good_until && shared_->asked.size() < kAskedMax) {
    answer.asked = true;
    shared_->asked.push_back(name);
    shared_->work.notify_one();
  }
  return answer.numbers;
}

std::vector<std::string> NameCache::system_look_up(const std::string& name) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_ADDRCONFIG;
  addrinfo* list = nullptr;
  if (::getaddrinfo(name.c_str(), nullptr, &hints, &list) != 0) return {};
  std::vector<std::string> numbers;
  char text[NI_MAXHOST];
  for (const addrinfo* each = list; each && numbers.size() < kNumbersMax; each = each->ai_next) {
    if (::getnameinfo(each->ai_addr, each->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) continue;
    if (std::find(numbers.begin(), numbers.end(), text) == numbers.end()) numbers.emplace_back(text);
  }
  ::freeaddrinfo(list);
  return numbers;
}

}  // namespace starling
