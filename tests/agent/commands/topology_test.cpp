#include "agent/commands/topology.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "agent/commands/commands.h"
#include "agent/report/topology_draw.h"
#include "compression/update_codec.h"

namespace starling {
namespace {

class TopologyCommand : public testing::Test {
 protected:
  TopologyCommand() {
    std::string pattern = (std::filesystem::temp_directory_path() / "starling-topology-XXXXXX").string();
    EXPECT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  ~TopologyCommand() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& text) {
    const std::string path = folder_ + "/edges.txt";
    std::ofstream(path) << text;
    return path;
  }

  std::string folder_;
};

std::string run(const TopologyOptions& options) {
  testing::internal::CaptureStdout();
  try {
    EXPECT_EQ(run_topology_command(options), 0);
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
  }
  return testing::internal::GetCapturedStdout();
}

std::string refusal(const TopologyOptions& options) {
  testing::internal::CaptureStdout();
  std::string what = "accepted";
  try {
    run_topology_command(options);
  } catch (const std::runtime_error& error) {
    what = error.what();
  }
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  return what;
}

TEST_F(TopologyCommand, DescribesARing) {
  EXPECT_EQ(run({.kind = "ring", .agents = 5}), R"(ring, 5 agents

  degree          2
  edges           5
  diameter        2
  spectral gap    0.461
  rounds per 10x  3.7  (until the spread between agents is a tenth)

Busiest node, sent and received in one round (10000000 params as fp32, 40.0 MB a model):

                        messages       bytes
  ring                         4    160.0 MB
  parameter server            10    400.0 MB
  ring all-reduce             16    128.0 MB

  0  \ # . . #
  1  # \ # . .
  2  . # \ # .
  3  . . # \ #
  4  # . . # \
)");
}

TEST_F(TopologyCommand, ComparesAllKinds) {
  const std::string text = run({.kind = "all", .params = 1000, .codec = "bf16"});
  EXPECT_EQ(text, run({.params = 1000, .codec = "bf16"}));
  const std::vector<std::string> lines = {
      "16 agents; messages and bytes: the busiest node's, sent and received in one round\n"
      "(1000 params as bf16, 2.0 kB a model)\n",
      "matching *              1       8         -     0.344             5.5         2     4.0 kB\n",
      "ring                    2      16         8    0.0507            44.2         4     8.0 kB\n",
      "torus                   4      32         4       0.4             4.5         8    16.0 kB\n",
      "star                1..15      15         2    0.0625            35.7        30    60.0 kB\n",
      "full                   15     120         1         1      exact in 1        30    60.0 kB\n",
      "one-peer *              1       8         -         -      exact in 4         2     4.0 kB\n",
      "parameter server                                           exact in 1        32    64.0 kB\n",
      "ring all-reduce                                            exact in 1        60     7.5 kB\n",
      "\nrounds per 10x: until the spread between agents is a tenth\n"
      "* new edges every round: gap and rounds per 10x are averages over 1000 rounds, the rest is round 0\n"
      "matching: one exchange an agent and round; swarm.exchange.exchanges_per_step: 2 makes two, as auto does where\n"
      "  more than four agents share the momentum\n",
  };
  for (const std::string& line : lines) EXPECT_NE(text.find(line), std::string::npos) << line << text;
  EXPECT_EQ(text.find("file"), std::string::npos);
  EXPECT_EQ(text.find("power of two"), std::string::npos);
  EXPECT_NE(run({.agents = 12}).find("one-peer needs a power of two"), std::string::npos);
  EXPECT_NE(run({.agents = 2}).find("2 agents;"), std::string::npos);
}

TEST_F(TopologyCommand, SaysThatAChangingGraphIsAnAverage) {
  const std::string matching = run({.kind = "matching", .agents = 30});
  EXPECT_NE(matching.find("averages over 1000 rounds"), std::string::npos) << matching;
  EXPECT_NE(matching.find("  matching                     2     80.0 MB\n"), std::string::npos) << matching;
  EXPECT_NE(matching.find("exchanges_per_step: 2 makes two"), std::string::npos) << matching;
  EXPECT_NE(matching.find("not connected within one round"), std::string::npos) << matching;
  EXPECT_NE(matching.find("--svg FILE draws them"), std::string::npos) << matching;
  EXPECT_NE(matching, run({.kind = "matching", .agents = 30, .rng_seed = 2}));
  EXPECT_NE(run({.kind = "one-peer"}).find("rounds per 10x  exact in 4\n"), std::string::npos);
  EXPECT_NE(run({.kind = "one-peer", .agents = 6}).find("with 6 agents it is the random matching"), std::string::npos);
}

TEST_F(TopologyCommand, CountsTheCodecsBytes) {
  const auto bytes = [](const char* codec) {
    const std::string text = run({.kind = "full", .agents = 3, .params = 1'000'000, .codec = codec});
    return text.substr(text.find("(1000000 params"), text.find("):") - text.find("(1000000 params"));
  };
  EXPECT_EQ(bytes("fp32"), "(1000000 params as fp32, 4.0 MB a model");
  EXPECT_EQ(bytes("bf16"), "(1000000 params as bf16, 2.0 MB a model");
  EXPECT_EQ(bytes("fp16"), "(1000000 params as fp16, 2.0 MB a model");
  EXPECT_EQ(bytes("modulo8"), "(1000000 params as modulo8, 1.0 MB a model");
  EXPECT_EQ(bytes("modulo4"), "(1000000 params as modulo4, 500.0 kB a model");
}

// A quarter of the bytes, and four times the rounds: each block is mixed in one exchange of four.
TEST_F(TopologyCommand, CountsFragments) {
  const TopologyOptions plain{.kind = "ring", .agents = 16, .params = 1'000'000, .codec = "bf16"};
  TopologyOptions parts = plain;
  parts.fragments = 4;
  const auto value = [](const TopologyOptions& options, const std::string& line) {
    const std::string text = run(options);
    const size_t at = text.find(line);
    EXPECT_NE(at, std::string::npos) << text;
    return text.substr(at + line.size(), text.find('\n', at) - at - line.size());
  };
  EXPECT_NE(run(parts).find("2.0 MB a model, of which an exchange sends 500.0 kB)"), std::string::npos) << run(parts);
  EXPECT_NEAR(std::stod(value(parts, "rounds per 10x")) / std::stod(value(plain, "rounds per 10x")), 4, 0.05);
  EXPECT_EQ(value(plain, "  ring     "), "                    4      8.0 MB");
  EXPECT_EQ(value(parts, "  ring     "), "                    4      2.0 MB");
  EXPECT_EQ(value(parts, "parameter server"), value(plain, "parameter server"));
}

// Each member hands in what it has for the slices of all others, and sends its slices' entries to each of them.
TEST_F(TopologyCommand, CountsTheBytesOfUpdates) {
  const std::string all = run({.agents = 4, .params = 8'000'000, .update = "all"});
  const std::vector<std::string> lines = {
      "4 agents, 8000000 params; bytes: sent by each agent in one round, and as many received\n",
      "update         bits up  bits down       bytes  fewer than fp32\n",
      "fp32             32.00      32.00     48.0 MB             1.0x\n",  // three quarters of 32 MB, twice
      "topk              0.41       0.79    898.2 kB            53.4x\n",
      "int8              8.06       8.06     12.1 MB             4.0x\n",  // a scale of 32 bits for 512 elements
      "int4              4.25       4.25      6.4 MB             7.5x\n",  // and for 128
      "sign              1.00       1.00      1.5 MB            31.9x\n",
      "sign_ef           1.06       8.06      6.8 MB             7.0x\n",
      "sketch            2.52       0.51      2.3 MB            21.2x\n",  // tables, requests and values
      "\nbits: of an element, on its way to the owners of the slices and back; bytes: at most"};
  for (const std::string& line : lines) EXPECT_NE(all.find(line), std::string::npos) << line << all;
  for (const UpdateName& one : update_names()) {
    EXPECT_NE(all.find("\n" + std::string(one.name) + " "), std::string::npos) << one.name;
  }
  const std::string one = run({.agents = 8, .params = 8'000'000, .update = "topk", .density = 0.1});
  EXPECT_EQ(one.find("fp32 "), std::string::npos) << one;
  EXPECT_NE(one.find("\ntopk              3.73       7.25"), std::string::npos) << one;
  EXPECT_NE(run({.update = "bf16"}).find("8 agents, 10000000 params;"), std::string::npos);
}

TEST_F(TopologyCommand, RefusesUpdatesOfGraphs) {
  const std::string graph =
      "--update is of one group of all members, for which no graph and no codec of params "
      "counts; leave all flags out but --agents, --params and --density";
  EXPECT_EQ(refusal({.kind = "ring", .update = "int8"}), graph);
  EXPECT_EQ(refusal({.codec = "bf16", .update = "int8"}), graph);
  EXPECT_EQ(refusal({.fragments = 2, .update = "int8"}), graph);
  EXPECT_EQ(refusal({.update = "itn8"}), "there is no update codec 'itn8'; did you mean 'int8'?");
  EXPECT_EQ(refusal({.agents = 33, .update = "int8"}), "--agents 33; updates are shared by 2 to 32 agents");
  EXPECT_EQ(refusal({.params = 0, .update = "int8"}), "--params 0; a model has 1 to 1000000000000");
  EXPECT_EQ(refusal({.params = 100'000'000'000, .update = "sketch"}),
            "--params 100000000000; with sketch a model has at most 17179869180");
  EXPECT_EQ(refusal({.density = 0.1}), "--density is of update codecs: name one with --update, or all");
}

TEST_F(TopologyCommand, ReadsAFileOfEdges) {
  const std::string path = write("# a path\nanna bob   # neighbors\n\n  bob\tcarl\r\nbob anna\n");
  const std::string text = run({.file = path});
  EXPECT_NE(text.find("file, 3 agents\n"), std::string::npos) << text;
  EXPECT_NE(text.find("degree          1..2\n  edges           2\n"), std::string::npos) << text;
  EXPECT_NE(text.find("  anna  \\ # .\n   bob  # \\ #\n  carl  . # \\\n"), std::string::npos) << text;
  EXPECT_EQ(text, run({.kind = "file", .agents = 3, .file = path}));
}

TEST_F(TopologyCommand, FileErrorsNameTheLine) {
  const std::string path = folder_ + "/edges.txt";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"a b\nc\n", path + ":2: expected two names with a space between, found 'c'"},
      {"a b c # three\n", path + ":1: expected two names with a space between, found 'a b c'"},
      {"\n\na a\n", path + ":3: joins 'a' to itself; name two agents, or take the line out"},
      {"a \x1b[31m\n", path + ":1: a name that is not plain UTF-8 text; write it anew"},
      {"a " + std::string(33, 'x'), path + ":1: a name of 33 bytes; no agent's name has more than 32"},
      {"a b\nc d\n",
       "the graph is not connected: no path leads from 'a' to 'c', so they would never learn from each "
       "other; add an edge between the two parts"},
      {"# nobody\n", path + " names 0 agents; a topology has 2 to 1024"},
  };
  for (const auto& [text, expected] : cases) {
    write(text);
    EXPECT_EQ(refusal({.file = path}), expected);
  }
  write("a b\n");
  EXPECT_EQ(refusal({.agents = 5, .file = path}), "--agents 5, but " + path + " names 2; leave --agents out");
  EXPECT_EQ(refusal({.file = folder_ + "/none"}), "cannot read " + folder_ +
                                                      "/none: No such file or directory; it is "
                                                      "to hold two names of agents a line, an edge each");
  EXPECT_NE(refusal({.file = folder_}).find("cannot read " + folder_), std::string::npos);
}

TEST_F(TopologyCommand, RefusesWithARemedy) {
  const std::vector<std::pair<TopologyOptions, std::string>> cases = {
      {{.kind = "rign"}, "there is no topology 'rign'; did you mean 'ring'?"},
      {{.kind = "hypercube"},
       "there is no topology 'hypercube'; choose one of matching, ring, torus, exponential, "
       "regular, star, full, file, one-peer, all"},
      {{.kind = "ring", .fragments = 65}, "--fragments 65; a model has 1 to 64"},
      {{.kind = "ring", .params = 3, .fragments = 4}, "--fragments 4; a model has 1 to 3"},
      {{.kind = "ring", .codec = "bf61"}, "there is no codec 'bf61'; did you mean 'bf16'?"},
      {{.kind = "ring", .agents = 1}, "--agents asks for 1 agent; a topology has 2 to 1024"},
      {{.agents = 1025}, "--agents asks for 1025 agents; a topology has 2 to 1024"},
      {{.kind = "regular", .agents = 5, .degree = 5}, "--degree 5 cannot join 5 agents; choose 2 to 4"},
      {{.agents = 5, .degree = 1}, "--degree 1 cannot join 5 agents; choose 2 to 4"},
      {{.kind = "regular", .agents = 2, .degree = 2}, "--degree 2 cannot join 2 agents; choose 1"},
      {{.kind = "ring", .degree = 2}, "--degree is for --kind regular; the degree of ring follows from the agents"},
      {{.params = 0}, "--params 0; a model has 1 to 1000000000000"},
      {{.kind = "file"}, "--kind file needs the file of edges: --file FILE"},
      {{.kind = "ring", .file = "f"}, "--file is for --kind file, not for ring; leave one of them out"},
      {{.svg = "x.svg"}, "--svg draws one graph; choose which with --kind"},
      {{.kind = "ring", .svg = folder_ + "/no/x.svg"},
       "cannot write " + folder_ + "/no/x.svg: No such file or directory; make room or choose another place"},
  };
  for (const auto& [options, expected] : cases) EXPECT_EQ(refusal(options), expected);
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST_F(TopologyCommand, DrawsEveryKindIntoAFile) {
  for (const std::string& kind : topology_names()) {
    TopologyOptions options{.kind = kind, .svg = folder_ + "/" + kind + ".svg"};
    if (kind == "file") options.file = write("a&b <c>\n<c> d\n");
    const std::string text = run(options);
    EXPECT_NE(text.find("\ndrawn in " + options.svg + "\n"), std::string::npos) << text;
    std::ifstream file(options.svg);
    const std::string svg(std::istreambuf_iterator<char>(file), {});
    const size_t count = kind == "file" ? 3 : 16;
    EXPECT_TRUE(svg.starts_with("<svg ") && svg.ends_with("</svg>\n")) << kind;
    EXPECT_EQ(count_of(svg, "<circle"), count) << kind;
    EXPECT_EQ(count_of(svg, "<text"), count + 1) << kind;
    EXPECT_EQ(svg.find("nan"), std::string::npos) << kind;
    EXPECT_EQ(svg.find("inf"), std::string::npos) << kind;
    if (kind == "file") {
      EXPECT_NE(svg.find(">a&amp;b</text>"), std::string::npos) << svg;
    } else if (kind == "ring") {
      EXPECT_EQ(count_of(svg, "L"), 16u) << svg;
    } else if (kind == "torus") {
      EXPECT_EQ(count_of(svg, "Q"), 8u) << svg;  // the edges that wrap
    }
  }
}

TEST(TopologyDraw, LeavesNamesOutWhereTheyHaveNoRoom) {
  const Graph graph = make_graph({.kind = TopologyKind::kRing}, 100, 0);
  const std::string svg = draw_svg(TopologyKind::kRing, graph, {}, "many");
  EXPECT_EQ(count_of(svg, "<circle"), 100u);
  EXPECT_EQ(count_of(svg, "<text"), 1u);
  for (const size_t count : {2, 3, 6}) {
    const Graph torus = make_graph({.kind = TopologyKind::kTorus}, count, 0);
    EXPECT_EQ(count_of(draw_svg(TopologyKind::kTorus, torus, {}, "few"), "<circle"), count);
  }
}

}  // namespace
}  // namespace starling
