#include "agent/report/report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "agent/report/closing_table.h"

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

PairReport make_pairs(const std::string& name) {
  PairwiseCounters of;
  of.initiated = 70, of.accepted = 50, of.done = 99, of.late = 1, of.gain_permille = 95'000;
  of.queued = 30, of.queued_turn = 9, of.queued_asking = 4, of.expired = 2, of.rings = 6, of.over_share = 7;
  of.busy_sent = 15, of.busy_received = 11, of.unanswered = 5, of.undecided = 3, of.crossed = 21, of.taken_back = 8;
  of.asking_us = 1'500'000, of.own_us = 600'000, of.serving_us = 350'000;
  return {name, of, 50, 0.714};
}

// A printed table: columns are two spaces apart or more.
class Table {
 public:
  explicit Table(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      std::vector<std::string> cells;
      for (size_t at = line.find_first_not_of(' '); at != std::string::npos;) {
        const size_t end = std::min(line.find("  ", at), line.size());
        cells.push_back(line.substr(at, end - at));
        at = line.find_first_not_of(' ', end);
      }
      rows_.push_back(cells);
    }
  }
  const std::vector<std::string>& head() const { return rows_.at(1); }
  std::vector<std::string> row(const std::string& agent) const {
    for (const auto& cells : rows_) {
      if (!cells.empty() && cells[0] == agent) return cells;
    }
    return {"no row of " + agent};
  }
  std::string cell(const std::string& agent, const std::string& column) const {
    const auto at = std::find(head().begin(), head().end(), column);
    return at == head().end() ? "no column " + column : row(agent).at(static_cast<size_t>(at - head().begin()));
  }

 private:
  std::vector<std::vector<std::string>> rows_;
};

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
  EXPECT_EQ(
      keys(json["agents"][0]),
      (std::set<std::string>{"name", "peer", "classes", "state", "joined_at_s", "accuracy", "steps", "exchanges",
                             "settled", "proposals_refused", "bytes_sent", "bytes_received", "bytes_sent_a_step",
                             "bytes_sent_a_round", "bytes_sent_last_round", "pairs", "swarm_distance", "spread"}));
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
  for (const char* part :
       {"id=\"swarm-distance\"", "id=\"spread\"", "\"swarm-distance\", \"swarm_distance\"", "\"spread\", \"spread\""}) {
    EXPECT_NE(page.find(part), std::string::npos) << part << ": a place, and the chart that is drawn there";
  }
}

TEST(Report, TellsWhereTheModelIsNoBetterThanGuessing) {
  SwarmReport report = make_report();
  for (size_t i = 0; i < report.agents.size(); ++i) {
    report.agents[i].classes = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    report.agents[i].accuracy = 0.1;
  }
  EXPECT_NE(summarize(report).find("nothing was learned: try another swarm.optimizer.learning_rate"),
            std::string::npos);
  report.agents[0].accuracy = 0.3;
  EXPECT_EQ(summarize(report).find("guessing"), std::string::npos);
  report.agents[0].accuracy = 0.1;
  for (AgentReport& agent : report.agents) agent.classes.clear();  // of text, say
  EXPECT_EQ(summarize(report).find("guessing"), std::string::npos);
}

TEST(Report, NamesWhoDidNotEndWithTheOthersModel) {
  SwarmReport report = make_report();
  report.agents[0].settled = true;
  report.agents[0].proposals_refused = 5;
  report.agents[1].settled = false;  // it was killed: what it said before is no end
  EXPECT_EQ(summarize(report).find("did not agree"), std::string::npos);
  EXPECT_EQ(print_closing_table(report).find("differs"), std::string::npos);

  report.agents[2].settled = false;
  const Json agents = Json::parse(print_report_json(report))["agents"];
  EXPECT_EQ(agents[0]["settled"], true);
  EXPECT_EQ(agents[0]["proposals_refused"], 5);
  EXPECT_EQ(agents[2]["settled"], false);
  EXPECT_NE(summarize(report).find("did not agree on one model in time: agent-2."), std::string::npos)
      << summarize(report);
  const std::string table = print_closing_table(report);
  const size_t row = table.find("agent-2");
  EXPECT_NE(table.substr(row, table.find('\n', row) - row).find("differs"), std::string::npos) << table;
}

