// Names are looked up elsewhere: whoever asks never waits.
#include "gossip/net/name_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace starling {
namespace {

using std::chrono::seconds;
using Numbers = std::vector<std::string>;

// A name server that answers when it is told to. Shared with a look-up that may still be waiting at the end.
struct NameServer {
  std::mutex mutex;
  std::condition_variable change;
  bool silent = true;
  int asked = 0;

  std::vector<std::string> answer(const std::string& name) {
    std::unique_lock lock(mutex);
    ++asked;
    change.notify_all();
    change.wait(lock, [this] { return !silent; });
    return name == "known" ? Numbers{"fd00::1", "10.0.0.1"} : Numbers{};
  }
  void speak() {
    const std::lock_guard lock(mutex);
    silent = false;
    change.notify_all();
  }
};

TEST(NameCache, NumbersAreTheirOwnAnswer) {
  for (const char* host : {"127.0.0.1", "::1", "fe80::1%eth0"}) EXPECT_TRUE(is_number(host)) << host;
  for (const char* host : {"localhost", "a.example.com", "1.2.3", ""}) EXPECT_FALSE(is_number(host)) << host;
  NameCache cache([] {}, [](const std::string&) { return Numbers{}; });
  EXPECT_EQ(cache.find("10.1.2.3"), Numbers{"10.1.2.3"});
  EXPECT_EQ(cache.find("localhost"), (Numbers{"127.0.0.1", "::1"}));
}

TEST(NameCache, NobodyWaitsForASilentNameServer) {
  const auto server = std::make_shared<NameServer>();
  std::atomic<int> changes = 0;
  const auto began = std::chrono::steady_clock::now();
  {
    NameCache cache([&] { ++changes; }, [server](const std::string& name) { return server->answer(name); });
    for (int i = 0; i < 1000; ++i) {
      EXPECT_EQ(cache.find("known"), Numbers{});
      EXPECT_EQ(cache.find("name" + std::to_string(i)), Numbers{});
    }
    std::unique_lock lock(server->mutex);
    ASSERT_TRUE(server->change.wait_for(lock, seconds(10), [&] { return server->asked == 1; })) << "one at a time";
  }
  EXPECT_LT(std::chrono::steady_clock::now() - began, seconds(10)) << "it ends while a look-up is under way";
  EXPECT_EQ(changes, 0);
  server->speak();
}

TEST(NameCache, AnAnswerIsKeptAndSaid) {
  const auto server = std::make_shared<NameServer>();
  std::mutex mutex;
  std::condition_variable changed;
  int changes = 0;
  NameCache cache(
      [&] {
        const std::lock_guard lock(mutex);
        ++changes;
        changed.notify_all();
      },
      [server](const std::string& name) { return server->answer(name); });
  EXPECT_EQ(cache.find("known"), Numbers{});
  EXPECT_EQ(cache.find("unknown"), Numbers{});
  server->speak();
  std::unique_lock lock(mutex);
  ASSERT_TRUE(changed.wait_for(lock, seconds(10), [&] { return changes == 2; }));
  lock.unlock();
  EXPECT_EQ(cache.find("known"), (Numbers{"fd00::1", "10.0.0.1"})) << "all, in their order";
  EXPECT_EQ(cache.find("unknown"), Numbers{});
  EXPECT_EQ(server->asked, 2) << "that there is no answer is kept as well";
}

}  // namespace
}  // namespace starling
