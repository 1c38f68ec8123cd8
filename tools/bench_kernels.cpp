// Each loop of kernels/ on one core, in GB/s of the bytes it must move while its thread runs, and as a share of the
// ceiling measured in the same run: a plain read for loops that only read, memcpy for loops that also write.
//   bench_kernels [--target avx2] [ELEMENTS [REPEATS]]
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compression/update_codec.h"
#include "compression/update_values.h"
#include "kernels/cast.h"
#include "kernels/count_sketch.h"
#include "kernels/dense.h"
#include "kernels/levels.h"
#include "kernels/modulo.h"
#include "kernels/outer.h"
#include "kernels/pair.h"
#include "kernels/rice.h"
#include "kernels/sparse.h"
#include "kernels/top_k.h"
#include "kernels/vector_ops.h"
#include "tools/bench_clock.h"

namespace {

using starling::best_seconds;
using starling::keep;

struct Bench {
  size_t count;
  int repeats;
  double share = 1;  // of the goals: a third without AVX-512
  std::vector<float> x, y;
  std::vector<std::byte> own, peer;
  double read_rate = 0, copy_rate = 0;

  Bench(size_t element_count, int repeat_count, bool avx2)
      : count(element_count),
        repeats(repeat_count),
        share(avx2 ? 1.0 / 3 : 1),
        x(count),
        y(count),
        own(4 * count),
        peer(4 * count) {
    std::mt19937 rng(1);
    std::normal_distribution<float> normal(0.0f, 1.0f);
    for (float& value : x) value = normal(rng);
    for (size_t i = 0; i < count; ++i) y[i] = x[i] + 0.01f * x[count - 1 - i];
  }

  // One thing beside another, in turn. `times`: the goal with AVX-512.
  template <class Ours, class Theirs>
  void beside(const char* name, const char* other, double times, const Ours& ours, const Theirs& theirs) const {
    const double goal = share * times;
    starling::Beside found;
    for (int i = 0; i < repeats; ++i) found.run(ours, theirs);
    std::printf("%-22s %8.2f ms, %s %8.2f ms: %.1fx (goal %.2gx)  %s\n", name, 1e3 * found.ours, other,
                1e3 * found.theirs, found.ratio(), goal, starling::met(found.ratio() >= goal));
  }

  template <class Body>
  void row(const char* name, double bytes_per_element, double ceiling, const Body& body) const {
    body();
    const double seconds = best_seconds(repeats, body);
    const double rate = bytes_per_element * static_cast<double>(count) / seconds / 1e9;
    std::printf("%-22s %6.1f B/elem %8.2f ms %8.1f GB/s %7.2f of the ceiling\n", name, bytes_per_element, 1e3 * seconds,
                rate, rate / ceiling);
  }

  void ceilings() {
    const double bytes = 4.0 * static_cast<double>(count);
    read_rate = bytes / starling::read_seconds(std::vector<float>(count), 2 * repeats) / 1e9;
    copy_rate = 2 * bytes /
                best_seconds(2 * repeats,
                             [&] {
                               std::memcpy(own.data(), x.data(), 4 * count);
                               keep(own[0]);
                             }) /
                1e9;
    std::printf("ceilings: read %.1f GB/s, memcpy %.1f GB/s (read + written), one core, %zu elements\n", read_rate,
                copy_rate, count);
  }

  void vector_ops() {
    using namespace starling;
    row("axpy", 12, copy_rate, [&] { axpy(1e-6f, x.data(), y.data(), count); });
    row("squared_norm", 4, read_rate, [&] { keep(squared_norm(x.data(), count)); });
    row("squared_distance", 8, read_rate, [&] { keep(squared_distance(x.data(), y.data(), count)); });
    row("count_nonfinite", 4, read_rate, [&] { keep(count_nonfinite(x.data(), count)); });
    row("max_abs", 4, read_rate, [&] { keep(max_abs(x.data(), count)); });
  }