TEST(Report, NamesWhoseModelsDidNotCount) {
  SwarmReport report = make_report();
  EXPECT_EQ(summarize(report).find("left out"), std::string::npos);
  report.agents[0].exchanges.left_out = 12;
  report.agents[0].left_out_last = "agent-2";
  const std::string summary = summarize(report);
  EXPECT_NE(summary.find("too far from the others, by agent-0 (12 times, the last from agent-2)."), std::string::npos)
      << summary;
  EXPECT_EQ(Json::parse(print_report_json(report))["agents"][0]["exchanges"]["left_out"], 12);
}

TEST(ReportPage, NamesNoAddressOutsideOfItself) {
  std::string page = print_report_html(make_report());
  const std::string namespace_name = "http://www.w3.org/2000/svg";  // a name, never fetched
  for (size_t at; (at = page.find(namespace_name)) != std::string::npos;) page.erase(at, namespace_name.size());
  EXPECT_EQ(page.find("http:"), std::string::npos);
  EXPECT_EQ(page.find("https:"), std::string::npos);
  EXPECT_EQ(page.find("src="), std::string::npos);
  EXPECT_EQ(page.find("@import"), std::string::npos);
}

TEST(ReportPage, ForeignTextStaysText) {
  SwarmReport report = make_report();
  report.agents[0].name = "</script><script>alert(1)</script>";
  report.agents[1].failure = "<!-- \xff\xfe";  // not even UTF-8
  EXPECT_EQ(print_report_html(report).find("<script>alert"), std::string::npos);
  const Json data = page_data(report);
  EXPECT_EQ(data["agents"][0]["name"], report.agents[0].name);
}

TEST(ReportPage, ShowsHowLogsOfUpdatesStood) {
  SwarmReport report = make_report();
  EXPECT_FALSE(page_data(report)["agents"][0].contains("log")) << "a swarm that shares params has none";
  const UpdateCounters counters{.entries = 30,
                                .behind = 2,
                                .short_splits = 1,
                                .long_splits = 3,
                                .states_adopted = 4,
                                .buckets = 3,
                                .plan_since = 208};
  const StepBreakdown step{.forward_ms = 1.5, .exposed_ms = 0.5, .select_ms = 0.25};
  report.agents[0].log = {"1f9a03c2", counters, 0.25, 10, 5000, 7000, step};
  EXPECT_EQ(page_data(report)["agents"][0]["log"], (Json{{"head", "1f9a03c2"},
                                                         {"entries", 30},
                                                         {"behind", 2},
                                                         {"splits", 4},
                                                         {"states", 4},
                                                         {"residual_norm", 0.25},
                                                         {"buckets", 3},
                                                         {"plan_since", 208},
                                                         {"sent_a_round", 500},
                                                         {"received_a_round", 700},
                                                         {"step_ms", {1.5, nullptr, nullptr, nullptr, 0.5, 0.25}},
                                                         {"refused", 0},
                                                         {"refused_last", ""}}));
  report.agents[0].log->rounds = 0;
  EXPECT_EQ(page_data(report)["agents"][0]["log"]["sent_a_round"], 5000);
}

TEST(Report, NamesWhoseMessagesAboutTheLogWereRefused) {
  SwarmReport report = make_report();
  report.agents[0].log = LogReport{};
  EXPECT_EQ(summarize(report).find("refused"), std::string::npos);
  report.agents[0].log->counters.entries_refused = 3;
  report.agents[0].log->counters.heads_refused = 4;
  EXPECT_NE(summarize(report).find("were refused, by agent-0 (7 times)."), std::string::npos) << summarize(report);
  report.agents[0].log->refused_last = "agent-2";
  EXPECT_NE(summarize(report).find("were refused, by agent-0 (7 times, the last from agent-2)."), std::string::npos)
      << summarize(report);
  const Json log = page_data(report)["agents"][0]["log"];
  EXPECT_EQ(log["refused"], 7);
  EXPECT_EQ(log["refused_last"], "agent-2");
}

