// What a user would take instead of a pairwise exchange: gloo's ring all-reduce of the same buffers, one process a rank
// on loopback. Prints one line a rank 0: rounds per second and the spread of the rounds.
//   bench_gloo RANKS ELEMENTS SECONDS STORE_FOLDER
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

namespace {

using SteadyTime = std::chrono::steady_clock;

double since(SteadyTime::time_point start) {
  return std::chrono::duration<double>(SteadyTime::now() - start).count();
}

int run_rank(int rank, int ranks, size_t elements, double seconds, const std::string& folder) {
  gloo::transport::tcp::attr attributes;
  attributes.hostname = "127.0.0.1";
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  gloo::rendezvous::FileStore store(folder);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
  context->connectFullMesh(store, device);

  std::vector<float> buffer(elements, 1.0f / static_cast<float>(ranks));
  const auto round = [&] {
    gloo::AllreduceOptions options(context);
    options.setOutput(buffer.data(), buffer.size());
    options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
    options.setReduceFunction(
        static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::sum<float>));
    gloo::allreduce(options);
  };
  round();   // connections and pages are warm from here on
  std::vector<double> times;
  const auto start = SteadyTime::now();
  // Every rank runs the same number of rounds: rank 0's clock decides, one extra element all-reduced per round.
  for (bool go = true; go;) {
    const auto began = SteadyTime::now();
    round();
    times.push_back(since(began));
    float stop = rank == 0 && since(start) > seconds ? 1 : 0;
    gloo::AllreduceOptions vote(context);
    vote.setOutput(&stop, 1);
    vote.setReduceFunction(static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::sum<float>));
    gloo::allreduce(vote);
    go = stop == 0;
  }
  const double total = since(start);
  if (rank == 0) {
    std::sort(times.begin(), times.end());
    std::printf("{\"rounds_per_s\": %.4f, \"median_ms\": %.2f, \"min_ms\": %.2f, \"max_ms\": %.2f}\n",
                static_cast<double>(times.size()) / total, times[times.size() / 2] * 1e3, times.front() * 1e3,
                times.back() * 1e3);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: bench_gloo RANKS ELEMENTS SECONDS STORE_FOLDER (an empty folder)\n");
    return 2;
  }
  const int ranks = std::atoi(argv[1]);
  std::vector<pid_t> children;
  for (int rank = 1; rank < ranks; ++rank) {
    const pid_t child = fork();
    if (child == 0) return run_rank(rank, ranks, std::strtoull(argv[2], nullptr, 10), std::atof(argv[3]), argv[4]);
    children.push_back(child);
  }
  int status = run_rank(0, ranks, std::strtoull(argv[2], nullptr, 10), std::atof(argv[3]), argv[4]);
  for (pid_t child : children) {
    int result = 0;
    waitpid(child, &result, 0);
    if (result != 0) status = 1;
  }
  return status;
}