  void dense() {
    using namespace starling;
    row("fp32 encode", 8, copy_rate, [&] { keep(f32_to_bytes(x.data(), count, own.data())); });
    keep(f32_to_bytes(y.data(), count, peer.data()));
    row("fp32 check", 4, read_rate, [&] { keep(all_finite_f32(peer.data(), count)); });
    row("fp32 pair", 8, read_rate, [&] { keep(pair_sums_f32(own.data(), peer.data(), count)); });
    row("fp32 apply", 16, copy_rate, [&] { pair_apply_f32(1e-6f, own.data(), peer.data(), count, x.data()); });
    row("bf16 encode", 6, copy_rate, [&] { keep(f32_to_bf16(x.data(), count, own.data())); });
    keep(f32_to_bf16(y.data(), count, peer.data()));
    row("bf16 check", 2, read_rate, [&] { keep(all_finite_bf16(peer.data(), count)); });
    row("bf16 pair", 4, read_rate, [&] { keep(pair_sums_bf16(own.data(), peer.data(), count)); });
    row("bf16 apply", 12, copy_rate, [&] { pair_apply_bf16(1e-6f, own.data(), peer.data(), count, x.data()); });
    row("fp16 encode", 6, copy_rate, [&] { keep(f32_to_fp16(x.data(), count, own.data())); });
    keep(f32_to_fp16(y.data(), count, peer.data()));
    row("fp16 check", 2, read_rate, [&] { keep(all_finite_fp16(peer.data(), count)); });
    row("fp16 pair", 4, read_rate, [&] { keep(pair_sums_fp16(own.data(), peer.data(), count)); });
    row("fp16 apply", 12, copy_rate, [&] { pair_apply_fp16(1e-6f, own.data(), peer.data(), count, x.data()); });
  }

  void modulo() {
    using namespace starling;
    row("modulo8 encode", 5, copy_rate, [&] { keep(modulo_encode<8>(x.data(), count, -10, own.data())); });
    keep(modulo_encode<8>(y.data(), count, -10, peer.data()));
    row("modulo8 pair", 2, read_rate, [&] { keep(modulo_pair<8>(own.data(), 0, peer.data(), 1, count)); });
    const auto apply = [&](auto loop) { loop(1e-6f, own.data(), 0, peer.data(), 1, count, x.data()); };
    row("modulo8 apply", 10, copy_rate, [&] { apply(modulo_apply<8>); });
    row("modulo4 encode", 4.5, copy_rate, [&] { keep(modulo_encode<4>(x.data(), count, -6, own.data())); });
    keep(modulo_encode<4>(y.data(), count, -6, peer.data()));
    row("modulo4 pair", 1, read_rate, [&] { keep(modulo_pair<4>(own.data(), 0, peer.data(), 1, count)); });
    row("modulo4 apply", 9, copy_rate, [&] { apply(modulo_apply<4>); });
  }

  // A block at a time, as the update codecs call these loops: the scale of a block, then its codes.
  void levels() {
    using namespace starling;
    struct Row {
      const char* name;
      LevelCodes codes;
      size_t block;
    };
    for (const Row& format : {Row{"int8", {8, 127}, 512}, Row{"int4", {4, 7}, 128}, Row{"ternary", {2, 1}, 512},
                              Row{"sign", {1, 1}, 512}}) {
      const LevelCodes& codes = format.codes;
      const size_t blocks = count / format.block, bytes = codes.bytes(format.block);
      const double each = codes.bits / 8.0;
      std::vector<float> scales(blocks, 1.0f);
      const auto name = [&](const char* what) { return std::string(format.name) + " " + what; };
      row(name("encode").c_str(), 4 + each, copy_rate, [&] {
        for (size_t b = 0; b < blocks; ++b) {
          const float* const from = x.data() + b * format.block;
          const double size = codes.bits > 2    ? static_cast<double>(max_abs(from, format.block)) / codes.levels
                              : codes.bits == 2 ? 2.5 * std::sqrt(squared_norm(from, format.block) / 512)
                                                : sum_abs(from, format.block) / 512;
          scales[b] = static_cast<float>(size);
          levels_encode(codes, from, format.block, 1 / scales[b], 1, b * format.block, own.data() + b * bytes);
        }
      });
      if (codes.bits > 1) {  // of whole groups of signs all are valid, and none is read
        row(name("check").c_str(), each, read_rate,
            [&] { keep(levels_valid(codes, own.data(), blocks * format.block)); });
      }
      row(name("merge").c_str(), 8 + each, copy_rate, [&] {
        for (size_t b = 0; b < blocks; ++b) {
          levels_axpy(codes, 1e-6f, own.data() + b * bytes, format.block, scales[b], y.data() + b * format.block);
        }
      });
      merges(format.name, format.codes, format.block, scales);
    }
  }