TEST(ReportPage, CountsExchangesByAgentsNotByIds) {
  const Json data = page_data(make_report());
  EXPECT_EQ(data["agents"][0]["partners"], (Json{0, 21, 70}));
  EXPECT_EQ(data["agents"][1]["partners"], (Json{21, 0, 0}));
}

// The last lines of a killed agent are missing: its partner counted more exchanges than it told of.
TEST(Report, APairHasOneCountWhereverItStands) {
  SwarmReport report = make_report();
  for (AgentReport& agent : report.agents) agent.exchanges = {0, 0, 0};
  report.agents[0].exchanges = {60, 3, 1};
  report.agents[0].partners = {{"agent-1-id", {60, 3, 1}}};
  report.agents[1].exchanges = {43, 0, 0};
  report.agents[1].partners = {{"agent-0-id", {43, 0, 0}}};
  EXPECT_EQ(completed_of(report, 1), 43u) << "in rounds the agent's own count is all there is";
  report.agents[0].pairs = make_pairs("agent-0");
  EXPECT_EQ(completed_between(report, 0, 1), 63u);
  EXPECT_EQ(completed_between(report, 1, 0), 63u);
  EXPECT_EQ(completed_between(report, 0, 0), 0u);
  const Json agents = page_data(report)["agents"];
  EXPECT_EQ(agents[0]["partners"][1], 63);
  EXPECT_EQ(agents[1]["partners"][0], 63);
  EXPECT_EQ(agents[1]["completed"], 63);
  const Table table(print_closing_table(report));
  EXPECT_EQ(table.cell("agent-0", "done"), "63");
  EXPECT_EQ(table.cell("agent-1", "done"), "63");
}

TEST(ReportPage, MarkAndLineOfAKillShareOneTime) {
  const SwarmReport report = make_report();
  EXPECT_EQ(page_data(report)["moments"],
            (Json{{{"t", 10.25}, {"agent", 1}, {"what", "killed"}}, {{"t", 15.5}, {"agent", 2}, {"what", "joins"}}}));
  const std::string page = print_report_html(report), cross = "l8 8m0 -8l-8 8";
  const size_t at = page.find(cross);
  ASSERT_NE(at, std::string::npos);
  EXPECT_EQ(page.find(cross, at + 1), std::string::npos) << "drawn in one place";
  const size_t line = page.rfind("x1: moment.at, x2: moment.at", at), begin = page.rfind("\nfunction ", at);
  EXPECT_NE(page.substr(at - 40, 40).find("`M${moment.at - 4}"), std::string::npos) << "where the line stands";
  ASSERT_NE(line, std::string::npos);
  EXPECT_GT(line, begin) << "in one function";
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
  EXPECT_EQ(
      summarize(make_report()),
      "2 agents, and 1 that joined later, trained one model together for 31 s. Each held only 2 of the 4 classes, "
      "and its data never left it. agent-1 was killed at 10.2 s. agent-2 joined at 15.5 s, knowing nothing but "
      "an address and its own data. At the end every living agent reached 94.1 % to 94.8 % accuracy. Alone, the "
      "same agents reach 25.0 %. One process with all the data (central) reaches 95.0 %.");
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

TEST(ClosingTable, HasTheseColumnsAndNoLegend) {
  SwarmReport report = make_report();
  report.agents[0].pairs = make_pairs(report.agents[0].name);
  const std::string text = print_closing_table(report);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 5) << "two lines of headings, one of each agent:\n" << text;
  EXPECT_EQ(Table(text).head(),
            (std::vector<std::string>{"agent", "data", "accuracy", "alone", "central", "done", "failed", "sent"}));
  const std::string over = text.substr(0, text.find('\n'));
  EXPECT_EQ(over.find_first_not_of(' '), over.find("exchanges"));
  for (const char* internal : {"drift", "weight", "gain", "busy", "undone", "("}) {
    EXPECT_EQ(text.find(internal), std::string::npos) << internal << "\n" << text;
  }
}

