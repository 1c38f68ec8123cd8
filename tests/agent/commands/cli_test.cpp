#include "agent/commands/cli.h"

#include <gtest/gtest.h>

#include <any>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <tuple>

#include "agent/commands/commands.h"
#include "tests/gossip/net/numbered_identity.h"

namespace starling {
namespace {

using Kind = ScenarioEvent::Kind;
using namespace std::chrono_literals;

struct Parsed {
  Cli cli;
  std::string out, err;
};

Parsed parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "starling");
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Parsed parsed;
  parsed.cli = parse_cli(static_cast<int>(arguments.size()), arguments.data(), "/bin/starling", {});
  std::cout.flush();
  parsed.out = testing::internal::GetCapturedStdout();
  parsed.err = testing::internal::GetCapturedStderr();
  return parsed;
}

std::string refusal(std::vector<const char*> arguments) {
  try {
    parse(std::move(arguments)).cli.run();
    return "";
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

using Texts = std::vector<std::string>;

TEST(Cli, AgentFlagsBecomeOverridesInTheirOrder) {
  const Parsed p = parse({"agent", "--config", "f.yaml", "--batch", "3", "--set", "agent.batch=4", "--shard", "2/4",
                          "--set", "swarm.model.hidden=[1, 2]", "--batch=5", "--labels", "0,1,2", "--name", ""});
  EXPECT_EQ(p.cli.command, "agent");
  EXPECT_EQ(p.cli.config_path, "f.yaml");
  EXPECT_EQ(p.cli.overrides, (Texts{"--batch=3", "agent.batch=4", "--shard=2/4", "swarm.model.hidden=[1, 2]",
                                    "--batch=5", "--labels=0,1,2", "--name="}));
  EXPECT_EQ(p.out + p.err, "");
  const Config config = load_config("", p.cli.overrides);
  EXPECT_EQ(config.agent.batch, 5u);
  EXPECT_EQ(config.agent.data.shard, 1u);
  EXPECT_EQ(config.agent.data.labels, (std::vector<int64_t>{0, 1, 2}));
}

TEST(Cli, EveryAgentFlagSetsItsKey) {
  const Parsed p = parse({"agent", "--bootstrap", "a:1",         "--data",      "d",   "--test-data", "t", "--sharding",
                          "iid",   "--listen",    "127.0.0.1:0", "--advertise", "h:5", "--state",     "s", "--device",
                          "cpu",   "--threads",   "2",           "--metrics",   "m"});
  const AgentConfig agent = load_config("", p.cli.overrides).agent;
  EXPECT_EQ(agent.bootstrap, (std::vector<Endpoint>{{"a", 1}}));
  EXPECT_EQ(agent.data.path, "d");
  EXPECT_EQ(agent.data.test_path, "t");
  EXPECT_EQ(agent.data.sharding, "iid");
  EXPECT_EQ(agent.listen.port, 0);
  EXPECT_EQ(agent.advertise, (Endpoint{"h", 5}));
  EXPECT_EQ(agent.state, "s");
  EXPECT_EQ(agent.device, "cpu");
  EXPECT_EQ(agent.threads, 2u);
  EXPECT_EQ(agent.metrics, "m");
}

TEST(Cli, BootstrapAddressesAddUp) {
  for (const auto& arguments : std::vector<std::vector<const char*>>{
           {"agent", "--bootstrap", "a:1,b:2", "--bootstrap", "c:3"},
           {"agent", "--initial-peers", "a:1", "--bootstrap", "b:2", "--initial-peers", "c:3"}}) {
    const Config config = load_config("", parse(arguments).cli.overrides);
    EXPECT_EQ(config.agent.bootstrap, (std::vector<Endpoint>{{"a", 1}, {"b", 2}, {"c", 3}}));
    EXPECT_FALSE(config.has_swarm);
  }
}

TEST(Cli, ARegistryHasAFolderOfItsOwn) {
  unsetenv("STARLING_STATE");
  const Parsed p = parse({"bootstrap", "--listen", "0.0.0.0:7400"});
  EXPECT_EQ(p.cli.command, "bootstrap");
  EXPECT_EQ(load_config("", p.cli.overrides).agent.state, "starling-registry");
  EXPECT_EQ(load_config("", parse({"bootstrap", "--state", "mine"}).cli.overrides).agent.state, "mine");
  setenv("STARLING_STATE", "given", 1);
  EXPECT_EQ(load_config("", parse({"bootstrap"}).cli.overrides).agent.state, "given");
  unsetenv("STARLING_STATE");
  EXPECT_EQ(load_config("", parse({"bootstrap", "--swarm", "0123456789abcdef"}).cli.overrides).agent.swarm_id,
            0x0123456789abcdefu);
}

TEST(Cli, ReadsTheSwarmCommand) {
  const Parsed p = parse({"swarm",    "--config",      "f",       "--out",  "o",         "--agents", "5",
                          "--set",    "swarm.batch=8", "--kill",  "2@8",    "--kill",    "0@9.5",    "--join",
                          "@12",      "--join",        "13",      "--kill", "1@step300", "--join",   "@step350",
                          "--pause",  "3@1+2.5",       "--steps", "400",    "--seed",    "0",        "--no-baselines",
                          "--details"});
  ASSERT_EQ(p.cli.command, "swarm") << p.err;
  const auto swarm = std::any_cast<SwarmOptions>(p.cli.options);
  EXPECT_EQ(swarm.program, "/bin/starling");
  EXPECT_EQ(swarm.config_path, "f");
  EXPECT_EQ(swarm.out, "o");
  EXPECT_EQ(swarm.agents, 5u);
  EXPECT_EQ(swarm.overrides, (Texts{"swarm.batch=8"}));
  EXPECT_EQ(swarm.scenario.events(), (std::vector<ScenarioEvent>{{Kind::kKill, 2, 8s},
                                                                 {Kind::kKill, 0, 9500ms},
                                                                 {Kind::kJoin, 0, 12s},
                                                                 {Kind::kJoin, 0, 13s},
                                                                 {Kind::kKill, 1, 0s, 300},
                                                                 {Kind::kJoin, 0, 0s, 350},
                                                                 {Kind::kPause, 3, 1s, {}, 2500ms}}));
  EXPECT_EQ(swarm.steps, 400u);
  EXPECT_EQ(swarm.rng_seed, 0u);
  EXPECT_FALSE(swarm.baselines);
  EXPECT_TRUE(swarm.details);
  const SwarmOptions plain = std::any_cast<SwarmOptions>(parse({"swarm", "--config", "f", "--out", "o"}).cli.options);
  EXPECT_EQ(plain.agents, 4u);
  EXPECT_FALSE(plain.steps.has_value() || plain.rng_seed.has_value());
  EXPECT_TRUE(plain.baselines && !plain.details && plain.scenario.events().empty());
}

TEST(Cli, ReadsTheSimulateCommand) {
  const Parsed p = parse(
      {"simulate",      "--config",   "f",         "--out",      "o",       "--agents", "16",        "--set",
       "swarm.batch=8", "--steps",    "200",       "--seconds",  "30",      "--seed",   "5",         "--latency",
       "5ms",           "--jitter",   "2ms",       "--rate",     "10mbit",  "--loss",   "0.01",      "--lose-exchanges",
       "0.2",           "--compute",  "40ms",      "--speeds",   "1,1,4",   "--kill",   "2@8",       "--kill",
       "0@9.5",         "--join",     "@12",       "--pause",    "3@1+2.5", "--kill",   "1@step300", "--pause",
       "3@step7+1",     "--baseline", "allreduce", "--baseline", "serial",  "--every",  "0.5",       "--details"});
  ASSERT_EQ(p.cli.command, "simulate") << p.err;
  const auto simulate = std::any_cast<SimulateOptions>(p.cli.options);
  EXPECT_EQ(simulate.config_path, "f");
  EXPECT_EQ(simulate.out, "o");
  EXPECT_EQ(simulate.overrides, (Texts{"swarm.batch=8"}));
  EXPECT_EQ(simulate.agents, 16u);
  EXPECT_EQ(simulate.steps, 200u);
  EXPECT_EQ(simulate.rng_seed, 5u);
  EXPECT_EQ(simulate.duration, Duration(std::chrono::seconds(30)));
  EXPECT_EQ(simulate.every, Duration(std::chrono::milliseconds(500)));
  EXPECT_EQ(simulate.latency, Duration(std::chrono::milliseconds(5)));
  EXPECT_EQ(simulate.jitter, Duration(std::chrono::milliseconds(2)));
  EXPECT_EQ(simulate.compute, Duration(std::chrono::milliseconds(40)));
  EXPECT_EQ(simulate.bytes_per_s, 1.25e6);
  EXPECT_EQ(simulate.loss, 0.01);
  EXPECT_EQ(simulate.exchange_loss, 0.2);
  EXPECT_EQ(simulate.speeds, (std::vector<double>{1, 1, 4}));
  EXPECT_EQ(simulate.scenario.events(), (std::vector<ScenarioEvent>{{Kind::kKill, 2, 8s},
                                                                    {Kind::kKill, 0, 9500ms},
                                                                    {Kind::kJoin, 0, 12s},
                                                                    {Kind::kPause, 3, 1s, {}, 2500ms},
                                                                    {Kind::kKill, 1, 0s, 300},
                                                                    {Kind::kPause, 3, 0s, 7, 1s}}));
  EXPECT_EQ(simulate.baselines, (Texts{"allreduce", "serial"}));
  EXPECT_TRUE(simulate.details);
  const Parsed unlimited = parse({"simulate", "--config", "f", "--out", "o", "--rate", "unlimited"});
  EXPECT_EQ(std::any_cast<SimulateOptions>(unlimited.cli.options).bytes_per_s, 0);
}

TEST(Cli, RefusesWhatSimulateCannotRead) {
  for (const auto& [flag, value, expected] : std::vector<std::tuple<const char*, const char*, const char*>>{
           {"--rate", "100", "100mbit"},  {"--rate", "-1mbit", "100mbit"}, {"--rate", "0mbit", "unlimited"},
           {"--latency", "10", "10ms"},   {"--jitter", "-1ms", "10ms"},    {"--compute", "fast", "10ms"},
           {"--speeds", "1,,2", "1,1,4"}, {"--speeds", "0", "1,1,4"},      {"--speeds", "", "1,1,4"},
           {"--loss", "1", "0.01"},       {"--loss", "nan", "0.01"},       {"--lose-exchanges", "1.5", "0.01"},
           {"--kill", "2", "2@8"},        {"--join", "@x", "@12"},         {"--pause", "2@8", "2@8+1.5"},
           {"--pause", "2+1", "2@8+1.5"}, {"--every", "0", "0.5"},         {"--seconds", "0", "30"},
           {"--agents", "0", "--agents"}, {"--agents", "2000", "--agents"}}) {
    const Parsed p = parse({"simulate", "--config", "f", "--out", "o", flag, value});
    EXPECT_EQ(p.cli.exit_status, 2) << flag << " " << value;
    EXPECT_NE(p.err.find(expected), std::string::npos) << p.err;
  }
  EXPECT_EQ(parse({"simulate", "--out", "o"}).cli.exit_status, 2);
  EXPECT_EQ(parse({"simulate", "--config", "f"}).cli.exit_status, 2);
}

TEST(Cli, AFlagGivenTwiceIsNamed) {
  const Parsed p = parse({"simulate", "--config", "f", "--out", "o", "--agents", "4", "--agents", "1"});
  EXPECT_EQ(p.cli.exit_status, 2);
  EXPECT_EQ(p.err,
            "starling: --agents is given more than once; leave all but one out\n(starling simulate --help lists what "
            "there is)\n");
  EXPECT_NE(parse({"check", "--config", "f", "--config", "g"}).err.find("--config is given more than once"),
            std::string::npos);
}

TEST(Cli, KeepsTheCommandLineForAShell) {
  const Parsed p =
      parse({"simulate", "--config", "f.yaml", "--out", "it's\nhere", "--set", "a.b=[c, d]", "--every", "1"});
  EXPECT_EQ(p.cli.command_line, "starling simulate --config f.yaml --out 'it'\\''s here' --set 'a.b=[c, d]' --every 1");
  EXPECT_EQ(std::any_cast<SimulateOptions>(p.cli.options).command_line, p.cli.command_line);
}

TEST(Cli, ReadsInitAndCheck) {
  const Parsed init = parse({"init", "--task", "digits", "a.yaml"});
  EXPECT_EQ(init.cli.command, "init");
  EXPECT_EQ(std::any_cast<InitCommand>(init.cli.options).task, "digits");
  EXPECT_EQ(std::any_cast<InitCommand>(init.cli.options).path, "a.yaml");
  const StatusCommand plain = std::any_cast<StatusCommand>(parse({"status"}).cli.options);
  EXPECT_TRUE(plain.address.empty() && !plain.once && !plain.json);
  const Parsed status = parse({"status", "a:1", "--once", "--json", "--swarm", "0123456789abcdef", "--listen", "b:0"});
  EXPECT_EQ(std::any_cast<StatusCommand>(status.cli.options).address, "a:1");
  EXPECT_TRUE(std::any_cast<StatusCommand>(status.cli.options).once);
  EXPECT_TRUE(std::any_cast<StatusCommand>(status.cli.options).json);
  EXPECT_EQ(std::any_cast<StatusCommand>(status.cli.options).listen, "b:0");
  EXPECT_EQ(load_config("", status.cli.overrides).agent.swarm_id, 0x0123456789abcdefu);
  const Parsed from_data = parse({"init", "--data", "d", "a.yaml"});
  EXPECT_EQ(std::any_cast<InitCommand>(from_data.cli.options).data, "d");
  EXPECT_EQ(parse({"init", "--data", "d", "--task", "digits", "a.yaml"}).cli.exit_status, 2);
  EXPECT_EQ(parse({"init", "a.yaml"}).cli.exit_status, 2);
  EXPECT_EQ(std::any_cast<CheckCommand>(parse({"check", "--data", "d"}).cli.options).data, "d");
  EXPECT_EQ(std::any_cast<CheckCommand>(parse({"check", "a.yaml", "--data", "d"}).cli.options).config_path, "a.yaml");
  EXPECT_EQ(parse({"check", "a.yaml"}).cli.config_path, "a.yaml");
  EXPECT_EQ(parse({"check", "--config", "a.yaml"}).cli.config_path, "a.yaml");
  EXPECT_EQ(parse({"check"}).cli.exit_status, 2);
  EXPECT_EQ(std::any_cast<CheckCommand>(parse({"check", "a.yaml", "--set", "a=b"}).cli.options).overrides,
            std::vector<std::string>{"a=b"});
  EXPECT_EQ(parse({"check", "a.yaml", "--config", "b.yaml"}).cli.exit_status, 2);
  EXPECT_EQ(parse({"check", "--help"}).out.find("REQUIRED"), std::string::npos);
}

TEST(Cli, ReadsTheTopologyCommand) {
  const Parsed p = parse({"topology", "--kind", "regular", "--agents", "12", "--degree=3", "--seed", "7", "--params",
                          "1000", "--codec", "bf16", "--fragments", "4", "--file", "f", "--svg", "s"});
  ASSERT_EQ(p.cli.command, "topology") << p.err;
  const auto topology = std::any_cast<TopologyOptions>(p.cli.options);
  EXPECT_EQ(topology.kind, "regular");
  EXPECT_EQ(topology.agents, 12u);
  EXPECT_EQ(topology.degree, 3u);
  EXPECT_EQ(topology.rng_seed, 7u);
  EXPECT_EQ(topology.params, 1000u);
  EXPECT_EQ(topology.codec, "bf16");
  EXPECT_EQ(topology.fragments, 4u);
  EXPECT_EQ(topology.file, "f");
  EXPECT_EQ(topology.svg, "s");
  const TopologyOptions plain = std::any_cast<TopologyOptions>(parse({"topology"}).cli.options);
  EXPECT_FALSE(plain.agents.has_value() || plain.degree.has_value());
  EXPECT_EQ(plain.kind + plain.file + plain.svg, "");
  EXPECT_EQ(plain.rng_seed, 1u);
  EXPECT_EQ(plain.params, 10'000'000u);
  EXPECT_EQ(plain.codec, "fp32");
}

TEST(Cli, ReadsTheCommandsOfACertifiedSwarm) {
  const std::string id(64, 'a');
  const auto admit =
      std::any_cast<AdmitCommand>(parse({"admit", id.c_str(), "--for", "90d", "--state", "s"}).cli.options);
  EXPECT_EQ(admit.id, id);
  EXPECT_EQ(admit.lasts, std::chrono::hours(90 * 24));
  EXPECT_EQ(admit.state, "s");
  const auto boxes = std::any_cast<AdmitCommand>(parse({"admit", "--new", "--count", "500", "--out", "o"}).cli.options);
  EXPECT_TRUE(boxes.makes);
  EXPECT_EQ(boxes.count, 500u);
  EXPECT_EQ(boxes.out, "o");
  EXPECT_EQ(boxes.lasts, Duration::zero());
  EXPECT_EQ(std::any_cast<RevokeCommand>(parse({"revoke", "0a1b2c3d"}).cli.options).id, "0a1b2c3d");
  EXPECT_EQ(parse({"key"}).cli.command, "key");
  EXPECT_EQ(parse({"members"}).cli.command, "members");
  for (const auto& wrong : std::vector<std::vector<const char*>>{{"admit"},
                                                                 {"admit", "a", "--new"},
                                                                 {"admit", "a", "--for", "long"},
                                                                 {"admit", "--new", "--count", "0"},
                                                                 {"revoke"}}) {
    EXPECT_EQ(parse(wrong).cli.exit_status, 2) << wrong.size();
  }
}

TEST(Cli, ReadsWhereATicketLeads) {
  const std::string id = identity_of(3).id().hex();
  const auto via = [](const std::string& text) { return parse({"admit", "--new", "--via", text.c_str()}); };
  const auto read = std::any_cast<AdmitCommand>(via(id + "@10.0.0.1:65534").cli.options).via;
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->endpoint, (Endpoint{"10.0.0.1", 65534}));
  EXPECT_EQ(read->id.hex(), id);
  for (const std::string& wrong : Texts{"", "10.0.0.1:7400", id, id + "@", id + "@10.0.0.1", id + "@10.0.0.1:0",
                                        id + "@10.0.0.1:65535", id + "@10.0.0.1:65536", "@10.0.0.1:7400",
                                        id.substr(1) + "@10.0.0.1:7400", std::string(64, '0') + "@10.0.0.1:7400"}) {
    const Parsed p = via(wrong);
    EXPECT_EQ(p.cli.exit_status, 2) << wrong;
    EXPECT_NE(p.err.find("ID@HOST:PORT"), std::string::npos) << p.err;
  }
}

TEST(Cli, PrintsHelpAndVersion) {
  for (const auto& arguments : std::vector<std::vector<const char*>>{{}, {"--help"}}) {
    const Parsed p = parse(arguments);
    EXPECT_EQ(p.cli.command, "");
    EXPECT_EQ(p.cli.exit_status, 0);
    for (const char* name : {"init", "agent", "bootstrap", "swarm", "check", "topology"}) {
      EXPECT_NE(p.out.find(std::string("\n  ") + name), std::string::npos) << name << "\n" << p.out;
    }
  }
  EXPECT_EQ(parse({"--version"}).out, "starling 0.3.0\n");
  const Parsed agent = parse({"agent", "--help"});
  EXPECT_EQ(agent.cli.exit_status, 0);
  for (const char* flag : {"--bootstrap", "--initial-peers", "--listen", "--advertise", "--data", "--shard", "--labels",
                           "--state", "--device", "--metrics", "--set", "--print-config", "--log-level"}) {
    EXPECT_NE(agent.out.find(flag), std::string::npos) << flag;
  }
  for (const char* usage : {"--config FILE ", "--set KEY=VALUE ", "--bootstrap,--initial-peers HOST:PORT\n",
                            "--listen HOST:PORT ", "--shard I/N ", "--threads N "}) {
    EXPECT_NE(agent.out.find(std::string("\n  ") + usage), std::string::npos) << usage << agent.out;
  }
  for (const std::string& help : {agent.out, parse({"bootstrap", "--help"}).out}) {
    EXPECT_NE(help.find(" 0.0.0.0:7400."), std::string::npos) << help;
    EXPECT_NE(help.find("makes one. Default: none."), std::string::npos) << help;
  }
  const std::string swarm = parse({"swarm", "--help"}).out;
  EXPECT_NE(swarm.find("\n  --no-baselines "), std::string::npos) << swarm;
  EXPECT_EQ(swarm.find("{false}"), std::string::npos) << swarm;
  EXPECT_NE(swarm.find("\n  --out FOLDER REQUIRED "), std::string::npos) << swarm;
}

TEST(Cli, HelpIsACommandToo) {
  EXPECT_EQ(parse({"help"}).out, parse({"--help"}).out);
  EXPECT_EQ(parse({"help", "agent"}).out, parse({"agent", "--help"}).out);
  EXPECT_NE(parse({"help"}).out, parse({"help", "agent"}).out);
  EXPECT_EQ(parse({"help", "agnet"}).err,
            "starling: no command 'agnet'; did you mean 'agent'?\n(starling --help lists what there is)\n");
}

TEST(Cli, UsageErrorsSayWhatWasMeant) {
  const std::vector<std::pair<std::vector<const char*>, std::string>> cases = {
      {{"agnet"}, "starling: no command 'agnet'; did you mean 'agent'?\n(starling --help lists what there is)\n"},
      {{"frobnicate"}, "starling: no command 'frobnicate'\n(starling --help lists what there is)\n"},
      {{"report", "--help"},
       "starling: no command 'report'; did you mean 'export'?\n(starling --help lists what there is)\n"},
      {{"agent", "--bootsrap", "a:1"},
       "starling: 'starling agent' has no flag --bootsrap; did you mean '--bootstrap'?\n"
       "(starling agent --help lists what there is)\n"},
      {{"bootstrap", "--data=x"},
       "starling: 'starling bootstrap' has no flag --data\n"
       "(starling bootstrap --help lists what there is)\n"},
      {{"swarm", "--config", "f", "--out", "o", "--kill", "2"},
       "starling: --kill: expected AGENT@SECONDS such as 2@8, or AGENT@stepN (agents count from 0), found '2'\n"
       "(starling swarm --help lists what there is)\n"},
      {{"swarm", "--config", "f", "--out", "o", "--join", "@-1"},
       "starling: --join: expected @SECONDS such as @12, or @stepN, found '@-1'\n"
       "(starling swarm --help lists what there is)\n"},
      {{"swarm", "--config", "f", "--out", "o", "--pause", "1@2"},
       "starling: --pause: expected AGENT@SECONDS+SECONDS such as 2@8+1.5, or AGENT@stepN+SECONDS (agents count from "
       "0), found '1@2'\n(starling swarm --help lists what there is)\n"},
      {{"swarm", "--config", "f", "--out", "o", "--steps", "1.5"},
       "starling: --steps: expected a whole number, 1 or more, found '1.5'\n"
       "(starling swarm --help lists what there is)\n"},
      {{"swarm", "--config", "f", "--out", "o", "--kill", "x@step5"},
       "starling: --kill: expected AGENT@SECONDS such as 2@8, or AGENT@stepN (agents count from 0), found 'x@step5'\n"
       "(starling swarm --help lists what there is)\n"},
      {{"plan", "--density", "0"},
       "starling: --density: expected a number from 1e-06 to 1, found '0'\n"
       "(starling plan --help lists what there is)\n"},
      {{"topology", "--density", "1.5"},
       "starling: --density: expected a number from 1e-06 to 1, found '1.5'\n"
       "(starling topology --help lists what there is)\n"},
      {{"topology", "--agents", "few"},
       "starling: --agents: expected a whole number, 0 or more, found 'few'\n"
       "(starling topology --help lists what there is)\n"},
      {{"topology", "--knid=ring"},
       "starling: 'starling topology' has no flag --knid; did you mean '--kind'?\n"
       "(starling topology --help lists what there is)\n"},
      {{"swarm", "--config", "f"}, "starling: --out is required\n(starling swarm --help lists what there is)\n"},
  };
  for (const auto& [arguments, expected] : cases) {
    const Parsed p = parse(arguments);
    EXPECT_EQ(p.err, expected);
    EXPECT_EQ(p.out, "");
    EXPECT_EQ(p.cli.command, "") << expected;
    EXPECT_EQ(p.cli.exit_status, 2) << expected;
  }
  EXPECT_EQ(parse({"agent", "--listen"}).cli.exit_status, 2);
}

TEST(Cli, LogLevelComesFromTheEnvironmentUnlessNamed) {
  setenv("STARLING_LOG_LEVEL", "debug", 1);
  EXPECT_EQ(parse({"agent"}).cli.log_level, "debug");
  EXPECT_EQ(parse({"agent", "--log-level", "warn"}).cli.log_level, "warn");
  setenv("STARLING_LOG_LEVEL", "loud", 1);
  const std::string help = "\n(starling agent --help lists what there is)\n";
  const std::string expected = ": expected one of debug, info, warn, error, off, found 'loud'";
  EXPECT_EQ(parse({"agent"}).err, "starling: STARLING_LOG_LEVEL" + expected + help);
  unsetenv("STARLING_LOG_LEVEL");
  EXPECT_EQ(parse({"agent", "--log-level", "loud"}).err, "starling: --log-level" + expected + help);
  EXPECT_EQ(parse({"agent"}).cli.log_level, "info");
}

TEST(InitCommand, NamesTheTaskThatWasMeant) {
  try {
    run_init_command({.task = "digit", .path = "/nonexistent/swarm.yaml"});
    ADD_FAILURE() << "there is no such task";
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(std::string(error.what()), "there is no task 'digit'; did you mean 'digits'?");
  }
}

TEST(InitCommand, WritesALoadableConfigOnceAndSaysWhatToTypeNext) {
  std::string pattern = (std::filesystem::temp_directory_path() / "starling-init-XXXXXX").string();
  ASSERT_NE(mkdtemp(pattern.data()), nullptr);
  const std::string path = pattern + "/swarm.yaml";
  testing::internal::CaptureStdout();
  EXPECT_EQ(run_init_command({.task = "digits", .path = path}), 0);
  const std::string out = testing::internal::GetCapturedStdout();
  EXPECT_NE(out.find("starling agent --config " + path + " --data FOLDER\n"), std::string::npos) << out;
  EXPECT_NE(out.find("starling agent --bootstrap HOST:7400#TICKET --data FOLDER\n"), std::string::npos) << out;

  const Config config = load_config(path, {});
  EXPECT_TRUE(config.has_swarm);
  EXPECT_EQ(config.swarm.name, "digits");
  EXPECT_TRUE(config.swarm.exchange.carry_momentum);
  EXPECT_EQ(config.agent.listen.host, "0.0.0.0");
  EXPECT_EQ(config.swarm.wait_for, 2u);
  EXPECT_TRUE(config.agent.data.path.empty());

  std::ofstream(path) << "mine";
  try {
    run_init_command({.task = "digits", .path = path});
    ADD_FAILURE() << "overwrote a file";
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(std::string(error.what()), path + " is there already and is not overwritten; choose another name");
  }
  std::ifstream file(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "mine");
  testing::internal::CaptureStdout();
  EXPECT_EQ(run_init_command({.task = "cifar10", .path = pattern + "/cifar10.yaml"}), 0);
  EXPECT_EQ(run_init_command({.task = "text", .path = pattern + "/text.yaml"}), 0);
  testing::internal::GetCapturedStdout();
  const Config photographs = load_config(pattern + "/cifar10.yaml", {});
  EXPECT_EQ(photographs.swarm.name, "cifar10");
  EXPECT_EQ(photographs.swarm.model.input, (std::vector<int64_t>{3, 32, 32}));
  const Config text = load_config(pattern + "/text.yaml", {});
  EXPECT_EQ(text.swarm.model.kind, "lstm");
  EXPECT_EQ(text.swarm.model.classes, 256) << "any byte";
  testing::internal::CaptureStdout();
  EXPECT_EQ(run_init_command({.task = "own", .path = pattern + "/own.yaml"}), 0);
  EXPECT_NE(testing::internal::GetCapturedStdout().find("starling.join(model, optimizer, config="), std::string::npos);
  const Config own = load_config(pattern + "/own.yaml", {});
  EXPECT_EQ(own.swarm.model.kind, "attached");
  EXPECT_EQ(own.swarm.wait_for, 2u);
  EXPECT_THROW(run_init_command({.task = "cifar", .path = pattern + "/other.yaml"}), std::runtime_error);
  EXPECT_FALSE(std::filesystem::exists(pattern + "/other.yaml"));
  EXPECT_THROW(run_init_command({.task = "digits", .path = pattern + "/no/such.yaml"}), std::runtime_error);
  std::filesystem::remove_all(pattern);
}

}  // namespace
TEST(Cli, WithoutLibTorchCommandsThatNeedItAreRefusedWithARemedy) {
  const std::string remedy = "build the whole program from its source with tools/build";
  const std::string config = testing::TempDir() + "/cli-without-torch.yaml";
  std::ofstream(config) << "swarm: {model: {kind: mlp}}\n";
  EXPECT_NE(refusal({"agent"}).find("'starling agent' needs LibTorch"), std::string::npos);
  EXPECT_NE(refusal({"agent", "--config", config.c_str()}).find(remedy), std::string::npos);
  EXPECT_NE(refusal({"swarm", "--config", config.c_str(), "--out", "/nowhere"}).find(remedy), std::string::npos);
  EXPECT_NE(refusal({"eval", "--data", "/nowhere"}).find(remedy), std::string::npos);
  EXPECT_NE(refusal({"simulate", "--config", config.c_str(), "--out", "/nowhere", "--steps", "1"}).find(remedy),
            std::string::npos);
  EXPECT_NE(parse({"--help"}).out.find("init --task own"), std::string::npos);
}

}  // namespace starling
