#include "agent/local/run.h"

#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <vector>

#include <fmt/format.h>

#include "agent/local/baselines.h"
#include "agent/local/command_lines.h"
#include "agent/local/member.h"
#include "agent/local/registry.h"
#include "agent/local/swarm_report.h"
#include "agent/local/table.h"
#include "agent/report/report.h"
#include "agent/state/checkpoint_lock.h"
#include "agent/train/model_kinds.h"

namespace starling {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr Duration kStallLimit = 10min;  // without a step, a join or an end anywhere: something hangs
constexpr Duration kLeaveLimit = 60s;    // after Ctrl-C, before SIGKILL: a step may take long

// Whether an earlier run left this entry in its folder. Nothing else there is touched.
bool ours(const std::string& name) {
  for (const char* prefix : {"agent-", "alone-"}) {
    if (name.starts_with(prefix)) return true;
  }
  return name == "report.json" || name == "report.html" || name == "bootstrap" || name == "central";
}

void prepare_folder(const fs::path& dir) {
  std::error_code error;
  fs::create_directories(dir, error);
  if (error || !fs::is_directory(dir)) {
    throw std::runtime_error("the folder " + dir.string() + " cannot be created: " + error.message() +
                             "; name another one with --out");
  }
  if (fs::is_empty(dir)) return;
  // A run that was interrupted early left the registry alone.
  const bool earlier =
      fs::exists(dir / "report.json") || fs::exists(dir / "agent-0") || fs::exists(dir / "bootstrap" / "log");
  if (!earlier) {
    throw std::runtime_error("the folder " + dir.string() +
                             " holds other things than an earlier swarm; name an empty "
                             "or a new one with --out");
  }
  std::vector<fs::path> old;
  for (const auto& entry : fs::directory_iterator(dir)) {
    if (ours(entry.path().filename().string())) old.push_back(entry.path());
  }
  // Checked for all before any is removed: a living swarm would lose its checkpoints.
  for (const fs::path& path : old) {
    if (!is_locked((path / "state").string())) continue;
    throw std::runtime_error("another swarm runs in the folder " + dir.string() + " (" + path.filename().string() +
                             " is in use); stop it, or name another folder with --out");
  }
  for (const fs::path& path : old) fs::remove_all(path);
}

void check_options(const SwarmOptions& options) {
  if (options.agents == 0) throw std::runtime_error("--agents 0: a swarm needs at least one agent");
  options.scenario.refuse_absent(options.agents);
}

class SwarmRun {
 public:
  SwarmRun(const SwarmOptions& options, const Config& config)
      : options_(options),
        config_(config),
        lines_(options, config),
        dir_(options.out),
        table_(clock_, options.details),
        registry_(lines_, dir_ / "bootstrap", config.swarm.trust.kind == Trust::kTicket, clock_, gate_),
        agenda_(options.scenario) {}

  int run();

 private:
  void start_agents();
  void watch();
  void poll_members();
  void tell_ends(const SwarmMember& member);
  void mark_all_joined();
  void act();
  void act_on(const ScenarioEvent& event);
  void act_join();
  void end_pauses_with_the_run();
  uint64_t median_step_now() const;
  void leave();
  void check_stall();
  bool any(ProcessState state) const {
    return std::any_of(members_.begin(), members_.end(), [&](const auto& member) { return member->state() == state; });
  }
  bool comparable() const;
  double since_joined() const { return all_joined_ ? seconds(clock_.now() - *all_joined_) : 0; }
  SwarmReport make_report() const;
  int close(SwarmReport& report);

