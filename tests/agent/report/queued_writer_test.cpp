// Readers that stand still, come back, and go away: pipes that nobody empties, and a Write that blocks.
#include "agent/report/queued_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <condition_variable>
#include <csignal>
#include <mutex>
#include <string>
#include <vector>

namespace starling {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Shared with the writing thread, which outlives a writer whose Write blocks.
struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  bool open = false;
  std::vector<std::string> written;

  QueuedWriter::Write write() {
    return [this](const std::string& text) -> std::string {
      std::unique_lock lock(mutex);
      changed.wait(lock, [this] { return open; });
      written.push_back(text);
      return "";
    };
  }
  void set_open() {
    const std::lock_guard lock(mutex);
    open = true;
    changed.notify_all();
  }
};

TEST(QueuedWriter, WritesInOrder) {
  Gate gate;
  gate.open = true;
  QueuedWriter writer(gate.write());
  for (const char* text : {"one", "two", "three"}) EXPECT_TRUE(writer.push(text));
  EXPECT_TRUE(writer.flush(seconds(20)));
  EXPECT_EQ(gate.written, (std::vector<std::string>{"one", "two", "three"}));
  EXPECT_EQ(writer.lost(), 0u);
}

TEST(QueuedWriter, DropsAndCountsWhatFindsNoRoomAndGoesOnAfterwards) {
  static Gate gate;
  QueuedWriter writer(gate.write(), 1000);
  const std::string text(400, 'x');
  size_t taken = 0;
  for (int i = 0; i < 20; ++i) taken += writer.push(text);
  EXPECT_LE(taken, 3u);
  EXPECT_EQ(writer.lost(), 20 - taken);
  EXPECT_FALSE(writer.flush(milliseconds(10)));
  gate.set_open();
  EXPECT_TRUE(writer.flush(seconds(20)));
  EXPECT_TRUE(writer.push("after"));
  EXPECT_TRUE(writer.flush(seconds(20)));
  const std::lock_guard lock(gate.mutex);
  EXPECT_EQ(gate.written.size(), taken + 1);
  EXPECT_EQ(gate.written.back(), "after");
}

TEST(QueuedWriter, ItsEndWaitsForABlockedReaderForABoundedTime) {
  static Gate gate;
  const auto began = std::chrono::steady_clock::now();
  {
    QueuedWriter writer(gate.write());
    writer.push("one");
    writer.push("two");
  }
  EXPECT_LT(std::chrono::steady_clock::now() - began, seconds(20));
  gate.set_open();
}

class Pipe {
 public:
  Pipe() { EXPECT_EQ(::pipe2(ends_, O_CLOEXEC), 0); }
  ~Pipe() {
    close_reader();
    ::close(ends_[1]);
  }
  void close_reader() {
    if (ends_[0] >= 0) ::close(ends_[0]);
    ends_[0] = -1;
  }
  int reader() const { return ends_[0]; }
  int writer() const { return ends_[1]; }
  std::string take(size_t size) {
    std::string text(size, '\0');
    for (size_t at = 0; at < size;) {
      const ssize_t got = ::read(reader(), text.data() + at, size - at);
      if (got <= 0) break;
      at += static_cast<size_t>(got);
    }
    return text;
  }

 private:
  int ends_[2] = {-1, -1};
};

// Another program may have made the descriptor that both share one that does not block.
TEST(QueuedWriter, WaitsWhereTheDescriptorDoesNotBlock) {
  Pipe pipe;
  ASSERT_EQ(::fcntl(pipe.writer(), F_SETFL, O_NONBLOCK), 0);
  const std::string text(300'000, 'x');  // more than a pipe holds
  QueuedWriter writer(to_descriptor(pipe.writer()));
  ASSERT_TRUE(writer.push(text));
  EXPECT_EQ(pipe.take(text.size()), text);
  EXPECT_TRUE(writer.flush(seconds(20)));
  EXPECT_EQ(writer.lost(), 0u);
}

TEST(QueuedWriter, AReaderThatIsGoneCostsTheTextAndNothingElse) {
  Pipe pipe;
  pipe.close_reader();
  QueuedWriter writer(to_descriptor(pipe.writer()));
  writer.push("x");  // SIGPIPE would end this program, but for the mask of that thread
  EXPECT_TRUE(writer.flush(seconds(20)));
  EXPECT_EQ(writer.lost(), 1u);
  EXPECT_EQ(writer.lost_because(), "Broken pipe");
}

}  // namespace
}  // namespace starling
