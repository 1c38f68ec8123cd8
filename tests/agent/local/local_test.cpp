#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "agent/local/command_lines.h"
#include "agent/local/distance.h"
#include "agent/local/member.h"
#include "agent/local/metrics_reader.h"
#include "agent/local/ports.h"
#include "agent/local/process.h"
#include "agent/local/run.h"
#include "agent/local/swarm_report.h"
#include "agent/local/table.h"
#include "agent/state/checkpoint_lock.h"
#include "tests/support/loopback.h"

namespace starling {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr int kPolls = 1000;  // of 10 ms: a deadline that only a hanging machine reaches

class SwarmTest : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = fs::path(testing::TempDir()) / ("starling_swarm_" + std::to_string(getpid()));
    fs::remove_all(dir_);
    fs::create_directories(dir_);
  }
  void TearDown() override { fs::remove_all(dir_); }

  std::string path(const std::string& name) const { return (dir_ / name).string(); }

  template <typename Condition>
  bool wait_until(Condition condition) {
    for (int i = 0; i < kPolls; ++i) {
      if (condition()) return true;
      gate_.wait(10ms);
    }
    return false;
  }

  std::unique_ptr<SwarmMember> shell_member(const std::string& script) {
    const std::string metrics = (dir_ / "agent" / "metrics.jsonl").string();
    return std::make_unique<SwarmMember>("agent", dir_ / "agent", 2,
                                         std::vector<std::string>{"/bin/sh", "-c", script, "sh", metrics});
  }

  fs::path dir_;
  SignalGate gate_;
};

using SwarmProcessTest = SwarmTest;
using SwarmMemberTest = SwarmTest;
using SwarmMetricsTest = SwarmTest;
using SwarmLinesTest = SwarmTest;

bool contains(const std::vector<std::string>& argv, const std::string& text) {
  return std::find(argv.begin(), argv.end(), text) != argv.end();
}

std::string after(const std::vector<std::string>& argv, const std::string& flag) {
  const auto at = std::find(argv.begin(), argv.end(), flag);
  return at == argv.end() || at + 1 == argv.end() ? "" : *(at + 1);
}

TEST_F(SwarmProcessTest, ReportsExitStatusAndKeepsTheOutput) {
  ChildProcess child({"/bin/sh", "-c", "echo to stdout; echo to stderr >&2; exit 3"}, path("log"));
  ASSERT_TRUE(wait_until([&] { return child.poll().has_value(); }));
  EXPECT_EQ(child.poll()->code, 3);
  EXPECT_FALSE(child.poll()->ok());
  EXPECT_EQ(child.poll()->describe(), "exit status 3");
  EXPECT_EQ(log_tail(path("log"), 5), "\n  to stdout\n  to stderr");
  EXPECT_EQ(log_tail(path("log"), 1), "\n  to stderr");
}

TEST_F(SwarmProcessTest, SignalsReachTheWholeGroup) {
  ChildProcess child({"/bin/sh", "-c", "tail -f /dev/null & echo $!; wait"}, path("log"));
  ASSERT_TRUE(wait_until([&] { return !log_tail(path("log"), 1).empty(); }));
  const pid_t grandchild = std::stoi(log_tail(path("log"), 1));
  EXPECT_EQ(getpgid(grandchild), child.pid());
  child.send_signal(SIGKILL);
  ASSERT_TRUE(wait_until([&] { return child.poll().has_value(); }));
  EXPECT_EQ(child.poll()->signal, SIGKILL);
  EXPECT_NE(child.poll()->describe().find("signal 9"), std::string::npos);
  EXPECT_TRUE(wait_until([&] { return getpgid(grandchild) != child.pid(); }));
}

TEST_F(SwarmProcessTest, EndsWithItsObject) {
  pid_t pid = 0;
  {
    ChildProcess child({"/usr/bin/tail", "-f", "/dev/null"}, path("log"));
    pid = child.pid();
    EXPECT_EQ(kill(pid, 0), 0);
  }
  EXPECT_EQ(kill(pid, 0), -1);  // killed and reaped
}

