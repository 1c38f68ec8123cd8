#include "agent/report/queued_writer.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

namespace starling {
namespace {

constexpr std::chrono::seconds kLastWait{2};
constexpr size_t kEachBytes = 64;  // that a text takes beside its own

}  // namespace

struct QueuedWriter::State {
  const Write write;
  const size_t bytes_max;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::string> waiting;
  size_t bytes = 0;      // of those
  bool writing = false;  // one that waits no more
  bool closing = false;
  uint64_t lost = 0;
  std::string lost_because;

  State(Write writes, size_t most) : write(std::move(writes)), bytes_max(most) {}
  bool done() const { return waiting.empty() && !writing; }
  void run();
};

void QueuedWriter::State::run() {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [this] { return !waiting.empty() || closing; });
    if (waiting.empty()) return;
    const std::string text = std::move(waiting.front());
    waiting.pop_front();
    bytes -= text.size() + kEachBytes;
    writing = true;
    lock.unlock();
    std::string trouble = write(text);
    lock.lock();
    writing = false;
    if (!trouble.empty()) {
      ++lost;
      lost_because = std::move(trouble);
    }
    changed.notify_all();
  }
}

QueuedWriter::QueuedWriter(Write write, size_t bytes_max)
    : state_(std::make_shared<State>(std::move(write), bytes_max)) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // the thread inherits it
  std::thread([state = state_] { state->run(); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

QueuedWriter::~QueuedWriter() {
  (void)flush(kLastWait);
  const std::lock_guard lock(state_->mutex);
  state_->closing = true;
  state_->waiting.clear();
  state_->changed.notify_all();
}

bool QueuedWriter::push(std::string text) {
  const std::lock_guard lock(state_->mutex);
  const size_t bytes = text.size() + kEachBytes;
  if (state_->bytes + bytes > state_->bytes_max) {
    ++state_->lost;
    state_->lost_because = "what is written there is not taken in time";
    return false;
  }
  state_->bytes += bytes;
  state_->waiting.push_back(std::move(text));
  state_->changed.notify_all();
  return true;
}

size_t QueuedWriter::waiting() const {
  const std::lock_guard lock(state_->mutex);
  return state_->waiting.size();
}

bool QueuedWriter::flush(std::chrono::milliseconds limit) const {
  std::unique_lock lock(state_->mutex);
  return state_->changed.wait_for(lock, limit, [this] { return state_->done(); });
}

uint64_t QueuedWriter::lost() const {
  const std::lock_guard lock(state_->mutex);
  return state_->lost;
}

std::string QueuedWriter::lost_because() const {
  const std::lock_guard lock(state_->mutex);
  return state_->lost_because;
}

QueuedWriter::Write to_descriptor(int fd) {
  return [fd](const std::string& text) -> std::string {
    for (size_t begin = 0; begin < text.size();) {
      const ssize_t written = ::write(fd, text.data() + begin, text.size() - begin);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0 && errno == EAGAIN) {
        pollfd ready{fd, POLLOUT, 0};
        ::poll(&ready, 1, -1);
      } else if (written <= 0) {
        return std::strerror(written < 0 ? errno : EIO);
      } else {
        begin += static_cast<size_t>(written);
      }
    }
    return "";
  };
}

}  // namespace starling
