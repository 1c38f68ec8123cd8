// One agent of a local swarm as the `swarm` command sees it: its process, what its metrics say, how it ended.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/local/metrics_reader.h"
#include "agent/local/process.h"

namespace starling {

enum class ProcessState { kRunning, kFinished, kKilled, kFailed };

const char* to_string(ProcessState state);

double wall_seconds();  // since 1970, as in metrics lines

class SwarmMember {
 public:
  // Creates `dir` and starts the process. Throws std::runtime_error if either cannot be done.
  SwarmMember(std::string name, std::filesystem::path dir, uint32_t shard, std::vector<std::string> argv);

  // Reads new metrics and looks whether the process has ended. True if there was progress: another step, joined, ended.
  bool poll();
  void kill();                           // SIGKILL: on purpose, so it is no failure
  void pause(bool paused);               // SIGSTOP, SIGCONT
  void interrupt();                      // SIGINT: leave politely, however far it is; a paused agent is resumed for it
  void give_up(const std::string& why);  // SIGKILL: counts as failed

  const std::string& name() const { return name_; }
  uint32_t shard() const { return shard_; }
  ProcessState state() const { return state_; }
  bool running() const { return state_ == ProcessState::kRunning; }
  bool paused() const { return paused_; }
  bool joined() const { return track_.joined_wall_s.has_value(); }
  const AgentTrack& track() const { return track_; }
  const std::string& failure() const { return failure_; }  // why it failed, for people; else empty
  std::optional<double> killed_wall_s() const { return killed_wall_s_; }
  std::string log_path() const { return (dir_ / "log").string(); }
  std::string state_dir() const { return (dir_ / "state").string(); }

 private:
  void settle(const ExitStatus& exit);

  std::string name_;
  std::filesystem::path dir_;
  uint32_t shard_;
  MetricsFollower follower_;
  AgentTrack track_;
  ProcessState state_ = ProcessState::kRunning;
  std::optional<double> killed_wall_s_;
  std::string failure_;
  bool paused_ = false, interrupted_ = false;
  ChildProcess process_;  // last: it ends first
};

using SwarmMembers = std::vector<std::unique_ptr<SwarmMember>>;

}  // namespace starling
