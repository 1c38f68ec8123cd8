// What a user would take instead of our exchanges: gloo's all-reduce of the same buffers, one process a rank, on
// loopback or on the nodes of link_relay. Prints one line of rank 0: rounds per second and the spread of the rounds.
//   bench_gloo RANKS ELEMENTS SECONDS STORE_FOLDER
//     [--algorithm ring|bcube|ring_chunked|halving_doubling|allgather]   allgather: nothing is summed, and each rank's
//                            buffer reaches all others, as MGS-SGD sends what it has selected
//     [--compute-ms MS]      each rank sleeps so long before each all-reduce
//     [--slow-ms MS]         the last rank's sleep instead
//     [--pause-ms MS]        the last rank sleeps so long once, at half-time
//     [--node NAMESPACE ADDRESS]   once a rank: where it runs
#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

namespace {

using SteadyTime = std::chrono::steady_clock;
using Reduce = void (*)(void*, const void*, const void*, size_t);
constexpr int kProbeRounds = 1;
constexpr float kRoundsMin = 4, kRoundsMax = 20000;

struct Options {
  int ranks = 0;
  size_t elements = 0;
  double seconds = 0;
  std::string folder, algorithm = "ring";
  double compute_ms = 0, slow_ms = -1, pause_ms = 0;
  std::vector<std::pair<std::string, std::string>> nodes;  // namespace, address
};

double since(SteadyTime::time_point start) { return std::chrono::duration<double>(SteadyTime::now() - start).count(); }

void sleep_ms(double ms) {
  if (ms > 0) std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(ms));
}

std::shared_ptr<gloo::rendezvous::Context> connect(const Options& options, int rank) {
  gloo::transport::tcp::attr attributes;
  attributes.hostname = "127.0.0.1";
  if (!options.nodes.empty()) {
    const auto& [name, address] = options.nodes[static_cast<size_t>(rank)];
    const int fd = open(name.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0 || setns(fd, CLONE_NEWNET) != 0) {
      std::fprintf(stderr, "bench_gloo: cannot enter %s: %s\n", name.c_str(), std::strerror(errno));
      std::exit(1);
    }
    attributes.hostname = address;
  }
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  gloo::rendezvous::FileStore store(options.folder);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, options.ranks);
  context->setTimeout(std::chrono::seconds(120));
  context->connectFullMesh(store, device);
  return context;
}

// One collective call of `buffer` a call.
std::function<void()> make_round(const std::string& name, std::shared_ptr<gloo::rendezvous::Context> context,
                                 std::vector<float>& buffer) {
  const auto count = static_cast<int>(buffer.size());
  if (name == "halving_doubling" || name == "ring_chunked") {
    std::shared_ptr<gloo::Algorithm> algorithm;
    if (name == "halving_doubling") {
      algorithm = std::make_shared<gloo::AllreduceHalvingDoubling<float>>(context, std::vector{buffer.data()}, count);
    } else {
      algorithm = std::make_shared<gloo::AllreduceRingChunked<float>>(context, std::vector{buffer.data()}, count);
    }
    return [algorithm] { algorithm->run(); };
  }
  if (name == "allgather") {
    auto all = std::make_shared<std::vector<float>>(buffer.size() * static_cast<size_t>(context->size));
    return [context, &buffer, all] {
      gloo::AllgatherOptions options(context);
      options.setInput(buffer.data(), buffer.size());
      options.setOutput(all->data(), all->size());
      gloo::allgather(options);
    };
  }
  using Algorithm = gloo::AllreduceOptions::Algorithm;
  return [context, &buffer, kind = name == "bcube" ? Algorithm::BCUBE : Algorithm::RING] {
    gloo::AllreduceOptions options(context);
    options.setOutput(buffer.data(), buffer.size());
    options.setAlgorithm(kind);
    options.setReduceFunction(static_cast<Reduce>(&gloo::sum<float>));
    gloo::allreduce(options);
  };
}

float sum_over_ranks(const std::shared_ptr<gloo::rendezvous::Context>& context, float value) {
  gloo::AllreduceOptions options(context);
  options.setOutput(&value, 1);
  options.setReduceFunction(static_cast<Reduce>(&gloo::sum<float>));
  gloo::allreduce(options);
  return value;
}