TEST_F(SwarmProcessTest, SaysWhatCannotBeStarted) {
  try {
    ChildProcess child({"/no/such/program"}, path("log"));
    FAIL() << "started a program that is not there";
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(std::string(error.what()), "/no/such/program cannot be started: No such file or directory");
  }
  EXPECT_THROW(ChildProcess({"/bin/true"}, path("no_folder/log")), std::runtime_error);
}

TEST_F(SwarmProcessTest, ChildrenAreFreeOfOurSignalMask) {
  ChildProcess child({"/bin/sh", "-c", "kill -TERM $$; exit 0"}, path("log"));
  ASSERT_TRUE(wait_until([&] { return child.poll().has_value(); }));
  EXPECT_EQ(child.poll()->signal, SIGTERM);
}

TEST_F(SwarmProcessTest, GateTakesSignalsInsteadOfDying) {
  raise(SIGTERM);
  raise(SIGINT);
  EXPECT_TRUE(gate_.wait(0ms));
  EXPECT_TRUE(gate_.wait(0ms));
  EXPECT_FALSE(gate_.wait(0ms));
}

TEST_F(SwarmProcessTest, TheFolderOfALivingSwarmIsNotTouched) {
  for (const char* in_use : {"bootstrap", "agent-1", "alone-0"}) {
    const fs::path out = dir_ / in_use;
    fs::create_directories(out / "agent-0" / "state" / "checkpoints");
    fs::create_directories(out / in_use);
    const DirectoryLock lock((out / in_use / "state").string());
    SwarmOptions options;
    options.program = "/bin/false";
    options.out = out.string();
    Config config;
    config.swarm.model.kind = "quadratic";  // needs no data
    try {
      run_local_swarm(options, config);
      ADD_FAILURE() << "a second swarm began beside " << in_use;
    } catch (const std::runtime_error& error) {
      EXPECT_NE(std::string(error.what()).find("another swarm runs"), std::string::npos) << error.what();
    }
    EXPECT_TRUE(fs::exists(out / "agent-0" / "state" / "checkpoints")) << in_use;
  }
}

TEST(SwarmPorts, FindsTwoAdjacentFreePorts) {
  const uint16_t first = find_free_port_pair(0);
  EXPECT_EQ(find_free_port_pair(0), first);
  EXPECT_FALSE(accepts_connections(first));
  const int fd = socket(AF_INET, SOCK_STREAM, 0);  // the second port of the pair is taken
  const sockaddr_in address = loopback(static_cast<uint16_t>(first + 1));
  ASSERT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(fd, 1), 0);
  EXPECT_NE(find_free_port_pair(0), first);
  EXPECT_TRUE(accepts_connections(static_cast<uint16_t>(first + 1)));
  close(fd);
}

