#include "agent/report/report.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <stdexcept>

namespace starling {
namespace {

using Json = nlohmann::json;

AgentReport make_agent(const std::string& name, const std::string& state, double accuracy) {
  AgentReport agent;
  agent.name = name;
  agent.peer = name + "-id";
  agent.state = state;
  agent.accuracy = accuracy;
  agent.steps = 100;
  agent.exchanges = {90, 7, 3};
  agent.bytes_sent = 1'500'000;
  agent.bytes_received = 1'400'000;
  agent.accuracies = {{0.5, 1, 0.1}, {5, 100, accuracy}};
  return agent;
}

// Two agents with halves of four classes; the second is killed and a newcomer takes its data.
SwarmReport make_report() {
  SwarmReport report;
  report.title = "Swarm";
  report.seconds = 31.4;
  report.agents = {make_agent("agent-0", "finished", 0.941), make_agent("agent-1", "killed", 0.5),
                   make_agent("agent-2", "finished", 0.948)};
  report.agents[0].classes = {0, 1};
  report.agents[1].classes = report.agents[2].classes = {2, 3};
  report.agents[1].shard = report.agents[2].shard = 1;
  report.agents[0].sent_a_round = 12500.5;
  report.agents[0].sent_last_round = 13000;
  report.agents[1].killed_at_s = 10.25;
  report.agents[2].newcomer = true;
  report.agents[2].joined_at_s = 15.5;
  report.agents[0].partners["agent-1-id"] = {20, 1, 0};
  report.agents[0].partners["agent-2-id"] = {70, 0, 0};
  report.alone = {0.25, std::nullopt};
  report.central = 0.95;
  report.distance = 0.004;
  return report;
}

Json page_data(const SwarmReport& report) {
  const std::string page = print_report_html(report);
  const std::string mark = "id=\"data\">";
  const size_t begin = page.find(mark) + mark.size();
  return Json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

std::set<std::string> keys(const Json& object) {
  std::set<std::string> names;
  for (const auto& [name, value] : object.items()) names.insert(name);
  return names;
}

std::string read_file(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(ReportJson, HasExactlyTheAgreedFields) {
  const Json json = Json::parse(print_report_json(make_report()));
  EXPECT_EQ(keys(json), (std::set<std::string>{"seconds", "agents", "alone", "central", "distance"}));
  ASSERT_EQ(json["agents"].size(), 3u);
  EXPECT_EQ(keys(json["agents"][0]),
            (std::set<std::string>{"name", "peer", "classes", "state", "joined_at_s", "accuracy", "steps", "exchanges",
                                   "settled", "proposals_refused", "bytes_sent", "bytes_received", "bytes_sent_a_step",
                                   "bytes_sent_a_round", "bytes_sent_last_round", "pairs", "swarm_distance",
                                   "spread"}));
  EXPECT_EQ(json["agents"][0]["bytes_sent_a_step"], 15000);
  EXPECT_EQ(json["agents"][0]["bytes_sent_a_round"], 12500.5);
  EXPECT_EQ(json["agents"][0]["bytes_sent_last_round"], 13000);
  EXPECT_TRUE(json["agents"][1]["bytes_sent_a_round"].is_null());
  EXPECT_TRUE(json["agents"][1]["bytes_sent_last_round"].is_null());
  EXPECT_EQ(json["agents"][2]["joined_at_s"], 15.5);
  EXPECT_EQ(json["agents"][1]["state"], "killed");
  EXPECT_EQ(json["agents"][0]["exchanges"], (Json{{"done", 90}, {"late", 7}, {"failed", 3}, {"left_out", 0}}));
  EXPECT_EQ(json["agents"][0]["classes"], (Json{0, 1}));
  EXPECT_EQ(json["alone"], (Json{0.25, nullptr}));
  EXPECT_EQ(json["central"], 0.95);
  EXPECT_EQ(json["distance"], 0.004);
}

TEST(ReportJson, SaysNullWhereNothingIsKnown) {
  SwarmReport report;
  report.agents = {AgentReport{}};
  const Json json = Json::parse(print_report_json(report));
  EXPECT_TRUE(json["central"].is_null());
  EXPECT_TRUE(json["distance"].is_null());
  EXPECT_TRUE(json["agents"][0]["accuracy"].is_null());
  EXPECT_TRUE(json["agents"][0]["settled"].is_null());
  EXPECT_TRUE(json["agents"][0]["swarm_distance"].is_null());
  EXPECT_TRUE(json["agents"][0]["spread"].is_null());
  EXPECT_EQ(json["alone"], Json::array());
}

TEST(ReportPage, ShowsHowFarApartTheModelsWereWhileTheyTrained) {
  SwarmReport report = make_report();
  report.agents[0].swarm_distance = 0.002;
  report.agents[0].spread = 0.003;
  report.agents[0].swarm_distances = {{1, 10, 0.5}, {2, 20, 0.002}};
  report.agents[0].spreads = {{2, 20, 0.003}};
  const Json agent = page_data(report)["agents"][0];
  EXPECT_EQ(agent["swarm_distance"], 0.002);
  EXPECT_EQ(agent["spread"], 0.003);
  EXPECT_EQ(agent["curves"]["swarm_distance"], (Json{{1, 10, 0.5}, {2, 20, 0.002}}));
  EXPECT_EQ(agent["curves"]["spread"], (Json{{2, 20, 0.003}}));
  const std::string page = print_report_html(report);
  for (const char* part : {"id=\"swarm-distance\"", "id=\"spread\"", "\"swarm-distance\", \"swarm_distance\"",
                           "\"spread\", \"spread\""}) {
    EXPECT_NE(page.find(part), std::string::npos) << part << ": a place, and the chart that is drawn there";
  }
}

TEST(Report, NamesWhoDidNotEndWithTheOthersModel) {
  SwarmReport report = make_report();
  report.agents[0].settled = true;
  report.agents[0].proposals_refused = 5;
  report.agents[1].settled = false;   // it was killed: what it said before is no end
  EXPECT_EQ(summarize(report).find("all agreed"), std::string::npos);
  EXPECT_EQ(print_closing_table(report).find("do not agree"), std::string::npos);

  report.agents[2].settled = false;
  const Json agents = Json::parse(print_report_json(report))["agents"];
  EXPECT_EQ(agents[0]["settled"], true);
  EXPECT_EQ(agents[0]["proposals_refused"], 5);
  EXPECT_EQ(agents[2]["settled"], false);
  EXPECT_NE(summarize(report).find("not all agreed in time: agent-2."), std::string::npos) << summarize(report);
  const std::string table = print_closing_table(report);
  const size_t row = table.find("agent-2");
  EXPECT_NE(table.substr(row, table.find('\n', row) - row).find("do not agree"), std::string::npos) << table;
}

TEST(Report, NamesWhoseModelsDidNotCount) {
  SwarmReport report = make_report();
  EXPECT_EQ(summarize(report).find("did not count"), std::string::npos);
  report.agents[0].exchanges.left_out = 12;
  report.agents[0].left_out_last = "agent-2";
  const std::string summary = summarize(report);
  EXPECT_NE(summary.find("by agent-0 12 times, last agent-2's."), std::string::npos) << summary;
  EXPECT_EQ(Json::parse(print_report_json(report))["agents"][0]["exchanges"]["left_out"], 12);
}

TEST(ReportPage, NamesNoAddressOutsideOfItself) {
  std::string page = print_report_html(make_report());
  const std::string namespace_name = "http://www.w3.org/2000/svg";   // a name, never fetched
  for (size_t at; (at = page.find(namespace_name)) != std::string::npos;) page.erase(at, namespace_name.size());
  EXPECT_EQ(page.find("http:"), std::string::npos);
  EXPECT_EQ(page.find("https:"), std::string::npos);
  EXPECT_EQ(page.find("src="), std::string::npos);
  EXPECT_EQ(page.find("@import"), std::string::npos);
}

TEST(ReportPage, ForeignTextStaysText) {
  SwarmReport report = make_report();
  report.agents[0].name = "</script><script>alert(1)</script>";
  report.agents[1].failure = "<!-- \xff\xfe";   // not even UTF-8
  EXPECT_EQ(print_report_html(report).find("<script>alert"), std::string::npos);
  const Json data = page_data(report);
  EXPECT_EQ(data["agents"][0]["name"], report.agents[0].name);
}

TEST(ReportPage, ShowsHowLogsOfUpdatesStood) {
  SwarmReport report = make_report();
  EXPECT_FALSE(page_data(report)["agents"][0].contains("log")) << "a swarm that shares params has none";
  const UpdateCounters counters{.entries = 30, .behind = 2, .short_splits = 1, .long_splits = 3, .states_adopted = 4,
                                .buckets = 3, .plan_since = 208};
  const StepBreakdown step{.forward_ms = 1.5, .exposed_ms = 0.5, .select_ms = 0.25};
  report.agents[0].log = {"1f9a03c2", counters, 0.25, 10, 5000, 7000, step};
  EXPECT_EQ(page_data(report)["agents"][0]["log"],
            (Json{{"head", "1f9a03c2"}, {"entries", 30}, {"behind", 2}, {"splits", 4}, {"states", 4},
                  {"held_back", 0.25}, {"buckets", 3}, {"plan_since", 208}, {"sent_a_round", 500},
                  {"received_a_round", 700},
                  {"step_ms", {1.5, nullptr, nullptr, nullptr, 0.5, 0.25}}, {"refused", 0}, {"refused_last", ""}}));
  report.agents[0].log->rounds = 0;
  EXPECT_EQ(page_data(report)["agents"][0]["log"]["sent_a_round"], 5000);
}

TEST(Report, NamesWhoseMessagesAboutTheLogWereRefused) {
  SwarmReport report = make_report();
  report.agents[0].log = LogReport{};
  EXPECT_EQ(summarize(report).find("refused"), std::string::npos);
  report.agents[0].log->counters.entries_refused = 3;
  report.agents[0].log->counters.heads_refused = 4;
  EXPECT_NE(summarize(report).find("by agent-0 7 times."), std::string::npos) << summarize(report);
  report.agents[0].log->refused_last = "agent-2";
  EXPECT_NE(summarize(report).find("by agent-0 7 times, last agent-2's."), std::string::npos) << summarize(report);
  const Json log = page_data(report)["agents"][0]["log"];
  EXPECT_EQ(log["refused"], 7);
  EXPECT_EQ(log["refused_last"], "agent-2");
}

TEST(ReportPage, CountsExchangesByAgentsNotByIds) {
  const Json data = page_data(make_report());
  EXPECT_EQ(data["agents"][0]["partners"], (Json{0, 20, 70}));
  EXPECT_EQ(data["agents"][1]["partners"], (Json{0, 0, 0}));
}

TEST(ReportPage, ThinsLongCurvesButKeepsTheirEnds) {
  SwarmReport report = make_report();
  auto& losses = report.agents[0].losses;
  for (uint64_t i = 0; i < 10'000; ++i) losses.push_back({0.1 * static_cast<double>(i), i, 1.0 / (1.0 + i)});
  const Json curve = page_data(report)["agents"][0]["curves"]["loss"];
  EXPECT_LE(curve.size(), 602u);
  EXPECT_GE(curve.size(), 500u);
  EXPECT_EQ(curve.front()[1], 0);
  EXPECT_EQ(curve.back()[1], 9999);
}

TEST(ReportSummary, SaysWhatHappened) {
  EXPECT_EQ(summarize(make_report()),
            "2 agents and 1 that joined later trained one model together for 31 s; each held only 2 of the 4 classes, "
            "and its data never left it. agent-1 was killed at 10.2 s. agent-2 joined at 15.5 s, knowing nothing but "
            "an address and its own data. At the end every living agent reached 94.1 % to 94.8 % accuracy. Alone, the "
            "same agents reach 25.0 %. One process with all the data reaches 95.0 %.");
}

TEST(ReportSummary, LeavesOutWhatIsNotKnown) {
  SwarmReport report;
  report.seconds = 3;
  report.agents = {make_agent("agent-0", "failed", 0.2)};
  report.agents[0].failure = "ended with exit status 2";
  EXPECT_EQ(summarize(report),
            "One agent trained for 3 s. agent-0 failed: ended with exit status 2. "
            "No living agent has measured its accuracy.");
}

TEST(ReportTable, PutsEachAgentBesideItsOwnShardAlone) {
  SwarmReport report = make_report();
  report.alone = {0.25, 0.31};
  std::istringstream lines(print_closing_table(report));
  std::string head, first, second, third;
  std::getline(lines, head);
  std::getline(lines, first);
  std::getline(lines, second);
  std::getline(lines, third);
  EXPECT_NE(first.find("94.1 %  25.0 %  95.0 %           90/7/3"), std::string::npos) << first;
  EXPECT_NE(first.find("1.5 MB   15.0 kB"), std::string::npos) << first;
  EXPECT_NE(second.find("31.0 %"), std::string::npos) << second;
  EXPECT_NE(second.find("killed at 10.2 s"), std::string::npos) << second;
  EXPECT_NE(third.find("31.0 %"), std::string::npos) << third;
  EXPECT_NE(third.find("joined at 15.5 s"), std::string::npos) << third;
  std::ostringstream explained;
  explained << lines.rdbuf();
  EXPECT_NE(explained.str().find("exchanges done: all that was"), std::string::npos) << explained.str();
}

PairReport make_pairs(const std::string& name) {
  PairwiseCounters of;
  of.initiated = 70, of.accepted = 50, of.done = 99, of.late = 1, of.gain_permille = 95'000;
  of.queued = 30, of.queued_turn = 9, of.queued_asking = 4, of.expired = 2, of.rings = 6, of.over_share = 7;
  of.busy_sent = 15, of.busy_received = 11, of.unanswered = 5, of.undecided = 3, of.crossed = 21, of.taken_back = 8;
  of.asking_us = 1'500'000, of.own_us = 600'000, of.serving_us = 350'000;
  return {name, of, 50, 0.714};
}

// Every figure stands in its own place: none can stand for another.
TEST(PairTable, HasOneLineForAnAgentThatTookPart) {
  EXPECT_EQ(print_pairs_table({{"a", {}, 50}}), "");
  std::istringstream lines(print_pairs_table({make_pairs("alice"), {"bob", {}, 50}, {"carol", {.initiated = 1}, 0}}));
  std::string head, alice, carol, explained;
  std::getline(lines, head);
  std::getline(lines, alice);
  std::getline(lines, carol);
  std::getline(lines, explained);
  EXPECT_EQ(alice, "alice      2.00  0.95  0.71    30/12/7        17/9/4       11/6/7     5/3      8");
  EXPECT_NE(carol.find("carol         -     -     -      -/-/-"), std::string::npos) << carol;
  EXPECT_NE(explained.find("exchanges a step, whoever began them"), std::string::npos) << explained;
}

// A terminal has 80 columns; notes stand behind them.
TEST(ClosingTable, IsSeenOnEightyColumns) {
  SwarmReport report = make_report();
  report.agents[0].pairs = make_pairs(report.agents[0].name);
  std::istringstream lines(print_closing_table(report));
  std::string line;
  for (; std::getline(lines, line); line.clear()) {
    EXPECT_LE(line.substr(0, line.find("  killed")).substr(0, line.find("  joined")).size(), 80u) << line;
  }
}

TEST(PairTable, StandsBelowTheClosingTableAndOnThePages) {
  SwarmReport report = make_report();
  EXPECT_EQ(print_closing_table(report).find("taken back"), std::string::npos);
  report.agents[0].pairs = make_pairs(report.agents[0].name);
  EXPECT_NE(print_closing_table(report).find("30/12/7"), std::string::npos);
  const auto agents = nlohmann::json::parse(print_report_json(report))["agents"];
  EXPECT_TRUE(agents[1]["pairs"].is_null());
  EXPECT_EQ(agents[0]["pairs"], nlohmann::json::parse(R"({
      "a_step": 2.0, "gain": 0.95, "drift": 0.714, "ms_a_step": {"asking": 30.0, "own": 12.0, "serving": 7.0},
      "waited_here": {"steps": 17, "turn": 9, "asking": 4, "in_vain": 2},
      "refused": {"there": 11, "here": 15, "rings": 6, "over_share": 7},
      "unanswered": 5, "undecided": 3, "crossed": 21, "taken_back": 8})"));
  EXPECT_NE(print_report_html(report).find("\"taken_back\":8"), std::string::npos);
}

TEST(ReportFiles, AreWrittenWholeAndReplaceOldOnes) {
  const std::filesystem::path dir = std::filesystem::path(testing::TempDir()) / "starling_report";
  std::filesystem::create_directories(dir);
  SwarmReport report = make_report();
  write_report(dir.string(), report);
  report.seconds = 12;
  write_report(dir.string(), report);
  EXPECT_EQ(read_file(dir / "report.json"), print_report_json(report));
  EXPECT_EQ(read_file(dir / "report.html"), print_report_html(report));
  size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(dir)) ++files;
  EXPECT_EQ(files, 2u);
  std::filesystem::remove_all(dir);
}

TEST(ReportFiles, SayWhichFileCouldNotBeWrittenAndWhatToDo) {
  try {
    write_report(testing::TempDir() + "no_such_folder", make_report());
    FAIL() << "wrote into a folder that is not there";
  } catch (const std::runtime_error& error) {
    const std::string what = error.what();
    EXPECT_NE(what.find("no_such_folder/report.json"), std::string::npos) << what;
    EXPECT_NE(what.find("--out"), std::string::npos) << what;
  }
}

}  // namespace
}  // namespace starling
