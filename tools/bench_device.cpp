// What a boundary costs where the params lie on a GPU, stage by stage as an agent calls them, without its messages.
// Beside each stage its floor: the bytes that must be read and written on the device, and those that must cross the
// bus, at the rates of plain copies in the same run.
//   bench_device [ELEMENTS...]          default: 10, 100 and 500 million
// A boundary that has a goal ends with `met` or `missed`. Over the emulated GPU the times are those of one CPU core.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "compression/codec.h"
#include "compression/slice_math.h"
#include "compression/update_codec.h"
#include "gossip/exchange/options.h"
#include "gossip/updates/update_replicas.h"
#include "kernels/check.h"
#include "kernels/cuda/device.h"
#include "kernels/transfer.h"

namespace {

using namespace starling;

constexpr double kGoal = 1.25;              // of the floor, for a boundary of pairs
constexpr size_t kCopyElements = 64 << 20;  // of the copies that tell the rates
constexpr int kRepeats = 5;

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Bytes a second of plain copies, pinned where they cross the bus; the fastest of some.
struct Rates {
  explicit Rates(size_t count) {
    const FloatMemory a(MemorySpace::kCuda, count), b(MemorySpace::kCuda, count);
    const FloatMemory host(MemorySpace::kCuda, count, FloatMemory::Place::kStaging);
    within = 2 * rate(a.all(), b.all());  // read and written
    down = rate(a.all(), host.all());
    up = rate(host.all(), a.all());
  }
  static double rate(std::span<const float> from, std::span<float> to) {
    const cuda::Stream stream;
    double best = 1e30;
    for (int i = 0; i < 3; ++i) {
      const double begun = now_s();
      cuda::copy_async(to.data(), from.data(), to.size_bytes(), stream.handle());
      stream.wait();
      best = std::min(best, now_s() - begun);
    }
    return static_cast<double>(to.size_bytes()) / best;
  }
  double within = 0, up = 0, down = 0;
};

// Bytes that a stage must move.
struct Moved {
  double within = 0, up = 0, down = 0;
  double seconds(const Rates& rates) const { return within / rates.within + up / rates.up + down / rates.down; }
};

class Stages {
 public:
  // Of one repeat; `body` returns the bytes.
  template <class Body>
  void add(const char* name, const Body& body) {
    const double begun = now_s();
    const Moved bytes = body();
    auto stage = std::find_if(all_.begin(), all_.end(), [&](const Stage& one) { return one.name == name; });
    if (stage == all_.end()) stage = all_.insert(all_.end(), Stage{name, 0, {}});
    stage->seconds += now_s() - begun;
    stage->bytes.within += bytes.within;
    stage->bytes.up += bytes.up;
    stage->bytes.down += bytes.down;
  }
  double seconds() const {
    double sum = 0;
    for (const Stage& stage : all_) sum += stage.seconds;
    return sum;
  }
  void print(const std::string& what, const Rates& rates, bool has_goal) const {
    double floor = 0;
    for (const Stage& stage : all_) {
      floor += stage.bytes.seconds(rates);
      row(stage.name, stage.seconds, stage.bytes.seconds(rates), stage.bytes, "");
    }
    const bool met = seconds() <= kGoal * floor;
    row(what, seconds(), floor, {}, !has_goal ? "" : met ? "  met" : "  missed");
  }