TEST_F(SwarmMetricsTest, TakesInEveryKindOfLine) {
  AgentTrack track;
  EXPECT_TRUE(apply_metrics_line(track, R"({"t":100,"event":"start","name":"a","peer":"ab"})"));
  EXPECT_EQ(track.peer, "ab");
  EXPECT_TRUE(apply_metrics_line(track, R"({"t":100.5,"event":"data","labels":[2,1],"samples":10})"));
  EXPECT_EQ(track.labels, (std::vector<int64_t>{1, 2}));
  EXPECT_FALSE(track.joined_wall_s);
  EXPECT_TRUE(apply_metrics_line(track, R"({"t":101,"event":"joined","how":"fetched","steps":40})"));
  EXPECT_EQ(track.joined_wall_s, 101);
  EXPECT_EQ(track.steps, 40u);
  EXPECT_EQ(track.note, "received the model");
  EXPECT_TRUE(apply_metrics_line(track, R"({"t":102,"event":"exchange","peer":"cd","outcome":"done","steps":41})"));
  EXPECT_TRUE(apply_metrics_line(track, R"({"t":102,"event":"exchange","peer":"cd","outcome":"late","steps":41})"));
  EXPECT_TRUE(apply_metrics_line(track, R"({"t":102,"event":"exchange","peer":"ef","outcome":"failed","steps":41})"));
  EXPECT_TRUE(apply_metrics_line(track, R"({"t":102,"event":"exchange","peer":"ef","outcome":"busy","steps":41})"));
  EXPECT_EQ(track.exchanges.done + track.exchanges.late + track.exchanges.failed, 3u);
  EXPECT_TRUE(apply_metrics_line(track, R"({"t":102,"event":"exchanges","done":2,"late":1,"failed":4,"steps":41,)"
                                        R"("with":[{"peer":"gh","done":2,"late":1,"failed":4,"busy":9}]})"));
  EXPECT_EQ(track.exchanges.done, 3u);
  EXPECT_EQ(track.exchanges.late, 2u);
  EXPECT_EQ(track.exchanges.failed, 5u);
  EXPECT_EQ(track.partners["gh"].done, 2u);
  EXPECT_EQ(track.partners["gh"].late, 1u);
  EXPECT_EQ(track.partners["gh"].failed, 4u);
  EXPECT_EQ(track.partners["cd"].done, 1u);
  EXPECT_EQ(track.partners["ef"].failed, 1u);
  EXPECT_TRUE(apply_metrics_line(track, R"({"t":103,"event":"evaluate","steps":42,"accuracy":0.5,"loss":1})"));
  EXPECT_TRUE(apply_metrics_line(
      track, R"({"t":104,"event":"status","phase":"training","steps":43,"loss":0.7,"accuracy":0.5,"distance":0.01,
                 "swarm_distance":0.002,"spread":0.003,
                 "exchanges":{"done":9,"late":2,"failed":1},"bytes_sent":1000,"bytes_received":900})"));
  EXPECT_EQ(track.phase, "training");
  EXPECT_EQ(track.exchanges.done, 9u);  // totals win over what was counted
  EXPECT_EQ(track.bytes_received, 900u);
  EXPECT_EQ(track.note, "received the model");
  EXPECT_EQ(track.accuracies.size(), 1u);  // repeated, not measured again
  EXPECT_TRUE(apply_metrics_line(track, R"({"t":104,"event":"evaluate","steps":43,"accuracy":-1,"loss":1})"));
  EXPECT_EQ(track.accuracies.size(), 1u) << "not measured, which is not -100 %";
  EXPECT_EQ(track.distances.size(), 1u);
  EXPECT_EQ(track.swarm_distance, 0.002);
  EXPECT_EQ(track.spread, 0.003);
  EXPECT_TRUE(apply_metrics_line(
      track, R"({"t":104.5,"event":"status","exchanges":{"done":9,"late":2,"failed":1,"left_out":2},)"
             R"("left_out_last":"carol","steps":43})"));
  EXPECT_EQ(track.note, "left out as far away: carol");
  EXPECT_TRUE(apply_metrics_line(
      track, R"({"t":105,"event":"finish","reason":"stop_after","steps":44,"loss":0.6,"accuracy":0.9})"));
  EXPECT_EQ(track.finish_reason, "stop_after");
  EXPECT_FALSE(track.settled.has_value());
  ASSERT_TRUE(apply_metrics_line(
      track, R"({"t":106,"event":"finish","reason":"stop_after","settled":false,"steps":44,"proposals_refused":3})"));
  EXPECT_EQ(track.settled, false);
  EXPECT_EQ(track.status.proposals_refused, 3u);
  EXPECT_EQ(track.note, "its model and another's do not agree");
  EXPECT_EQ(track.accuracies.back().value, 0.9);
  EXPECT_EQ(track.accuracies.back().steps, 44u);
  EXPECT_EQ(track.losses.back().wall_s, 105);
  ASSERT_EQ(track.swarm_distances.size(), 1u) << "a line without it is no point";
  EXPECT_EQ(track.swarm_distances[0].value, 0.002);
  ASSERT_EQ(track.spreads.size(), 1u);
  EXPECT_EQ(track.spreads[0].value, 0.003);
}

TEST_F(SwarmMetricsTest, AnAgentThatJoinsHasNoStepsOfItsOwnYet) {
  AgentTrack track;
  const std::string joining = R"({"t":1,"event":"status","phase":"joining","steps":0,"loss":null,"bytes_sent":300})";
  EXPECT_TRUE(apply_metrics_line(track, joining));
  EXPECT_EQ(track.phase, "joining");
  EXPECT_EQ(track.bytes_sent, 300u);
  EXPECT_TRUE(track.losses.empty());
  EXPECT_TRUE(apply_metrics_line(track, R"({"t":2,"event":"joined","how":"fetched","steps":40})"));
  EXPECT_EQ(track.phase, "") << "it has joined, and no status has come since";
  EXPECT_TRUE(apply_metrics_line(track, R"({"t":3,"event":"status","phase":"training","steps":50})"));
  EXPECT_TRUE(apply_metrics_line(track, joining)) << "a restart";
  EXPECT_EQ(track.steps, 50u);
  EXPECT_EQ(track.phase, "joining");
}