  const SwarmOptions& options_;
  const Config& config_;
  SteadyClock clock_;
  SwarmCommandLines lines_;
  fs::path dir_;
  SignalGate gate_;
  LiveTable table_;
  LocalRegistry registry_;
  SwarmMembers members_;
  ScenarioAgenda agenda_;
  FreeShards free_shards_;
  std::optional<TimePoint> all_joined_;
  double all_joined_wall_s_ = 0;
  double started_wall_s_ = 0;
  double seconds_ = 0;  // from the start of the agents to the end of the last one
  TimePoint last_progress_;
  std::optional<TimePoint> leave_deadline_;
};

int SwarmRun::run() {
  prepare_folder(dir_);
  if (!lines_.remark().empty()) table_.event(lines_.remark());
  if (!registry_.start()) {
    table_.event("interrupted before the agents were started");
    return 0;
  }
  start_agents();
  watch();
  registry_.stop();
  table_.update(members_, true);
  table_.finish();
  SwarmReport report = make_report();
  if (comparable()) {
    table_.event("");
    table_.event("For comparison: each agent alone, and one process with all the data.");
    table_.finish();
    const BaselineResult baselines = run_baselines(lines_, options_.agents, dir_, clock_, gate_);
    report.alone = baselines.alone;
    report.central = baselines.central;
    if (!baselines.failure.empty()) std::printf("%s", baselines.failure.c_str());
  }
  return close(report);
}

void SwarmRun::start_agents() {
  started_wall_s_ = wall_seconds();
  last_progress_ = clock_.now();
  for (uint32_t i = 0; i < options_.agents; ++i) {
    const std::string name = "agent-" + std::to_string(i);
    members_.push_back(
        std::make_unique<SwarmMember>(name, dir_ / name, i, lines_.agent(name, dir_ / name, i, registry_.bootstrap())));
  }
}

void SwarmRun::watch() {
  while (any(ProcessState::kRunning)) {
    if (gate_.wait(50ms)) leave();
    poll_members();
    if (!all_joined_) mark_all_joined();
    if (all_joined_ && !leave_deadline_) act();
    end_pauses_with_the_run();
    if (leave_deadline_ && clock_.now() > *leave_deadline_) {
      for (const auto& member : members_) {
        if (member->running()) member->give_up("was ended before it had left");
      }
      leave_deadline_ = clock_.now() + kLeaveLimit;
    }
    check_stall();
    table_.update(members_, false);
  }
  seconds_ = wall_seconds() - started_wall_s_;
  if (leave_deadline_) return;
  for (const std::string& text : agenda_.missed(from_seconds(since_joined()))) table_.event(text);
}

void SwarmRun::poll_members() {
  for (const auto& member : members_) {
    if (!member->running()) continue;
    if (member->poll()) last_progress_ = clock_.now();
    if (!member->running()) tell_ends(*member);
  }
}

void SwarmRun::tell_ends(const SwarmMember& member) {
  if (member.state() != ProcessState::kFailed) return;
  const std::string message = member.name() + " " + member.failure();
  const std::string tail = "the end of " + member.log_path() + " says:" + log_tail(member.log_path());
  // A failure before all agents have joined means that the start is wrong, most likely for all of them.
  if (!all_joined_ && !leave_deadline_) throw std::runtime_error(message + " before it had joined; " + tail);
  table_.event(fmt::format("{:6.1f} s  ", since_joined()) + message + "; see " + member.log_path());
}

void SwarmRun::mark_all_joined() {
  for (const auto& member : members_) {
    if (!member->joined()) return;
    all_joined_wall_s_ = std::max(all_joined_wall_s_, *member->track().joined_wall_s);
  }
  all_joined_ = clock_.now() - from_seconds(std::max(0.0, wall_seconds() - all_joined_wall_s_));
  table_.set_origin(*all_joined_);
  table_.event(fmt::format(
      "{:6.1f} s  {}", since_joined(),
      options_.agents == 1 ? "the agent has joined" : fmt::format("all {} agents have joined", options_.agents)));
}

void SwarmRun::act() {
  for (const ScenarioEvent& event : agenda_.take_due(from_seconds(since_joined()), median_step_now())) {
    if (event.kind == ScenarioEvent::Kind::kJoin)
      act_join();
    else
      act_on(event);
  }
}

// Once the others have finished, those that stand still are all that the run waits for.
void SwarmRun::end_pauses_with_the_run() {
  bool finished = false;
  for (const auto& member : members_) {
    if (member->running() && !member->paused()) return;
    finished = finished || member->state() == ProcessState::kFinished;
  }
  if (!finished) return;
  for (const auto& member : members_) {
    if (!member->running()) continue;
    member->pause(false);
    table_.event(fmt::format("{:6.1f} s  {} goes on (SIGCONT): all others have ended", since_joined(), member->name()));
  }
}

uint64_t SwarmRun::median_step_now() const {
  std::vector<uint64_t> steps;
  for (const auto& member : members_) {
    if (member->running()) steps.push_back(member->track().steps);
  }
  return median_step(std::move(steps));
}

void SwarmRun::act_on(const ScenarioEvent& event) {
  const bool there = event.agent < members_.size() && members_[event.agent]->running();
  if (!there) {
    if (event.kind == ScenarioEvent::Kind::kResume) return;
    const char* what = event.kind == ScenarioEvent::Kind::kKill ? "kill" : "pause";
    table_.event(fmt::format("{:6.1f} s  agent-{} is not running: nothing to {}", since_joined(), event.agent, what));
    return;
  }
  SwarmMember& member = *members_[event.agent];
  if (event.kind == ScenarioEvent::Kind::kKill) {
    member.kill();
    free_shards_.add(member.shard());
    table_.event(
        fmt::format("{:6.1f} s  {} killed (SIGKILL)", *member.killed_wall_s() - all_joined_wall_s_, member.name()));
  } else {
    const bool paused = event.kind == ScenarioEvent::Kind::kPause;
    if (!paused && !member.paused()) return;  // its pause has ended with the run
    member.pause(paused);
    const std::string end = fmt::format("stands still (SIGSTOP) until {:.1f} s", since_joined() + seconds(event.lasts));
    table_.event(fmt::format("{:6.1f} s  {} {}", since_joined(), member.name(), paused ? end : "goes on (SIGCONT)"));
  }
}

void SwarmRun::act_join() {
  const std::string name = "agent-" + std::to_string(members_.size());
  const uint32_t shard = free_shards_.take();
  table_.event(fmt::format("{:6.1f} s  {} starts with nothing but an address and data shard {}", since_joined(), name,
                           shard + 1));
  members_.push_back(std::make_unique<SwarmMember>(name, dir_ / name, shard,
                                                   lines_.joiner(name, dir_ / name, shard, registry_.bootstrap())));
}

void SwarmRun::leave() {
  const bool again = leave_deadline_.has_value();
  table_.event(again ? "ending at once" : "interrupted: the agents finish their step and leave; again to stop now");
  leave_deadline_ = again ? clock_.now() : clock_.now() + kLeaveLimit;
  for (const auto& member : members_) {
    if (member->running()) member->interrupt();
  }
}

void SwarmRun::check_stall() {
  const auto paused = [](const auto& member) { return member->running() && member->paused(); };
  if (std::any_of(members_.begin(), members_.end(), paused)) last_progress_ = clock_.now();
  if (clock_.now() - last_progress_ < kStallLimit) return;
  for (const auto& member : members_) {
    if (member->running()) member->give_up("made no progress for 10 minutes");
  }
  last_progress_ = clock_.now();
}

// A run without an end, without agents left, or an interrupted one has no end result to compare.
bool SwarmRun::comparable() const {
  if (!options_.baselines || leave_deadline_ || config_.swarm.stop_after == 0) return false;
  if (!any(ProcessState::kFinished)) return false;
  return model_kind(config_.swarm.model.kind).needs_data;
}

SwarmReport SwarmRun::make_report() const {
  const SwarmTimes times{.origin_wall_s = all_joined_ ? all_joined_wall_s_ : started_wall_s_, .seconds = seconds_};
  SwarmReport report = make_swarm_report(members_, options_.agents, times);
  report.title = "Swarm \"" + config_.swarm.name + "\"";
  report.remark = lines_.remark();
  if (leave_deadline_) report.remark += (report.remark.empty() ? "" : "; ") + std::string("the run was interrupted");
  return report;
}

int SwarmRun::close(SwarmReport& report) {
  write_report(dir_.string(), report);  // first: from here on a reader that stands still is waited for
  std::printf("\n%s\n", print_closing_table(report).c_str());
  if (options_.details) std::printf("%s\n", print_details(report).c_str());
  std::printf("%s\n", summarize(report).c_str());
  if (!report.remark.empty()) std::printf("Note: %s.\n", report.remark.c_str());
  std::fflush(stdout);
  std::printf("report: %s\n", (dir_ / "report.html").c_str());
  int status = 0;
  for (const auto& member : members_) {
    if (member->state() != ProcessState::kFailed) continue;
    std::fprintf(stderr, "%s %s; the end of %s says:%s\n", member->name().c_str(), member->failure().c_str(),
                 member->log_path().c_str(), log_tail(member->log_path()).c_str());
    status = 1;
  }
  if (status == 0 && !any(ProcessState::kFinished)) {
    std::fprintf(stderr,
                 "starling: every agent was killed before the end, so this swarm has no final model; leave "
                 "one alive, or let newcomers join (--join)\n");
    status = 1;
  }
  return status;
}

}  // namespace

int run_local_swarm(const SwarmOptions& options, const Config& config) {
  check_options(options);
  refuse_attached(config.swarm.model);
  if (config.swarm.trust.kind == Trust::kCertified) {
    throw std::runtime_error(
        "trust: certified: each agent needs a ticket of its own; for a swarm on one machine write trust: ticket");
  }
  return SwarmRun(options, config).run();
}

}  // namespace starling
