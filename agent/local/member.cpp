#include "agent/local/member.h"

#include <signal.h>

#include <chrono>
#include <stdexcept>

#include "agent/process/exit_status.h"

namespace starling {
namespace {

namespace fs = std::filesystem;

fs::path create_folder(const fs::path& dir) {
  std::error_code error;
  fs::create_directories(dir, error);
  if (error) {
    throw std::runtime_error("the folder " + dir.string() + " cannot be created: " + error.message() +
                             "; name another one with --out");
  }
  return dir;
}

}  // namespace

const char* to_string(ProcessState state) {
  switch (state) {
    case ProcessState::kRunning: return "running";
    case ProcessState::kFinished: return "finished";
    case ProcessState::kKilled: return "killed";
    case ProcessState::kFailed: return "failed";
  }
  return "unknown";
}

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

SwarmMember::SwarmMember(std::string name, fs::path dir, uint32_t shard, std::vector<std::string> argv)
    : name_(std::move(name)),
      dir_(create_folder(dir)),
      shard_(shard),
      follower_((dir_ / "metrics.jsonl").string()),
      process_(argv, (dir_ / "log").string()) {}

bool SwarmMember::poll() {
  if (!running()) return false;
  const uint64_t steps = track_.steps;
  const bool joined_before = joined();
  const std::optional<ExitStatus> exit = process_.poll();
  follower_.poll(track_);  // after the look at the process: once it has ended, this reads all its lines
  if (exit) settle(*exit);
  return exit || track_.steps != steps || joined() != joined_before;
}

void SwarmMember::settle(const ExitStatus& exit) {
  if (killed_wall_s_ || !failure_.empty()) {
    state_ = killed_wall_s_ ? ProcessState::kKilled : ProcessState::kFailed;
    return;
  }
  // An agent that has not begun to train reports no end. One whose program is still being loaded ends by the signal.
  const bool cut_short = interrupted_ && !joined() && (exit.ok() || (exit.signal == SIGINT && track_.peer.empty()));
  const bool hardly_begun = interrupted_ && exit.signal == 0 && exit.code == kNothingShared;
  const bool apart = exit.signal == 0 && exit.code == kApart;  // a note in the table
  const bool finished = cut_short || ((exit.ok() || hardly_begun || apart) && !track_.finish_reason.empty());
  state_ = finished ? ProcessState::kFinished : ProcessState::kFailed;
  if (state_ == ProcessState::kFinished) return;
  failure_ = "ended with " + exit.describe();
  if (exit.ok()) failure_ += ", without a word that it had finished";
}

void SwarmMember::kill() {
  killed_wall_s_ = wall_seconds();
  process_.send_signal(SIGKILL);
}

void SwarmMember::pause(bool paused) {
  paused_ = paused;
  process_.send_signal(paused ? SIGSTOP : SIGCONT);
}

void SwarmMember::interrupt() {
  interrupted_ = true;
  process_.send_signal(SIGINT);
  if (paused_) pause(false);
}

void SwarmMember::give_up(const std::string& why) {
  failure_ = why;
  process_.send_signal(SIGKILL);
}

}  // namespace starling
