// What is logged while it lives.
#pragma once

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <sstream>
#include <string>
#include <utility>

namespace starling {

class LogText {
 public:
  explicit LogText(spdlog::level::level_enum least = spdlog::level::info) {
    const auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(text_);
    auto logger = std::make_shared<spdlog::logger>("test", sink);
    logger->set_pattern("%v");
    logger->set_level(least);
    spdlog::set_default_logger(std::move(logger));
  }
  ~LogText() { spdlog::set_default_logger(before_); }
  LogText(const LogText&) = delete;
  LogText& operator=(const LogText&) = delete;

  std::string text() const { return text_.str(); }
  std::string take() {  // since the last call
    std::string text = text_.str();
    text_.str("");
    return text;
  }

 private:
  const std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
  std::ostringstream text_;
};

}  // namespace starling