// Exchanges while settling have no steps between them.
TEST_F(SwarmMetricsTest, PairExchangesAreThoseOfTraining) {
  AgentTrack track;
  const auto take = [&](const std::string& phase, int done) {
    EXPECT_TRUE(apply_metrics_line(track, R"({"t":1,"event":"status","steps_taken":10,"phase":")" + phase +
                                              R"(","pairs":{"initiated":9,"done":)" + std::to_string(done) + "}}"));
  };
  take("training", 8);
  take("training", 10);
  take("settling", 30);
  take("finished", 40);
  EXPECT_EQ(track.pairs.exchanges_a_step(), 1);
  track = {};
  take("settling", 30);
  EXPECT_EQ(track.pairs.exchanges_a_step(), 3) << "no other line tells";
}

TEST_F(SwarmMetricsTest, UnmeasuredIsNotZero) {
  AgentTrack track;
  EXPECT_TRUE(
      apply_metrics_line(track, R"({"t":1,"event":"status","steps":1,"loss":null,"accuracy":-1,"distance":-1})"));
  EXPECT_FALSE(track.loss);
  EXPECT_FALSE(track.accuracy);
  EXPECT_FALSE(track.distance);
  EXPECT_TRUE(track.losses.empty());
}

TEST_F(SwarmMetricsTest, OddLinesChangeNothing) {
  AgentTrack track;
  for (const char* line : {"", "{", "7", "[]", "{}", R"({"event":"status"})", R"({"t":"now","event":"status"})",
                           R"({"t":1,"event":7})", R"({"t":1,"event":"status","loss":inf})"}) {
    EXPECT_FALSE(apply_metrics_line(track, line)) << line;
  }
  EXPECT_TRUE(apply_metrics_line(track, R"({"t":1,"event":"status","steps":"many","loss":[],"exchanges":3})"));
  EXPECT_TRUE(apply_metrics_line(track, R"({"t":1,"event":"start","peer":9})"));
  EXPECT_TRUE(apply_metrics_line(track, R"({"t":1,"event":"data","labels":{"a":1}})"));
  EXPECT_EQ(track.steps, 0u);
  EXPECT_TRUE(track.losses.empty());
  EXPECT_TRUE(track.peer.empty());
  EXPECT_TRUE(track.labels.empty());
}

TEST_F(SwarmMetricsTest, FollowerWaitsForTheFileAndForWholeLines) {
  MetricsFollower follower(path("metrics.jsonl"));
  AgentTrack track;
  follower.poll(track);
  std::ofstream out(path("metrics.jsonl"));
  out << R"({"t":1,"event":"evaluate","steps":5,"accuracy":0.1})" << "\nnonsense\n"
      << R"({"t":2,"event":"eval)" << std::flush;
  follower.poll(track);
  EXPECT_EQ(track.steps, 5u);
  EXPECT_EQ(follower.odd_lines(), 1u);
  out << R"(uate","steps":6,"accuracy":0.2})" << std::flush;
  follower.poll(track);
  EXPECT_EQ(track.steps, 5u);
  out << "\n" << std::flush;
  follower.poll(track);
  EXPECT_EQ(track.steps, 6u);
  EXPECT_EQ(follower.odd_lines(), 1u);
}

constexpr const char* kFinish = R"(echo '{"t":5,"event":"finish","reason":"stop_after","steps":9}' >> "$1"; )";

TEST_F(SwarmMemberTest, FinishedMeansSaidSoAndExitedWell) {
  const auto member = shell_member(std::string(kFinish) + "exit 0");
  ASSERT_TRUE(wait_until([&] { return member->poll() && !member->running(); }));
  EXPECT_EQ(member->state(), ProcessState::kFinished);
  EXPECT_EQ(member->track().steps, 9u);
  EXPECT_EQ(member->failure(), "");
  EXPECT_EQ(member->shard(), 2u);
}