  // What moving bytes alone allows, if memory is the limit: a merge reads the codes and writes the sum, whose lines are
  // fetched; decode and add write the values of each payload, for which their lines are fetched, read them again, and
  // read and write the sum. `each`: bytes of an element in a payload.
  static void merge_ceiling(const std::string& name, int payloads, double each) {
    std::printf("%-22s %.1fx if moving bytes is all that takes time\n", name.c_str(),
                payloads * (20 + each) / (8 + payloads * each));
  }

  // An owner's sum of two and of four payloads, straight from their bytes, beside decoding each into a vector that is
  // then added. A roster of two or more merges no fewer than two. And sum += payload, of one.
  void merges(const char* format, const starling::LevelCodes& codes, size_t block, const std::vector<float>& scales) {
    using namespace starling;
    const size_t bytes = codes.bytes(block), blocks = count / block, all = blocks * block;
    const double each = codes.bits / 8.0;
    std::vector<float> decoded(count);
    std::vector<LevelTerm> terms;  // of payloads in memory of their own, as they came
    for (size_t t = 0; t < 4; ++t) {
      std::byte* const to = own.data() + t * blocks * bytes;
      if (t > 0) std::memcpy(to, own.data(), blocks * bytes);
      terms.push_back({1e-6f, std::as_bytes(std::span(scales)).data(), to});
    }
    const auto decode_and_add = [&](const LevelTerm& term) {
      for (size_t b = 0; b < blocks; ++b) {
        levels_decode(codes, term.codes + b * bytes, block, scales[b], decoded.data() + b * block);
      }
      axpy(term.weight, decoded.data(), y.data(), all);
    };
    const auto straight = [&] {
      for (size_t b = 0; b < blocks; ++b) {
        levels_axpy(codes, 1e-6f, own.data() + b * bytes, block, scales[b], y.data() + b * block);
      }
    };
    const std::string name(format);
    merge_ceiling(name + " sum += one", 1, each);
    beside((name + " sum += one").c_str(), "decode, add", 3, straight, [&] { decode_and_add(terms[0]); });
    for (const size_t payloads : {2, 4}) {
      const std::span<const LevelTerm> some = std::span(terms).first(payloads);
      const std::string row = name + " merge of " + std::to_string(payloads);
      merge_ceiling(row, static_cast<int>(payloads), each);
      beside(
          row.c_str(), "decode, add", 3, [&] { levels_merge(codes, block, some, y.data(), all); },
          [&] {
            for (const LevelTerm& term : some) decode_and_add(term);
          });
    }
  }