TEST(ClosingTable, PutsEachAgentBesideItsOwnShardAlone) {
  SwarmReport report = make_report();
  report.alone = {0.25, 0.31};
  const Table table(print_closing_table(report));
  EXPECT_EQ(table.row("agent-0"),
            (std::vector<std::string>{"agent-0", "labels 0 1", "94.1 %", "25.0 %", "95.0 %", "97", "3", "1.5 MB"}));
  EXPECT_EQ(table.cell("agent-1", "alone"), "31.0 %");
  EXPECT_EQ(table.cell("agent-2", "alone"), "-") << "the run alone was agent-1's";
  EXPECT_EQ(table.row("agent-1").back(), "killed");
  EXPECT_EQ(table.row("agent-2").back(), "joined");
  const Json agents = page_data(report)["agents"];
  EXPECT_EQ(agents[1]["alone"], 0.31);
  EXPECT_TRUE(agents[2]["alone"].is_null());
}

TEST(ClosingTable, SaysWhatDataAnAgentHas) {
  AgentReport agent;
  agent.shard = 2;
  EXPECT_EQ(describe_data(agent), "shard 3") << "text has no labels";
  agent.classes = {0, 1, 2};
  EXPECT_EQ(describe_data(agent), "labels 0 1 2");
  agent.classes = {0, 1, 2, 3, 4, 5};
  EXPECT_EQ(describe_data(agent), "labels 0-5");
  agent.classes = {0, 1, 2, 3, 5, 7, 8};
  EXPECT_EQ(describe_data(agent), "7 labels");
}

// Every figure stands in its own place: none can stand for another.
TEST(PairFacts, HaveAColumnForAnAgentThatTookPart) {
  EXPECT_TRUE(pair_facts({{"a", {}, 50}}).agents.empty());
  const FactTable facts = pair_facts({make_pairs("alice"), {"bob", {}, 50}, {"carol", {.initiated = 1}, 0}});
  EXPECT_EQ(facts.agents, (std::vector<std::string>{"alice", "carol"}));
  std::vector<std::pair<std::string, std::string>> alice;
  for (const FactRow& row : facts.rows) alice.emplace_back(row.name, row.values[0]);
  EXPECT_EQ(alice, (std::vector<std::pair<std::string, std::string>>{{"exchanges per local step", "2.00"},
                                                                     {"mean mixing weight, at most 1", "0.95"},
                                                                     {"expected drift, in local steps", "0.71"},
                                                                     {"ms per step waiting for an answer", "30"},
                                                                     {"ms per step in own exchanges", "12"},
                                                                     {"ms per step in exchanges of peers", "7"},
                                                                     {"proposals waiting for a step", "17"},
                                                                     {"proposals waiting for an exchange", "9"},
                                                                     {"proposals waiting for an answer", "4"},
                                                                     {"proposals expired while waiting", "2"},
                                                                     {"own proposals refused: peer busy", "11"},
                                                                     {"proposals refused", "15"},
                                                                     {"proposals refused: deadlock risk", "6"},
                                                                     {"proposals refused: above fair share", "7"},
                                                                     {"proposals without an answer", "5"},
                                                                     {"exchanges timed out undecided", "3"},
                                                                     {"proposals merged with a peer's", "21"},
                                                                     {"exchanges rolled back", "8"}}));
  EXPECT_EQ(facts.rows[0].values[1], "-") << "no step, no rate";
  EXPECT_EQ(facts.rows.back().values[1], "0");
}