TEST_F(SwarmMemberTest, AnyOtherEndIsAFailure) {
  const auto silent = shell_member("exit 0");
  ASSERT_TRUE(wait_until([&] {
    silent->poll();
    return !silent->running();
  }));
  EXPECT_EQ(silent->state(), ProcessState::kFailed);
  EXPECT_NE(silent->failure().find("without a word"), std::string::npos);
  const auto broken = shell_member(std::string(kFinish) + "exit 4");
  ASSERT_TRUE(wait_until([&] {
    broken->poll();
    return !broken->running();
  }));
  EXPECT_EQ(broken->state(), ProcessState::kFailed);
  EXPECT_EQ(broken->failure(), "ended with exit status 4");
}

TEST_F(SwarmMemberTest, KilledOnPurposeIsNoFailureButGivenUpIs) {
  const auto victim = shell_member("tail -f /dev/null");
  victim->kill();
  ASSERT_TRUE(wait_until([&] {
    victim->poll();
    return !victim->running();
  }));
  EXPECT_EQ(victim->state(), ProcessState::kKilled);
  EXPECT_EQ(victim->failure(), "");
  EXPECT_NEAR(*victim->killed_wall_s(), wall_seconds(), 60);
  const auto stuck = shell_member("tail -f /dev/null");
  stuck->give_up("made no progress");
  ASSERT_TRUE(wait_until([&] {
    stuck->poll();
    return !stuck->running();
  }));
  EXPECT_EQ(stuck->state(), ProcessState::kFailed);
  EXPECT_EQ(stuck->failure(), "made no progress");
}

// The letter of /proc/PID/stat: T for a process that was stopped.
char state_of(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/stat");
  std::string number, name, state;
  file >> number >> name >> state;
  return state.empty() ? '-' : state[0];
}

TEST_F(SwarmMemberTest, OneThatStandsStillGoesOnAndStillLeaves) {
  const auto member = shell_member("trap 'exit 0' INT; echo $$; while :; do tail -f /dev/null & wait; done");
  ASSERT_TRUE(wait_until([&] { return !log_tail(member->log_path(), 1).empty(); }));
  const std::string pid = std::to_string(std::stoi(log_tail(member->log_path(), 1)));
  member->pause(true);
  ASSERT_TRUE(wait_until([&] { return state_of(pid) == 'T'; }));
  member->pause(false);
  ASSERT_TRUE(wait_until([&] { return state_of(pid) != 'T'; }));
  member->pause(true);
  ASSERT_TRUE(wait_until([&] { return state_of(pid) == 'T'; }));
  EXPECT_FALSE(member->poll()) << "a process that stands still has not ended";
  member->interrupt();
  EXPECT_TRUE(wait_until([&] {
    member->poll();
    return !member->running();
  }));
}

// A script's background commands ignore SIGINT, and so would all that they start.
TEST_F(SwarmMemberTest, LeavesThoughItsParentIgnoresTheInterrupt) {
  const auto before = signal(SIGINT, SIG_IGN);
  const auto member = shell_member("trap 'exit 0' INT; echo up; while :; do tail -f /dev/null & wait; done");
  signal(SIGINT, before);
  ASSERT_TRUE(wait_until([&] { return !log_tail(member->log_path(), 1).empty(); }));
  member->interrupt();
  EXPECT_TRUE(wait_until([&] {
    member->poll();
    return !member->running();
  }));
}

SwarmOptions make_options() {
  SwarmOptions options;
  options.program = "/bin/starling";
  options.config_path = "swarm.yaml";
  options.overrides = {"swarm.exchange.codec=bf16", "agent.device=cpu"};
  options.steps = 40;
  options.rng_seed = 7;
  return options;
}

Config make_config(const std::string& data) {
  Config config;
  config.agent.data.path = data;
  config.agent.data.sharding = "labels";
  return config;
}