 private:
  struct Stage {
    std::string_view name;
    double seconds;
    Moved bytes;
  };
  static void row(std::string_view name, double seconds, double floor, const Moved& bytes, const char* verdict) {
    std::printf("  %-34.*s %9.3f ms", static_cast<int>(name.size()), name.data(), 1e3 * seconds);
    if (floor > 0) std::printf("  floor %9.3f ms %7.2f x", 1e3 * floor, seconds / floor);
    if (bytes.up + bytes.down > 0) std::printf("  %8.2f MB up %8.2f MB down", bytes.up / 1e6, bytes.down / 1e6);
    std::printf("%s\n", verdict);
  }
  std::vector<Stage> all_;
};

// Runs a boundary some times, the first to warm up, and prints the fastest.
template <class Boundary>
void fastest(const std::string& what, const Rates& rates, bool has_goal, const Boundary& boundary) {
  std::optional<Stages> best;
  for (int i = 0; i <= kRepeats; ++i) {
    Stages stages;
    boundary(stages);
    if (i > 0 && (!best || stages.seconds() < best->seconds())) best = stages;
  }
  best->print(what, rates, has_goal);
}

std::vector<float> normals(size_t count, float size) {
  std::mt19937 rng(1);
  std::normal_distribution<float> normal(0.0f, size);
  std::vector<float> some(std::min<size_t>(count, 1 << 20)), values(count);
  for (float& value : some) value = normal(rng);
  for (size_t i = 0; i < count; ++i) values[i] = some[i % some.size()];
  return values;
}

struct Model {
  explicit Model(size_t count) : params(MemorySpace::kCuda, count) {
    copy_from_host(normals(count, 0.1f).data(), params.view());
  }
  FloatMemory params;
};

// A pair's, in passes as an agent makes them: the peer's payloads laid beside the own ones, and the blocks added to and
// encoded.
void pairs(CodecKind kind, size_t count, const Rates& rates) {
  const std::unique_ptr<Codec> codec = make_codec(kind, MemorySpace::kCuda);
  const Model model(count);
  const size_t block = ExchangeConfig{}.block, blocks = (count + block - 1) / block;
  const size_t blocks_a_pass = std::max<size_t>(1, codec->pass_elements() / block);
  std::vector<std::unique_ptr<CodecMemory>> memories(blocks);
  std::vector<std::vector<std::byte>> own(blocks), next(blocks);
  const auto part = [&](size_t b) { return model.params.view().part(b * block, std::min(block, count - b * block)); };
  for (size_t b = 0; b < blocks; ++b) {
    memories[b] = codec->make_memory(part(b).count);
    own[b].resize(codec->payload_bytes_max(part(b).count));
    next[b] = own[b];
    STARLING_CHECK(codec->encode(part(b), {.memory = memories[b].get()}, own[b]).has_value());
  }
  const auto boundary = [&](Stages& stages) {
    for (size_t first = 0; first < blocks; first += blocks_a_pass) {
      const size_t end = std::min(blocks, first + blocks_a_pass);
      std::vector<CodecTerm> terms;
      std::vector<BlockPass> passes;
      Moved moved;
      for (size_t b = first; b < end; ++b) terms.push_back({0.5f, own[b], own[b]});
      for (size_t b = first; b < end; ++b) {
        const EncodeContext context{.memory = memories[b].get()};
        passes.push_back({.x = part(b), .terms = {&terms[b - first], 1}, .context = context, .out = next[b]});
        const auto payload = static_cast<double>(own[b].size()), floats = 4 * static_cast<double>(part(b).count);
        moved.within += 3 * floats + 3 * payload;
        moved.up += 2 * payload;
        moved.down += payload;
      }
      stages.add("lay beside the peer's (host)", [&] {
        for (size_t b = first; b < end; ++b) {
          PairStats stats;
          STARLING_CHECK(codec->pair(own[b], own[b], part(b).count, &stats) == PairStatus::kOk);
        }
        return Moved{};
      });
      stages.add("apply and encode", [&] {
        codec->pass(passes);
        for (const BlockPass& one : passes) STARLING_CHECK(one.size.has_value());
        return moved;
      });
    }
    own.swap(next);
  };
  fastest("a boundary of pairs, " + std::string(codec_name(kind)), rates, kind == CodecKind::kModulo8, boundary);
}

// Of updates, at one of two members: the drift, a payload of each slice, the merge of every second one, all entries.
void updates(const UpdateOptions& options, size_t count, const Rates& rates) {
  const std::unique_ptr<UpdateCodec> codec = make_update_codec(options);
  const std::unique_ptr<SliceMath> math = make_slice_math(MemorySpace::kCuda);
  const OuterRule rule{.momentum = 0.9f, .rate = 0.7f};
  const Model x(count);
  const FloatMemory replica(MemorySpace::kCuda, count), momentum(MemorySpace::kCuda, count),
      accumulator(MemorySpace::kCuda, count);
  const size_t slices = std::min(kUpdateSlicesMax, std::max<size_t>(1, count / kSliceElementsMin));
  fastest("a boundary of updates, " + std::string(update_name(options.kind)), rates, false, [&](Stages& stages) {
    for (size_t s = 0; s < slices; ++s) {
      const size_t begin = count / slices * s, size = s + 1 == slices ? count - begin : count / slices;
      const auto of = [&](const FloatMemory& memory) { return memory.all().subspan(begin, size); };
      const double floats = 4 * static_cast<double>(size);
      std::vector<std::byte> payload(codec->bytes_max(UpdateRole::kContribution, size));
      std::vector<std::byte> entry(codec->bytes_max(UpdateRole::kEntry, size));
      stages.add("drift", [&] {
        STARLING_CHECK(math->all_finite(of(x.params)));
        math->add_change(1e-3f, of(replica), of(x.params), of(accumulator));
        return Moved{.within = 4 * floats};
      });
      stages.add("encode", [&] {
        const auto chosen = math->choose(*codec, of(accumulator), {});
        payload.resize(*math->encode_chosen(*codec, of(accumulator), {}, *chosen, payload));
        return Moved{.within = floats, .down = static_cast<double>(payload.size())};
      });
      stages.add("merge, of every second slice", [&] {
        if (s % 2 == 1) {
          entry = payload;
          return Moved{};
        }
        const UpdateTerm term{codec.get(), 0.5f, payload};
        entry.resize(*math->encode_sum(*codec, std::vector{term, term}, size, {}, entry));
        const auto up = 2 * static_cast<double>(payload.size()), down = static_cast<double>(entry.size());
        return Moved{.within = floats, .up = up, .down = down};
      });
      stages.add("take the entry", [&] {
        math->take_entry(rule, *codec, 1, entry, of(replica), of(momentum));
        math->add_payload(*codec, -0.5f, payload, {}, of(accumulator));
        math->copy(of(replica), of(x.params));
        return Moved{.within = 6 * floats, .up = static_cast<double>(entry.size() + payload.size())};
      });
    }
  });
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<size_t> sizes;
  bool numbers = true;
  for (int i = 1; i < argc; ++i) {
    char* end = nullptr;
    sizes.push_back(std::strtoull(argv[i], &end, 10));
    numbers = numbers && *end == '\0' && sizes.back() > 0;
  }
  if (sizes.empty()) sizes = {10'000'000, 100'000'000, 500'000'000};
  if (!numbers) {
    std::fprintf(stderr, "usage: bench_device [ELEMENTS...]\n");
    return 2;
  }
  if (const std::string missing = cuda::why_no_device(); !missing.empty()) {
    std::fprintf(stderr, "bench_device: %s\n", missing.c_str());
    return 2;
  }
  const Rates rates(std::min(kCopyElements, *std::max_element(sizes.begin(), sizes.end())));
  std::printf("copies: %.1f GB/s within the device (read + written), %.1f up, %.1f down\n", rates.within / 1e9,
              rates.up / 1e9, rates.down / 1e9);
  for (const size_t count : sizes) {
    std::printf("%zu elements\n", count);
    for (const CodecKind kind : {CodecKind::kModulo8, CodecKind::kBf16}) pairs(kind, count, rates);
    for (const UpdateKind kind : {UpdateKind::kBf16, UpdateKind::kInt8, UpdateKind::kTopkInt8}) {
      updates({.kind = kind}, count, rates);
    }
  }
  return 0;
}
