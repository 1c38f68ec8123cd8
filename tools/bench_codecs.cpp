// The processor time that each update codec takes of a training step: what a member does in a round of a group of four
// for ten million parameters in four slices, beside one step of a convolutional network of as many, batch 16, in
// LibTorch. All on one thread, in turn; the fastest of each.
//   bench_codecs [--target avx2] [REPEATS [DIGITS]]
// DIGITS: a folder of IDX files to train on; without it, generated images.
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <vector>

#include "compression/outer_rule.h"
#include "compression/slice_math.h"
#include "compression/update_sketch.h"
#include "kernels/check.h"
#include "kernels/vector_ops.h"
#include "tools/bench_clock.h"
#include "tools/bench_cnn.h"

namespace {

using namespace starling;

constexpr size_t kMembers = 4;
constexpr double kGoal = 0.1;  // of a step
constexpr int kTrained = 20;   // steps before the gradient is taken

struct Spent { double encode = 1e30, merge = 1e30, apply = 1e30; };

// One member's round. The others hand in what it does, so that no payload costs memory twice.
class Member {
 public:
  Member(UpdateKind kind, const std::vector<float>& gradient)
      : codec_(make_update_codec({.kind = kind})),
        size_(gradient.size() / kMembers),
        gradient_(gradient),
        accumulator_(gradient.size()),
        params_(gradient.size()),
        sum_(size_),
        payloads_(kMembers),
        tables_(kMembers) {}

  void round(Spent* best) {
    axpy(1, gradient_.data(), accumulator_.data(), accumulator_.size());  // part of the step, whatever the codec
    best->encode = std::min(best->encode, thread_seconds([&] { encode(); }));
    best->merge = std::min(best->merge, thread_seconds([&] { merge(); }));
    best->apply = std::min(best->apply, thread_seconds([&] { apply(); }));
  }
  double bytes() const { return static_cast<double>(payloads_[0].size() * kMembers); }

 private:
  std::span<float> slice(std::vector<float>& values, size_t s) const {
    return std::span(values).subspan(s * size_, size_);
  }

  void encode() {
    for (size_t s = 0; s < kMembers; ++s) {
      const std::span<float> x = slice(accumulator_, s);
      UpdateSeeds seeds{.own = ++seed_, .common = 7};
      if (codec_->tables() != nullptr) {
        tables_[s].resize(codec_->tables()->bytes(size_));
        STARLING_CHECK(codec_->tables()->encode(x, seeds, tables_[s]));
        seeds.requested = requested_;
      }
      payloads_[s].resize(codec_->bytes_max(UpdateRole::kContribution, size_));
      payloads_[s].resize(codec_->encode(UpdateRole::kContribution, x, seeds, payloads_[s]).value());
      if (codec_->residual().dropped) codec_->decode(payloads_[s], x);
    }
  }
  // As the owner of one slice: what all handed in is judged, added up and encoded.
  void merge() {
    if (codec_->tables() != nullptr) {
      const SketchTables& tables = *codec_->tables();
      for (size_t m = 0; m < kMembers; ++m) STARLING_CHECK(tables.check(tables_[0], size_, 7) == UpdateStatus::kOk);
      const std::vector<SketchTerm> terms(kMembers, {1.0f / kMembers, tables_[0]});
      requested_ = SketchTables::requested(tables.request(terms, size_, 7));
    }
    std::vector<UpdateTerm> terms;
    for (size_t m = 0; m < kMembers; ++m) {
      STARLING_CHECK(codec_->checked_norm(UpdateRole::kContribution, payloads_[0], size_).has_value());
      terms.push_back({codec_.get(), 1.0f / kMembers, payloads_[0]});
    }
    codec_->merge(terms, sum_);
    entry_.resize(codec_->bytes_max(UpdateRole::kEntry, size_));
    entry_.resize(codec_->encode(UpdateRole::kEntry, sum_, {.own = ++seed_, .common = 7}, entry_).value());
  }
  // Every slice's entry goes into the params, and what it counts leaves the accumulator.
  void apply() {
    for (size_t s = 0; s < kMembers; ++s) {
      const std::optional<double> norm = codec_->checked_norm(UpdateRole::kEntry, entry_, size_);
      STARLING_CHECK(norm &&
                     apply_entry(host_slice_math(), {}, *codec_, 1, entry_, *norm, slice(params_, s), {}, &reach_[s]));
      codec_->add(-1, payloads_[s], codec_->support(entry_), slice(accumulator_, s));
    }
  }

  std::unique_ptr<UpdateCodec> codec_;
  size_t size_;
  uint64_t seed_ = 0;
  const std::vector<float>& gradient_;
  std::vector<float> accumulator_, params_, sum_;
  std::vector<std::vector<std::byte>> payloads_, tables_;
  std::vector<std::byte> entry_;
  std::array<OuterReach, kMembers> reach_;
  std::vector<uint32_t> requested_;
};

}  // namespace

int main(int argc, char** argv) {
  const bool good = take_target(&argc, argv);
  const int repeats = argc > 1 ? std::atoi(argv[1]) : 5;
  if (!good || argc > 3 || repeats < 1) {
    std::fprintf(stderr, "usage: bench_codecs [--target avx2] [REPEATS [DIGITS]]\n");
    return 2;
  }
  CnnTraining training(argc > 2 ? argv[2] : "");
  for (int i = 0; i < kTrained; ++i) training.step();
  const size_t count = training.parameter_count() / (512 * kMembers) * 512 * kMembers;
  std::vector<float> gradient = training.gradient(count);
  for (float& value : gradient) value += 1e-9f;  // no block is all zeros for ever
  double step = 1e30;
  std::vector<Spent> best(update_names().size());
  std::vector<double> bytes(best.size());
  for (int i = 0; i < repeats; ++i) {
    for (size_t kind = 0; kind < best.size(); ++kind) {
      step = std::min(step, thread_seconds([&] { training.step(); }));
      Member member(update_names()[kind].kind, gradient);
      for (int round = 0; round < 3; ++round) member.round(&best[kind]);
      bytes[kind] = member.bytes();
    }
  }
  std::printf("%zu parameters, one thread; a training step, batch %d: %.1f ms of processor time, the fastest of %zu\n",
              training.parameter_count(), static_cast<int>(CnnTraining::kBatch), 1e3 * step,
              best.size() * static_cast<size_t>(repeats));
  for (size_t kind = 0; kind < best.size(); ++kind) {
    const Spent& spent = best[kind];
    const double sum = spent.encode + spent.merge + spent.apply;
    std::printf("%-12s encode %6.2f ms, merge %6.2f, apply %6.2f: %5.1f %% of a step (goal 10 %%)  %s; %.2f bits up\n",
                std::string(update_names()[kind].name).c_str(), 1e3 * spent.encode, 1e3 * spent.merge,
                1e3 * spent.apply, 100 * sum / step, met(sum <= kGoal * step),
                8 * bytes[kind] / static_cast<double>(count));
  }
  return 0;
}