  void dense_merges() {
    using namespace starling;
    std::vector<float> decoded(count);
    for (const UpdateKind kind : {UpdateKind::kFp32, UpdateKind::kBf16}) {
      const auto codec = make_update_codec({.kind = kind});
      const size_t bytes = codec->bytes_max(UpdateRole::kContribution, count);
      std::vector<std::byte> payloads(4 * bytes);
      std::vector<UpdateTerm> terms;
      for (size_t t = 0; t < 4; ++t) {
        const std::span<std::byte> to = std::span(payloads).subspan(t * bytes, bytes);
        keep(codec->encode(UpdateRole::kContribution, x, {}, to));
        terms.push_back({codec.get(), 1e-6f, to});
      }
      const auto ceiling = [&](const std::string& row, size_t many) {
        merge_ceiling(row, static_cast<int>(many), static_cast<double>(bytes) / static_cast<double>(count));
      };
      const auto decode_and_add = [&](std::span<const UpdateTerm> some) {
        for (const UpdateTerm& term : some) {
          codec->decode(term.payload, decoded);
          axpy(term.weight, decoded.data(), y.data(), count);
        }
      };
      const std::string name(update_name(kind)), one = name + " sum += one";
      ceiling(one, 1);
      beside(
          one.c_str(), "decode, add", 3,
          [&] { dense_axpy({1e-6f, payloads.data(), kind == UpdateKind::kBf16}, y.data(), count); },
          [&] { decode_and_add(std::span(terms).first(1)); });
      for (const size_t many : {2, 4}) {
        const std::span<const UpdateTerm> some = std::span(terms).first(many);
        const std::string row = name + " merge of " + std::to_string(many);
        ceiling(row, many);
        beside(row.c_str(), "decode, add", 3, [&] { codec->merge(some, y); }, [&] { decode_and_add(some); });
      }
    }
  }

  // The same of 1 % of the elements, and of sketches' tables of int8 cells.
  void other_merges() {
    using namespace starling;
    std::vector<uint32_t> indices;
    for (size_t i = 37; i < count; i += 100) indices.push_back(static_cast<uint32_t>(i));
    const auto* const bytes = reinterpret_cast<const std::byte*>(indices.data());
    std::vector<float> decoded(count);
    beside(
        "topk 1 % merge", "decode, add", 3, [&] { scatter_axpy(1e-6f, bytes, x.data(), indices.size(), y.data()); },
        [&] {
          std::fill(decoded.begin(), decoded.end(), 0.0f);
          scatter(bytes, x.data(), indices.size(), 0, decoded.data());
          axpy(1e-6f, decoded.data(), y.data(), count);
        });
    const size_t cells = count / 5, table = Int8Values::bytes(cells);
    std::vector<LevelTerm> terms;
    for (size_t t = 0; t < 4; ++t) {
      std::byte* const to = own.data() + t * table;
      keep(Int8Values::write(to, cells, 0, x.data(), cells, t));
      terms.push_back(Int8Values::term(1e-6f, to, cells));
    }
    for (const size_t tables : {2, 4}) {
      const std::span<const LevelTerm> some = std::span(terms).first(tables);
      merge_ceiling("merge of " + std::to_string(tables) + " tables", static_cast<int>(tables), 1);
      beside(("merge of " + std::to_string(tables) + " tables").c_str(), "decode, add", 3,
             [&] { levels_merge(Int8Values::kCodes, Int8Values::kBlock, some, y.data(), cells); },
             [&] {
               for (const LevelTerm& term : some) {
                 Int8Values::read(term.scales, cells, 0, cells, decoded.data());
                 axpy(1e-6f, decoded.data(), y.data(), cells);
               }
             });
    }
  }

  // 1 % of the elements at random, against the loop that reads bit by bit. Per index, not per element.
  void rice() {
    using namespace starling;
    std::vector<uint32_t> indices;
    std::mt19937 rng(2);
    std::geometric_distribution<uint32_t> gap(0.01);
    for (uint64_t i = gap(rng); i < count; i += 1 + gap(rng)) indices.push_back(static_cast<uint32_t>(i));
    const size_t chosen = indices.size();
    const unsigned bits = rice_bits(chosen, count);
    std::vector<std::byte> coded(rice_bytes_max(chosen, count, bits));
    size_t unary = 0;
    std::vector<uint32_t> read(chosen);
    const double seconds =
        best_seconds(repeats, [&] { unary = rice_encode(indices.data(), chosen, bits, coded.data()); });
    std::printf("%-22s %6.2f ns an index, %.2f bits\n", "rice encode 1 %", 1e9 * seconds / static_cast<double>(chosen),
                8.0 * static_cast<double>(rice_low_bytes(chosen, bits) + unary) / static_cast<double>(chosen));
    const std::byte* const ones = coded.data() + rice_low_bytes(chosen, bits);
    const auto bit_of = [](const std::byte* stream, size_t i) {
      return std::to_integer<uint32_t>(stream[i / 8]) >> i % 8 & 1;
    };
    const auto plain = [&] {
      size_t low = 0, at = 0;
      uint32_t next = 0;
      for (size_t j = 0; j < chosen; ++j) {
        uint32_t rest = 0, value = 0;
        while (bit_of(ones, at++) == 0) ++rest;
        for (unsigned b = 0; b < bits; ++b) value |= bit_of(coded.data(), low++) << b;
        read[j] = next + (rest << bits | value);
        next = read[j] + 1;
      }
      keep(read[0]);
    };
    beside(
        "rice decode 1 %", "bit by bit", 4,
        [&] { keep(rice_decode(coded.data(), unary, chosen, bits, count, read.data())); }, plain);
  }

