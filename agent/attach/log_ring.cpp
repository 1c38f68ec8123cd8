#include "agent/attach/log_ring.h"

#include <memory>
#include <utility>

#include <fmt/format.h>
#include <spdlog/details/null_mutex.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

namespace starling {
namespace {

thread_local LogRing* ring_of_this_thread = nullptr;

int level_of(spdlog::level::level_enum level) {
  if (level >= spdlog::level::err) return 3;
  if (level == spdlog::level::warn) return 2;
  return level == spdlog::level::info ? 1 : 0;
}

// The rooms below log to the process's one default logger; each line goes to the swarm of the thread that says it.
class ThreadSink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
  void sink_it_(const spdlog::details::log_msg& message) override {
    if (ring_of_this_thread == nullptr) return;
    ring_of_this_thread->push({level_of(message.level), std::string(message.payload.data(), message.payload.size())});
  }
  void flush_() override {}
};

void take_default_logger() {
  static const bool taken = [] {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("starling", std::make_shared<ThreadSink>()));
    return true;
  }();
  (void)taken;
}

}  // namespace

LogRing::LogRing() { take_default_logger(); }

void LogRing::push(LogLine line) {
  const std::lock_guard lock(mutex_);
  lines_.push_back(std::move(line));
  if (lines_.size() <= kLines) return;
  lines_.pop_front();
  ++lost_;
}

bool LogRing::pop(LogLine* line) {
  const std::lock_guard lock(mutex_);
  if (lost_ > 0) {
    *line = {2, fmt::format("{} lines before these were lost: swarm.step() was not called for long",
                            std::exchange(lost_, 0))};
    return true;
  }
  if (lines_.empty()) return false;
  *line = std::move(lines_.front());
  lines_.pop_front();
  return true;
}

void log_this_thread_to(LogRing* ring) { ring_of_this_thread = ring; }

}  // namespace starling
