// What a user would write without an agent: a bare LibTorch training loop of the demo's network, one thread a process.
//   bench_loop PROCESSES SECONDS
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <torch/torch.h>

namespace {

constexpr int64_t kChannels = 8, kBatch = 64, kSamples = 1000, kClasses = 10;

struct NetImpl : torch::nn::Module {
  torch::nn::Conv2d conv1{torch::nn::Conv2dOptions(1, kChannels, 5)};
  torch::nn::Conv2d conv2{torch::nn::Conv2dOptions(kChannels, 2 * kChannels, 5)};
  torch::nn::Linear fc{2 * kChannels * 4 * 4, kClasses};
  NetImpl() {
    register_module("conv1", conv1);
    register_module("conv2", conv2);
    register_module("fc", fc);
  }
  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(torch::max_pool2d(conv1(x), 2));
    x = torch::relu(torch::max_pool2d(conv2(x), 2));
    return fc(x.flatten(1));
  }
};
TORCH_MODULE(Net);

double steps_per_second(double seconds) {
  torch::set_num_threads(1);
  torch::manual_seed(1);
  Net net;
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  const torch::Tensor images = torch::rand({kSamples, 1, 28, 28});
  const torch::Tensor labels = torch::randint(kClasses, {kSamples});
  torch::Tensor order = torch::randperm(kSamples);
  int64_t at = 0;
  const auto step = [&] {
    if (at + kBatch > kSamples) {
      order = torch::randperm(kSamples);
      at = 0;
    }
    const torch::Tensor batch = order.narrow(0, at, kBatch);
    at += kBatch;
    optimizer.zero_grad();
    torch::nn::functional::cross_entropy(net(images.index_select(0, batch)), labels.index_select(0, batch)).backward();
    optimizer.step();
  };
  for (int i = 0; i < 20; ++i) step();  // warm
  const auto start = std::chrono::steady_clock::now();
  int steps = 0;
  double elapsed = 0;
  while (elapsed < seconds) {
    step();
    ++steps;
    elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  return steps / elapsed;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: bench_loop PROCESSES SECONDS\n");
    return 2;
  }
  const int processes = std::atoi(argv[1]);
  const double seconds = std::atof(argv[2]);
  int pipes[2];
  if (pipe(pipes) != 0) return 1;
  std::vector<pid_t> children;  // forked before LibTorch has a thread
  for (int i = 0; i < processes; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      const double rate = steps_per_second(seconds);
      return write(pipes[1], &rate, sizeof rate) == sizeof rate ? 0 : 1;
    }
    children.push_back(child);
  }
  double sum = 0;
  for (int i = 0; i < processes; ++i) {
    double rate = 0;
    if (read(pipes[0], &rate, sizeof rate) != sizeof rate) return 1;
    sum += rate;
  }
  for (pid_t child : children) waitpid(child, nullptr, 0);
  std::printf("{\"steps_per_s\": %.3f}\n", sum / processes);
  return 0;
}
