#include "agent/observe/terminal_line.h"

#include <array>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <string_view>
#include <utility>

#include <spdlog/details/os.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include "agent/report/redrawn.h"

namespace starling {
namespace {

constexpr std::chrono::milliseconds kFlushWait{300};

std::string_view color_of(spdlog::level::level_enum level) {
  static constexpr std::array<std::string_view, spdlog::level::n_levels> kColors = {
      "\x1b[37m", "\x1b[36m", "\x1b[32m", "\x1b[33m\x1b[1m", "\x1b[31m\x1b[1m", "\x1b[1m\x1b[41m", ""};
  return kColors.at(static_cast<size_t>(level));
}

}  // namespace

class TerminalLine::Sink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  bool terminal() const { return drawn_.terminal(); }
  void print(const std::string& text) {
    const std::lock_guard lock(mutex_);
    print_above(text);
  }
  void show(std::string text) {
    const std::lock_guard lock(mutex_);
    text_ = std::move(text);
    if (terminal()) drawn_.draw({text_});
  }
  void keep() {
    const std::lock_guard lock(mutex_);
    text_.clear();
    drawn_.keep();
  }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t formatted;
    formatter_->format(message, formatted);
    std::string text(formatted.data(), formatted.size());
    if (colored_ && message.color_range_end > message.color_range_start) {
      text.insert(message.color_range_end, "\x1b[m");
      text.insert(message.color_range_start, color_of(message.level));
    }
    print_above(text);
  }
  void print_above(const std::string& text) {
    drawn_.print(text, text_.empty() ? std::vector<std::string>{} : std::vector{text_});
  }
  void flush_() override { drawn_.flush(kFlushWait); }

  const bool colored_ = spdlog::details::os::in_terminal(stderr) && spdlog::details::os::is_color_terminal();
  Redrawn drawn_{stderr};
  std::string text_;  // empty: no line
};

void log_to_stderr() {
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("starling", std::make_shared<TerminalLine::Sink>()));
}

void print_to_stderr(const std::string& text) { TerminalLine::sink_of_log()->print(text); }

std::shared_ptr<TerminalLine::Sink> TerminalLine::sink_of_log() {
  const auto& sinks = spdlog::default_logger()->sinks();
  return sinks.empty() ? nullptr : std::dynamic_pointer_cast<Sink>(sinks.front());
}

TerminalLine::TerminalLine() : sink_(sink_of_log()) {}

TerminalLine::~TerminalLine() { keep(); }

bool TerminalLine::terminal() const { return sink_ && sink_->terminal(); }
void TerminalLine::show(const std::string& text) {
  if (sink_) sink_->show(text);
}
void TerminalLine::keep() {
  if (sink_) sink_->keep();
}

}  // namespace starling