TEST_F(SwarmLinesTest, AgentsGetTheConfigAndAJoinerNothingOfTheSwarm) {
  const SwarmOptions options = make_options();
  const SwarmCommandLines lines(options, make_config("generated"));
  const auto agent = lines.agent("agent-1", dir_, 1, "127.0.0.1:7500");
  EXPECT_EQ(after(agent, "--config"), "swarm.yaml");
  EXPECT_EQ(after(agent, "--shard"), "2/4");
  EXPECT_EQ(after(agent, "--bootstrap"), "127.0.0.1:7500");
  EXPECT_EQ(after(agent, "--wait-for"), "4") << "they train from one moment on";
  EXPECT_TRUE(contains(agent, "swarm.exchange.codec=bf16"));
  EXPECT_TRUE(contains(agent, "swarm.stop_after=40"));
  EXPECT_TRUE(contains(agent, "swarm.rng_seed=7"));
  const auto joiner = lines.joiner("agent-4", dir_, 2, "127.0.0.1:7500");
  EXPECT_FALSE(contains(joiner, "--config"));
  for (const std::string& argument : joiner) EXPECT_FALSE(argument.starts_with("swarm.")) << argument;
  EXPECT_TRUE(contains(joiner, "agent.device=cpu"));
  EXPECT_EQ(after(joiner, "--bootstrap"), "127.0.0.1:7500");
  EXPECT_EQ(after(joiner, "--shard"), "3/4");
  EXPECT_EQ(after(joiner, "--sharding"), "labels");
  EXPECT_EQ(after(joiner, "--data"), "generated");
}

TEST_F(SwarmLinesTest, AJoinerTakesTheAgentsHalfOfTheFile) {
  Config config = make_config("generated");
  config.agent.device = "cpu";
  config.agent.batch = 17;
  config.agent.data.sharding = "dirichlet";
  config.agent.data.alpha = 0.123456789;
  config.agent.data.hold_out = 0.1;
  config.agent.data.labels = {3, 1};
  const SwarmOptions options = make_options();
  const auto argv = SwarmCommandLines(options, config).joiner("agent-4", dir_, 2, "127.0.0.1:7500");
  std::vector<std::string> overrides;
  for (size_t i = 0; i + 1 < argv.size(); ++i) {
    if (argv[i] == "--set") overrides.push_back(argv[i + 1]);
  }
  const Config got = load_config("", overrides);
  EXPECT_EQ(got.agent.data.alpha, config.agent.data.alpha);
  EXPECT_EQ(got.agent.data.hold_out, 0.1);
  EXPECT_EQ(got.agent.data.labels, config.agent.data.labels);
  EXPECT_EQ(after(argv, "--device"), "cpu");
  EXPECT_EQ(after(argv, "--batch"), "17");
}

TEST_F(SwarmLinesTest, BaselinesExchangeWithNobody) {
  const SwarmOptions options = make_options();
  const SwarmCommandLines lines(options, make_config("generated"));
  for (const auto& argv : {lines.alone("alone-3", dir_, 3), lines.central("central", dir_)}) {
    EXPECT_TRUE(contains(argv, "swarm.exchange.kind=none"));
    EXPECT_TRUE(contains(argv, "swarm.stop_after=40"));
    EXPECT_FALSE(contains(argv, "--bootstrap"));
  }
  EXPECT_EQ(after(lines.alone("alone-3", dir_, 3), "--shard"), "4/4");
  EXPECT_EQ(after(lines.central("central", dir_), "--sharding"), "all");
}

TEST_F(SwarmLinesTest, OnlyTheDigitsHaveAStandIn) {
  const SwarmOptions options = make_options();
  const SwarmCommandLines digits(options, make_config(path("digits")));
  EXPECT_NE(digits.remark().find("drawn by the program itself"), std::string::npos);
  EXPECT_EQ(after(digits.agent("a", dir_, 0, "h:1"), "--data"), "generated");
  fs::create_directories(path("digits"));
  const SwarmCommandLines real(options, make_config(path("digits")));
  EXPECT_EQ(real.remark(), "");
  EXPECT_EQ(after(real.agent("a", dir_, 0, "h:1"), "--data"), path("digits"));
  EXPECT_THROW(SwarmCommandLines(options, make_config(path("own_data"))), std::runtime_error);
  EXPECT_THROW(SwarmCommandLines(options, make_config("")), std::runtime_error);
}

