// A convolutional network of ten million parameters and its training step, as LibTorch computes it: what codecs are
// measured beside, and where gradients of a real model come from.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include <torch/torch.h>

namespace starling {

struct CnnImpl : torch::nn::Module {
  static torch::nn::Conv2d conv(int64_t from, int64_t to) {
    return torch::nn::Conv2d(torch::nn::Conv2dOptions(from, to, 3).padding(1));
  }
  torch::nn::Conv2d a = conv(1, 64), b = conv(64, 128), c = conv(128, 256), d = conv(256, 512), e = conv(512, 512);
  torch::nn::Linear f{512 * 3 * 3, 1280}, g{1280, 10};

  CnnImpl() {
    int number = 0;
    for (auto& layer : {a, b, c, d, e}) register_module("conv" + std::to_string(++number), layer);
    register_module("f", f);
    register_module("g", g);
  }
  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(b(torch::relu(a(x))));
    x = torch::relu(c(torch::max_pool2d(x, 2)));
    x = torch::relu(e(torch::relu(d(torch::max_pool2d(x, 2)))));
    return g(torch::relu(f(torch::max_pool2d(x, 2).flatten(1))));
  }
};
TORCH_MODULE(Cnn);

class CnnTraining {
 public:
  static constexpr int64_t kBatch = 16;

  // With IDX files of digits in `folder`; empty: noisy prototypes of ten classes.
  explicit CnnTraining(const std::string& folder) {
    torch::set_num_threads(1);
    torch::manual_seed(1);
    net_ = Cnn();
    optimizer_ = std::make_unique<torch::optim::SGD>(net_->parameters(), torch::optim::SGDOptions(0.02).momentum(0.9));
    if (folder.empty()) {
      labels_ = torch::randint(10, {2000});
      images_ = torch::rand({10, 1, 28, 28}).index_select(0, labels_) + 0.3 * torch::randn({2000, 1, 28, 28});
      return;
    }
    const std::vector<uint8_t> pixels = bytes(folder + "/train-images-idx3-ubyte", 16);
    const std::vector<uint8_t> classes = bytes(folder + "/train-labels-idx1-ubyte", 8);
    const auto count = static_cast<int64_t>(classes.size());
    TORCH_CHECK(count >= kBatch && pixels.size() == classes.size() * 784, folder, " holds no digits of 28 x 28");
    images_ = torch::tensor(pixels, torch::kUInt8).to(torch::kFloat32).div(255).view({count, 1, 28, 28});
    labels_ = torch::tensor(classes, torch::kUInt8).to(torch::kInt64);
  }

  double step() {
    const torch::Tensor batch = torch::randint(labels_.size(0), {kBatch});
    optimizer_->zero_grad();
    const torch::Tensor loss =
        torch::nn::functional::cross_entropy(net_(images_.index_select(0, batch)), labels_.index_select(0, batch));
    loss.backward();
    optimizer_->step();
    return loss.item<double>();
  }
  size_t parameter_count() const {
    size_t count = 0;
    for (const torch::Tensor& p : net_->parameters()) count += static_cast<size_t>(p.numel());
    return count;
  }
  // Of the last step, layer after layer; again from the first one until there are so many.
  std::vector<float> gradient(size_t count) const {
    std::vector<float> values;
    while (values.size() < count) {
      for (const torch::Tensor& p : net_->parameters()) {
        const torch::Tensor flat = p.grad().contiguous().flatten();
        const float* const from = flat.data_ptr<float>();
        values.insert(values.end(), from, from + flat.numel());
      }
    }
    values.resize(count);
    return values;
  }

 private:
  static std::vector<uint8_t> bytes(const std::string& path, std::streamoff header) {
    std::ifstream file(path, std::ios::binary);
    TORCH_CHECK(file.seekg(header).good(), "cannot read ", path);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  Cnn net_{nullptr};
  std::unique_ptr<torch::optim::SGD> optimizer_;
  torch::Tensor images_, labels_;
};

}  // namespace starling