int run_rank(const Options& options, int rank) {
  const auto context = connect(options, rank);
  std::vector<float> buffer(options.elements, 1.0f / static_cast<float>(options.ranks));
  const auto round = make_round(options.algorithm, context, buffer);
  const bool last = rank == options.ranks - 1;
  const double compute_ms = last && options.slow_ms >= 0 ? options.slow_ms : options.compute_ms;
  const auto step = [&] {
    sleep_ms(compute_ms);
    round();
  };
  round();  // connections and pages are warm from here on
  // Every rank runs the same number of rounds; rank 0 estimates it, so that no vote disturbs them.
  const auto probe = SteadyTime::now();
  for (int i = 0; i < kProbeRounds; ++i) step();
  const auto fitting = static_cast<float>(options.seconds / (since(probe) / kProbeRounds));
  const float wanted = std::clamp(std::floor(fitting), kRoundsMin, kRoundsMax);
  const auto rounds = static_cast<int>(sum_over_ranks(context, rank == 0 ? wanted : 0));
  std::vector<double> times;
  const auto start = SteadyTime::now();
  for (int i = 0; i < rounds; ++i) {
    if (last && i == rounds / 2) sleep_ms(options.pause_ms);
    const auto began = SteadyTime::now();
    step();
    times.push_back(since(began));
  }
  const double total = since(start);
  if (rank == 0) {
    std::sort(times.begin(), times.end());
    std::printf("{\"rounds_per_s\": %.4f, \"median_ms\": %.2f, \"min_ms\": %.2f, \"max_ms\": %.2f, \"rounds\": %d}\n",
                static_cast<double>(times.size()) / total, times[times.size() / 2] * 1e3, times.front() * 1e3,
                times.back() * 1e3, rounds);
  }
  sum_over_ranks(context, 0);  // nobody leaves while another still needs it
  return 0;
}

[[noreturn]] void usage() {
  std::fprintf(stderr,
               "usage: bench_gloo RANKS ELEMENTS SECONDS STORE_FOLDER (an empty folder) [--algorithm ring|"
               "bcube|ring_chunked|halving_doubling|allgather] [--compute-ms MS] [--slow-ms MS] [--pause-ms MS] "
               "[--node NAMESPACE ADDRESS, once a rank]\n");
  std::exit(2);
}

Options parse(int argc, char** argv) {
  if (argc < 5) usage();
  Options options;
  options.ranks = std::atoi(argv[1]);
  options.elements = std::strtoull(argv[2], nullptr, 10);
  options.seconds = std::atof(argv[3]);
  options.folder = argv[4];
  for (int i = 5; i < argc;) {
    const std::string name = argv[i];
    const int values = name == "--node" ? 2 : 1;
    if (i + values >= argc) usage();
    if (name == "--algorithm") {
      options.algorithm = argv[i + 1];
    } else if (name == "--compute-ms") {
      options.compute_ms = std::atof(argv[i + 1]);
    } else if (name == "--slow-ms") {
      options.slow_ms = std::atof(argv[i + 1]);
    } else if (name == "--pause-ms") {
      options.pause_ms = std::atof(argv[i + 1]);
    } else if (name == "--node") {
      options.nodes.emplace_back(argv[i + 1], argv[i + 2]);
    } else {
      usage();
    }
    i += 1 + values;
  }
  const std::vector<std::string> known = {"ring", "bcube", "ring_chunked", "halving_doubling", "allgather"};
  const bool placed = options.nodes.empty() || options.nodes.size() == static_cast<size_t>(options.ranks);
  if (options.ranks < 1 || !placed || std::count(known.begin(), known.end(), options.algorithm) == 0) usage();
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  std::vector<pid_t> children;
  for (int rank = 1; rank < options.ranks; ++rank) {
    const pid_t child = fork();
    if (child == 0) return run_rank(options, rank);
    children.push_back(child);
  }
  int status = run_rank(options, 0);
  for (pid_t child : children) {
    int result = 0;
    waitpid(child, &result, 0);
    if (result != 0) status = 1;
  }
  return status;
}