  // A table of a 20th of the elements; bench_torch has the same beside LibTorch.
  void sketch() {
    using namespace starling;
    const SketchShape shape{5, static_cast<uint32_t>(std::max(count / 100, kSketchBlock)), 1};
    std::vector<float> table(shape.cells());
    row("sketch add, 5 rows", 4, read_rate, [&] { sketch_add(shape, x.data(), count, table.data()); });
    row("sketch estimate", 4, copy_rate, [&] { sketch_estimate(shape, table.data(), 0, count, y.data()); });
  }

  // The last is how torch.topk selects on a CPU: nth_element over pairs of value and index.
  void updates() {
    using namespace starling;
    std::vector<uint32_t> indices(count);
    TopKScratch scratch;
    const size_t percent = (count + 99) / 100, permille = (count + 999) / 1000;
    row("top_k 1 %", 4, read_rate, [&] { keep(top_k(x.data(), count, percent, &scratch, indices.data())); });
    row("top_k 0.1 %", 4, read_rate, [&] { keep(top_k(x.data(), count, permille, &scratch, indices.data())); });
    std::vector<std::pair<float, int64_t>> pairs(count);
    row("pairs nth_element 1 %", 4, read_rate, [&] {
      for (size_t i = 0; i < count; ++i) pairs[i] = {std::fabs(x[i]), static_cast<int64_t>(i)};
      std::nth_element(pairs.begin(), pairs.begin() + static_cast<ptrdiff_t>(percent) - 1, pairs.end(),
                       [](const auto& a, const auto& b) { return a.first > b.first; });
      keep(pairs[0]);
    });
    std::vector<float> m(count);
    const NesterovStep step{.factor = 1, .momentum = 0.9f, .rate = 1e-6f};
    row("axpy_is_finite", 8, read_rate, [&] { keep(axpy_is_finite(1e-6f, x.data(), y.data(), count)); });
    row("nesterov_is_finite", 12, read_rate,
        [&] { keep(nesterov_is_finite(step, x.data(), m.data(), y.data(), count)); });
    row("nesterov", 20, copy_rate, [&] { nesterov(step, x.data(), m.data(), y.data(), count); });
  }
};

}  // namespace

int main(int argc, char** argv) {
  const bool avx2 = argc > 2 && std::string(argv[1]) == "--target";
  const bool good = starling::take_target(&argc, argv);
  const long long count = argc > 1 ? std::atoll(argv[1]) : 25'000'000;
  const int repeats = argc > 2 ? std::atoi(argv[2]) : 7;
  if (!good || argc > 3 || count < 16 || repeats < 1) {
    std::fprintf(stderr, "usage: bench_kernels [--target avx2] [ELEMENTS (at least 16) [REPEATS]]\n");
    return 2;
  }
  Bench bench(static_cast<size_t>(count), repeats, avx2);
  bench.ceilings();
  bench.vector_ops();
  bench.dense();
  bench.modulo();
  bench.updates();
  bench.sketch();
  bench.levels();
  bench.dense_merges();
  bench.other_merges();
  bench.rice();
  return 0;
}