TEST_F(SwarmMemberTest, TableHasOneLineForEachAndKeepsToItsWidth) {
  SwarmMembers members;
  members.push_back(shell_member(
      R"(printf '{"t":1,"event":"start","peer":"ab"}\n{"t":1,"event":"data","labels":[0,1]}\n' >>"$1";
         printf '{"t":2,"event":"joined","how":"genesis"}\n' >>"$1";
         printf '{"t":3,"event":"status","swarm_distance":0.0123,"spread":0.0456,"sent_last_round":999900000,' >> "$1"
         printf '"bytes_sent":5000,' >> "$1"
         printf '"loss":0.125,"exchanges":{"done":1234,"late":3,"failed":10}}\n' >> "$1"
         printf '{"t":3,"event":"evaluate","steps":8,"accuracy":0.25}\n' >> "$1"; tail -f /dev/null)"));
  ASSERT_TRUE(wait_until([&] {
    members[0]->poll();
    return members[0]->track().steps == 8;
  }));
  const std::vector<std::string> table = render_table(members, 0);
  ASSERT_EQ(table.size(), 2u);
  EXPECT_EQ(table[0], "agent    state    data       step   loss accuracy exchanges failed     sent  note");
  EXPECT_EQ(table[1],
            "agent    joined   0 1           8  0.125   25.0 %      1237     10   5.0 kB  drew the first params");
  EXPECT_EQ(render_table(members, 80)[0] + "  note", table[0]) << "all but notes is seen on 80 columns";
  EXPECT_EQ(render_table(members, 80)[1] + "  drew the first params", table[1]);
  const std::vector<std::string> details = render_table(members, 0, true);
  EXPECT_NE(details[0].find("     sent   late  to mean   spread last round  note"), std::string::npos) << details[0];
  EXPECT_NE(details[1].find("   5.0 kB      3    0.012    0.046   999.9 MB  drew"), std::string::npos) << details[1];
  for (const std::string& line : render_table(members, 40)) EXPECT_LE(line.size(), 40u);
  EXPECT_EQ(render_compact(members, 12), "  12 s  spread 0.046  agent joined 8 25.0 %");
  members[0]->give_up("bell \a and\nnewline");
  EXPECT_EQ(render_table(members, 0)[1].find_first_of("\a\n"), std::string::npos);
}

// Nobody told of a model that had been trained: nothing is known, which is not the same as 0.
TEST_F(SwarmMemberTest, WhereNoDistanceIsKnownTableAndReportSayNone) {
  SwarmMembers members;
  members.push_back(shell_member(
      R"(printf '{"t":1,"event":"start","peer":"ab"}\n{"t":2,"event":"joined","how":"genesis"}\n' >>"$1";
         printf '{"t":3,"event":"status","phase":"training","steps":9,"swarm_distance":null,"spread":null,' >> "$1"
         printf '"loss":0.125,"exchanges":{"done":5,"late":0,"failed":0}}\n' >> "$1"; tail -f /dev/null)"));
  ASSERT_TRUE(wait_until([&] {
    members[0]->poll();
    return members[0]->track().steps == 9;
  }));
  const std::string row = render_table(members, 0, true)[1];
  EXPECT_NE(row.find(" 0.125        -         5      0      0 B      0        -        -          -"),
            std::string::npos)
      << row;
  EXPECT_EQ(render_compact(members, 12).find("spread"), std::string::npos);
  const AgentReport report = make_swarm_report(members, 1, {}).agents[0];
  EXPECT_EQ(report.steps, 9u);
  EXPECT_FALSE(report.swarm_distance || report.spread);
  EXPECT_TRUE(report.swarm_distances.empty() && report.spreads.empty());
}

TEST(SwarmDistance, IsTheRmsDifferenceToTheMean) {
  const std::vector<float> a = {1, 2, 3, 4}, b = {3, 2, 3, 4}, shorter = {1};
  EXPECT_DOUBLE_EQ(*rms_distance({a, b}), std::sqrt(2.0 / 8));  // two differences of 1 among eight numbers
  EXPECT_EQ(rms_distance({a, a, a}), 0);
  EXPECT_FALSE(rms_distance({a}));
  EXPECT_FALSE(rms_distance({a, shorter}));
  EXPECT_FALSE(rms_distance({{}, {}}));
  EXPECT_FALSE(params_distance({"no_such_folder", "nor_this"}).has_value());
}

}  // namespace
}  // namespace starling