TEST(AgentFacts, HoldWhatTheClosingTableLeavesOut) {
  SwarmReport report = make_report();
  report.agents[0].swarm_distance = 0.002;
  const FactTable facts = agent_facts(report);
  const auto values = [&](const std::string& name) {
    for (const FactRow& row : facts.rows) {
      if (row.name == name) return row.values;
    }
    return std::vector<std::string>{};
  };
  EXPECT_EQ(values("exchanges with parts too late"), (std::vector<std::string>{"7", "7", "7"}));
  EXPECT_EQ(values("received"), (std::vector<std::string>{"1.4 MB", "1.4 MB", "1.4 MB"}));
  EXPECT_EQ(values("sent per local step"), (std::vector<std::string>{"15.0 kB", "15.0 kB", "15.0 kB"}));
  EXPECT_EQ(values("sent in the last round"), (std::vector<std::string>{"13.0 kB", "-", "-"}));
  EXPECT_EQ(values("distance to the mean model"), (std::vector<std::string>{"0.002", "-", "-"}));
  EXPECT_TRUE(values("distance to the farthest model").empty()) << "known at no agent";
}

// A terminal has 80 columns.
TEST(ClosingTable, IsSeenOnEightyColumns) {
  SwarmReport report = make_report();
  report.agents[1].classes = report.agents[2].classes = {2, 3, 5};
  for (size_t i = 0; i < 9; ++i) report.agents.push_back(make_agent("agent-" + std::to_string(10 + i), "finished", 1));
  for (AgentReport& agent : report.agents) agent.pairs = make_pairs(agent.name);
  std::istringstream lines(print_closing_table(report) + print_details(report));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
}

TEST(Details, HoldTheInternalsOfPairsAndTheTableDoesNot) {
  SwarmReport report = make_report();
  EXPECT_EQ(print_details(report).find("pair exchanges"), std::string::npos);
  EXPECT_NE(print_details(report).find("received"), std::string::npos);
  report.agents[0].pairs = make_pairs(report.agents[0].name);
  const std::string details = print_details(report);
  for (const FactRow& row : pair_facts({make_pairs("agent-0")}).rows) {
    EXPECT_NE(details.find(row.name), std::string::npos) << details;
    EXPECT_EQ(print_closing_table(report).find(row.name), std::string::npos) << row.name;
  }
}

TEST(ReportPage, FoldsTheInternalsOfPairs) {
  SwarmReport report = make_report();
  report.agents[0].pairs = make_pairs(report.agents[0].name);
  const auto agents = nlohmann::json::parse(print_report_json(report))["agents"];
  EXPECT_TRUE(agents[1]["pairs"].is_null());
  EXPECT_EQ(agents[0]["pairs"], nlohmann::json::parse(R"({
      "a_step": 2.0, "gain": 0.95, "drift": 0.714, "ms_a_step": {"asking": 30.0, "own": 12.0, "serving": 7.0},
      "waited_here": {"steps": 17, "turn": 9, "asking": 4, "in_vain": 2},
      "refused": {"there": 11, "here": 15, "deadlocks_avoided": 6, "over_share": 7},
      "unanswered": 5, "undecided": 3, "crossed": 21, "rollbacks": 8})"));
  const Json facts = page_data(report)["pair_facts"];
  EXPECT_EQ(facts["agents"], Json{"agent-0"});
  EXPECT_EQ(facts["rows"].back(), (Json{"exchanges rolled back", "8"}));
  const std::string page = print_report_html(report);
  for (const char* id : {"id=\"pairs-table\"", "id=\"facts-table\"", "id=\"log-table\""}) {
    const size_t at = page.find(id);
    ASSERT_NE(at, std::string::npos) << id;
    const size_t folded = page.rfind("<details", at);
    ASSERT_NE(folded, std::string::npos) << id;
    EXPECT_GT(page.find("</details>", folded), at) << id << ": inside";
    EXPECT_EQ(page.substr(folded, page.find('>', folded) - folded).find(" open"), std::string::npos) << id;
  }
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
