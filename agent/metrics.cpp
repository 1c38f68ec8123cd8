#include "agent/metrics.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "gossip/exchange/exchange.h"

namespace starling {

std::string print_blocks_json(const BlockTally& tally) {
  const std::pair<const char*, uint64_t> all[] = {
      {"due", tally.due}, {"counted", tally.counted}, {"old", tally.old}, {"late", tally.late},
      {"missing", tally.missing}, {"dead", tally.dead}, {"refused", tally.refused}, {"injected", tally.injected},
      {"averages_due", tally.averages_due}, {"averages_counted", tally.averages_counted},
      {"ignored_messages", tally.ignored_messages}};
  std::string text;
  for (const auto& [name, count] : all) {
    text += (text.empty() ? "{\"" : ",\"") + std::string(name) + "\":" + std::to_string(count);
  }
  return text + "}";
}

MetricsFile::MetricsFile(const std::string& path) {
  if (path.empty()) return;
  fd_ = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd_ < 0) {
    throw std::runtime_error("cannot write metrics to " + path + ": " + std::strerror(errno) +
                             "; choose another file with --metrics");
  }
}

MetricsFile::~MetricsFile() {
  if (fd_ >= 0) close(fd_);
}

void MetricsFile::write(const std::string& json_fields) {
  if (fd_ < 0) return;
  const double now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  char stamp[40];
  std::snprintf(stamp, sizeof stamp, "{\"t\":%.3f,", now);
  const std::string line = stamp + json_fields + "}\n";
  if (::write(fd_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) ++failed_writes_;
}

}  // namespace starling
