#include "compression/slice_math_cuda.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "compression/update_levels.h"
#include "compression/update_sparse.h"
#include "kernels/check.h"
#include "kernels/cuda/cast.h"
#include "kernels/cuda/dense.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/levels.h"
#include "kernels/cuda/outer.h"
#include "kernels/cuda/pair.h"
#include "kernels/cuda/sparse.h"
#include "kernels/cuda/top_k.h"
#include "kernels/cuda/vector_ops.h"
#include "kernels/device_failure.h"

namespace starling {
namespace {

constexpr size_t kPieceBytes = size_t{4} << 20;  // copied at a time, by way of pinned memory

bool is_topk(UpdateKind kind) {
  return kind == UpdateKind::kTopk || kind == UpdateKind::kTopkBf16 || kind == UpdateKind::kTopkInt8;
}

const LevelUpdate& levels_of(const UpdateCodec& codec) { return dynamic_cast<const LevelUpdate&>(codec); }
const SparseCodec& sparse_of(const UpdateCodec& codec) { return dynamic_cast<const SparseCodec&>(codec); }

BlockedLevels blocked(const LevelUpdate::Parts& parts) { return {parts.format.codes, parts.block}; }

// Elements of a payload and their values, as they lie on the device.
struct Elements {
  const std::byte* indices;
  const float* values;
  size_t count;
};

class CudaSliceMath final : public SliceMath {
 public:
  CudaSliceMath() : device_(cuda::current_device()) {}

  MemorySpace space() const override { return MemorySpace::kCuda; }

  bool takes(const UpdateCodec& codec) const override {
    switch (codec.kind()) {
      case UpdateKind::kFp32:
      case UpdateKind::kBf16:
      case UpdateKind::kTopk:
      case UpdateKind::kTopkBf16:
      case UpdateKind::kTopkInt8:
      case UpdateKind::kInt8:
      case UpdateKind::kInt4: return true;
      default: return false;
    }
  }

  void copy(std::span<const float> from, std::span<float> to) const override {
    STARLING_CHECK(from.size() == to.size());
    const cuda::CurrentDevice here(device_);
    cuda::copy_async(to.data(), from.data(), from.size_bytes(), stream());
    wait();
  }

  void clear(std::span<float> x) const override {
    const cuda::CurrentDevice here(device_);
    cuda::zero_async(x.data(), x.size_bytes(), stream());
    wait();
  }

  void add(std::span<const float> x, std::span<float> y) const override {
    const cuda::CurrentDevice here(device_);
    axpy_cuda(1, x.data(), y.data(), y.size(), stream());
    wait();
  }

  void add_change(float scale, std::span<const float> from, std::span<const float> to,
                  std::span<float> y) const override {
    const cuda::CurrentDevice here(device_);
    const std::byte* const begin = std::as_bytes(from).data();
    pair_apply_f32_cuda(scale, begin, std::as_bytes(to).data(), y.size(), y.data(), stream());
    wait();
  }

  void add_change_from_host(std::span<const float> from, std::span<const float> to, std::span<float> y) const override {
    const cuda::CurrentDevice here(device_);
    const std::byte* const begin = upload(std::as_bytes(from));
    pair_apply_f32_cuda(1, begin, std::as_bytes(to).data(), y.size(), y.data(), stream());
    wait();
  }

  bool all_finite(std::span<const float> x) const override { return std::isfinite(max_abs(x)); }

  float max_abs(std::span<const float> x) const override {
    const cuda::CurrentDevice here(device_);
    return largest([&](uint32_t* bits) { max_abs_bits_cuda(x.data(), x.size(), bits, stream()); });
  }

  double squared_norm(std::span<const float> x) const override {
    const cuda::CurrentDevice here(device_);
    auto* const doubles = reinterpret_cast<double*>(result_.reserve((kSumScratchDoubles + 1) * sizeof(double)));
    squared_norm_cuda(x.data(), x.size(), doubles + 1, doubles, stream());
    double sum = 0;
    fetch(doubles, &sum, sizeof sum);
    return sum;
  }

  std::optional<UpdateSupport> choose(const UpdateCodec& codec, std::span<const float> x,
                                      const UpdateSeeds&) const override {
    const cuda::CurrentDevice here(device_);
    return choose_in(UpdateRole::kContribution, codec, x);
  }

  std::optional<size_t> encode_chosen(const UpdateCodec& codec, std::span<const float> x, const UpdateSeeds& seeds,
                                      const UpdateSupport& chosen, MutableBytes out) const override {
    const cuda::CurrentDevice here(device_);
    return encode_in(UpdateRole::kContribution, codec, x, seeds, chosen, out);
  }

  std::optional<size_t> encode_sum(const UpdateCodec& codec, std::span<const UpdateTerm> terms, size_t element_count,
                                   const UpdateSeeds& seeds, MutableBytes out) const override {
    const cuda::CurrentDevice here(device_);
    const std::span sum(reinterpret_cast<float*>(sum_.reserve(element_count * sizeof(float))), element_count);
    cuda::zero_async(sum.data(), sum.size_bytes(), stream());
    for (const UpdateTerm& term : terms) {
      add_on_device(*term.codec, term.weight, term.payload, {}, sum);
      wait();
    }
    const auto chosen = choose_in(UpdateRole::kEntry, codec, sum);
    return chosen ? encode_in(UpdateRole::kEntry, codec, sum, seeds, *chosen, out) : std::nullopt;
  }

  void add_payload(const UpdateCodec& codec, float coefficient, Bytes payload, const UpdateSupport& on,
                   std::span<float> target) const override {
    const cuda::CurrentDevice here(device_);
    add_on_device(codec, coefficient, payload, on, target);
    wait();
  }

  void decode(const UpdateCodec& codec, Bytes payload, std::span<float> out) const override {
    const cuda::CurrentDevice here(device_);
    decode_to(codec, payload, out.data(), out.size());
    wait();
  }

  bool entry_fits(const OuterRule& rule, const UpdateCodec& codec, float factor, Bytes entry,
                  std::span<const float> params, std::span<const float> momentum) const override {
    const cuda::CurrentDevice here(device_);
    const float* const v = decoded(codec, entry, params.size());
    const NesterovStep step{.factor = factor, .momentum = rule.momentum, .rate = rule.rate};
    return std::isfinite(largest([&](uint32_t* bits) {
      if (!rule.has_momentum()) {
        return axpy_is_finite_cuda(rule.rate * factor, v, params.data(), params.size(), bits, stream());
      }
      nesterov_is_finite_cuda(step, v, momentum.data(), params.data(), params.size(), bits, stream());
    }));
  }

  void take_entry(const OuterRule& rule, const UpdateCodec& codec, float factor, Bytes entry, std::span<float> params,
                  std::span<float> momentum) const override {
    if (!rule.has_momentum()) return add_payload(codec, rule.rate * factor, entry, {}, params);
    const cuda::CurrentDevice here(device_);
    const NesterovStep step{.factor = factor, .momentum = rule.momentum, .rate = rule.rate};
    nesterov_cuda(step, decoded(codec, entry, params.size()), momentum.data(), params.data(), params.size(), stream());
    wait();
  }

 private:
  void* stream() const { return stream_.handle(); }
  void wait() const { stream_.wait(); }

  static bool is_zeros(const UpdateCodec& codec, Bytes payload) {  // of the dense codecs
    return !is_topk(codec.kind()) && payload.size() == 1;
  }

  std::optional<UpdateSupport> choose_in(UpdateRole role, const UpdateCodec& codec, std::span<const float> x) const {
    if (!is_topk(codec.kind())) return UpdateSupport{};
    const size_t k = std::min(sparse_of(codec).elements_max(role, x.size()), x.size());
    auto* const scratch = values_.reserve(top_k_scratch_bytes(x.size()));
    auto* const found = reinterpret_cast<uint32_t*>(result_.reserve(sizeof(uint32_t)));
    auto* const indices = reinterpret_cast<uint32_t*>(payload_.reserve(k * sizeof(uint32_t)));
    top_k_cuda(x.data(), x.size(), k, scratch, indices, found, stream());
    uint32_t count = 0;
    fetch(found, &count, sizeof count);
    if (count == kTopKNotFinite) return std::nullopt;
    UpdateSupport chosen{.everywhere = false, .indices = std::vector<uint32_t>(count)};
    fetch(indices, chosen.indices.data(), count * sizeof(uint32_t));
    return chosen;
  }

  std::optional<size_t> encode_in(UpdateRole role, const UpdateCodec& codec, std::span<const float> x,
                                  const UpdateSeeds& seeds, const UpdateSupport& chosen, MutableBytes out) const {
    if (is_topk(codec.kind())) return encode_elements(role, sparse_of(codec), x, seeds, chosen.indices, out);
    if (codec.kind() == UpdateKind::kFp32 || codec.kind() == UpdateKind::kBf16) return encode_dense(codec, x, out);
    return encode_levels(role, levels_of(codec), x, seeds, out);
  }

  void add_on_device(const UpdateCodec& codec, float coefficient, Bytes payload, const UpdateSupport& on,
                     std::span<float> target) const {
    if (is_zeros(codec, payload)) return;
    if (is_topk(codec.kind()) || !on.everywhere) {
      const Elements held = elements(codec, payload, on, target.size());
      scatter_axpy_cuda(coefficient, held.indices, held.values, held.count, target.data(), stream());
    } else if (codec.kind() == UpdateKind::kFp32 || codec.kind() == UpdateKind::kBf16) {
      dense_axpy_cuda({coefficient, upload(payload), codec.kind() == UpdateKind::kBf16}, target.data(), target.size(),
                      stream());
    } else {
      const LevelUpdate::Parts parts = levels_of(codec).parts_of(payload);
      STARLING_CHECK(parts.count == target.size());
      const std::byte* const device = upload(payload);
      levels_axpy_cuda(blocked(parts), coefficient, device + (parts.codes - payload.data()), target.size(),
                       scales_at(parts, payload, device), target.data(), stream());
    }
  }

  // The values of the payload, wherever it holds none zero.
  const float* decoded(const UpdateCodec& codec, Bytes payload, size_t count) const {
    auto* const values = reinterpret_cast<float*>(values_.reserve(count * sizeof(float)));
    decode_to(codec, payload, values, count);
    return values;
  }

  void decode_to(const UpdateCodec& codec, Bytes payload, float* out, size_t count) const {
    if (is_topk(codec.kind()) || is_zeros(codec, payload)) cuda::zero_async(out, count * sizeof(float), stream());
    if (is_zeros(codec, payload)) return;
    if (is_topk(codec.kind())) {
      const Elements held = elements(codec, payload, {}, count);
      scatter_cuda(held.indices, held.values, held.count, 0, out, stream());
    } else if (codec.kind() == UpdateKind::kFp32) {
      STARLING_CHECK(payload.size() == count * sizeof(float));
      to_device(payload, reinterpret_cast<std::byte*>(out));
    } else if (codec.kind() == UpdateKind::kBf16) {
      bf16_to_f32_cuda(upload(payload), count, out, stream());
    } else {
      const LevelUpdate::Parts parts = levels_of(codec).parts_of(payload);
      STARLING_CHECK(parts.count == count);
      const std::byte* const device = upload(payload);
      levels_decode_cuda(blocked(parts), device + (parts.codes - payload.data()), count,
                         scales_at(parts, payload, device), out, stream());
    }
  }

  static const float* scales_at(const LevelUpdate::Parts& parts, Bytes payload, const std::byte* device) {
    return reinterpret_cast<const float*>(device + (parts.scales - payload.data()));
  }

  // Those that are both in the payload and in `on`.
  Elements elements(const UpdateCodec& codec, Bytes payload, const UpdateSupport& on, size_t element_count) const {
    std::vector<uint32_t> indices;
    std::vector<float> values;
    if (is_topk(codec.kind())) {
      const SparseParts parts(payload);
      indices = parts.support().indices;
      values.resize(indices.size());
      sparse_of(codec).read_values(parts, values);
      if (!on.everywhere) keep_only(on.indices, indices, values);
    } else {
      indices = on.indices;
      values.resize(indices.size());
      for (size_t i = 0; i < indices.size(); ++i) {
        STARLING_CHECK(indices[i] < element_count);
        codec.decode_part(payload, {}, indices[i], std::span(values).subspan(i, 1));
      }
    }
    STARLING_CHECK(indices.empty() || indices.back() < element_count);
    const size_t bytes = indices.size() * sizeof(uint32_t);
    std::byte* const device = payload_.reserve(2 * bytes);
    to_device(std::as_bytes(std::span(indices)), device);
    to_device(std::as_bytes(std::span(values)), device + bytes);
    return {device, reinterpret_cast<const float*>(device + bytes), indices.size()};
  }

  // Both ascend.
  static void keep_only(const std::vector<uint32_t>& on, std::vector<uint32_t>& indices, std::vector<float>& values) {
    size_t kept = 0;
    auto next = on.begin();
    for (size_t i = 0; i < indices.size(); ++i) {
      next = std::lower_bound(next, on.end(), indices[i]);
      if (next == on.end()) break;
      if (*next != indices[i]) continue;
      indices[kept] = indices[i];
      values[kept++] = values[i];
    }
    indices.resize(kept);
    values.resize(kept);
  }

  std::optional<size_t> encode_elements(UpdateRole role, const SparseCodec& codec, std::span<const float> x,
                                        const UpdateSeeds& seeds, std::span<const uint32_t> indices,
                                        MutableBytes out) const {
    const size_t bytes = indices.size_bytes();
    std::byte* const device = payload_.reserve(2 * bytes);
    to_device(std::as_bytes(indices), device);
    auto* const gathered = reinterpret_cast<float*>(device + bytes);
    gather_cuda(x.data(), device, indices.size(), gathered, stream());
    std::vector<float> values(indices.size());
    fetch(gathered, values.data(), bytes);
    return codec.write(role, x.size(), indices, values, seeds, out);
  }

  std::optional<size_t> encode_dense(const UpdateCodec& codec, std::span<const float> x, MutableBytes out) const {
    STARLING_CHECK(out.size() == codec.bytes_max(UpdateRole::kContribution, x.size()));
    const bool is_bf16 = codec.kind() == UpdateKind::kBf16;
    std::byte* const bf16 = is_bf16 ? payload_.reserve(out.size()) : nullptr;
    const float far = largest([&](uint32_t* bits) {
      if (is_bf16) return f32_to_bf16_cuda(x.data(), x.size(), bf16, bits, stream());
      max_abs_bits_cuda(x.data(), x.size(), bits, stream());
    });
    if (!std::isfinite(far)) return std::nullopt;
    if (far == 0 && !x.empty()) {
      out[0] = std::byte{0};
      return 1;
    }
    fetch(is_bf16 ? static_cast<const void*>(bf16) : x.data(), out.data(), out.size());
    return out.size();
  }

  std::optional<size_t> encode_levels(UpdateRole role, const LevelUpdate& codec, std::span<const float> x,
                                      const UpdateSeeds& seeds, MutableBytes out) const {
    const LevelUpdate::Parts parts = codec.begin_payload(role, x.size(), out);
    auto* const largest = reinterpret_cast<uint32_t*>(values_.reserve(parts.blocks * sizeof(uint32_t)));
    block_max_abs_cuda(x.data(), x.size(), parts.block, largest, stream());
    std::vector<uint32_t> found(parts.blocks);
    fetch(largest, found.data(), parts.blocks * sizeof(uint32_t));
    std::byte* const scales = out.data() + (parts.scales - out.data());
    for (size_t b = 0; b < parts.blocks; ++b) {
      const std::optional<float> scale =
          level_scale(parts.format.codes, static_cast<double>(std::bit_cast<float>(found[b])));
      if (!scale) return std::nullopt;
      std::memcpy(scales + b * sizeof(float), &*scale, sizeof(float));
    }
    std::byte* const device = payload_.reserve(out.size());
    to_device(out.first(static_cast<size_t>(parts.codes - out.data())), device);
    std::byte* const codes = device + (parts.codes - out.data());
    levels_encode_cuda(blocked(parts), x.data(), x.size(), scales_at(parts, out, device), seeds.own, codes, stream());
    fetch(codes, out.data() + (parts.codes - out.data()), static_cast<size_t>(out.data() + out.size() - parts.codes));
    return out.size();
  }

  // The largest magnitude that `find` raises its argument to.
  template <class Find>
  float largest(const Find& find) const {
    auto* const bits = reinterpret_cast<uint32_t*>(result_.reserve(sizeof(uint32_t)));
    cuda::zero_async(bits, sizeof *bits, stream());
    find(bits);
    uint32_t found = 0;
    fetch(bits, &found, sizeof found);
    return std::bit_cast<float>(found);
  }

  const std::byte* upload(Bytes payload) const {
    std::byte* const device = payload_.reserve(payload.size());
    to_device(payload, device);
    return device;
  }

  // Piece by piece: while one is copied over the bus, the next is copied to pinned memory.
  void to_device(Bytes from, std::byte* to) const {
    std::byte* const pinned = pinned_.reserve(2 * kPieceBytes);
    for (size_t at = 0, i = 0; at < from.size(); at += kPieceBytes, ++i) {
      const size_t size = std::min(kPieceBytes, from.size() - at);
      std::byte* const piece = pinned + i % 2 * kPieceBytes;
      copied_[i % 2].wait();
      std::memcpy(piece, from.data() + at, size);
      cuda::copy_async(to + at, piece, size, stream());
      copied_[i % 2].record(stream());
    }
  }

  // Once all before it is done.
  void fetch(const void* from, void* to, size_t bytes) const {
    std::byte* const pinned = pinned_.reserve(2 * kPieceBytes);
    const size_t pieces = (bytes + kPieceBytes - 1) / kPieceBytes;
    const auto size = [&](size_t i) { return std::min(kPieceBytes, bytes - i * kPieceBytes); };
    for (size_t i = 0; i <= pieces; ++i) {
      if (i < pieces) {
        const auto* const begin = static_cast<const std::byte*>(from) + i * kPieceBytes;
        cuda::copy_async(pinned + i % 2 * kPieceBytes, begin, size(i), stream());
        copied_[i % 2].record(stream());
      }
      if (i == 0) continue;
      copied_[(i - 1) % 2].wait();
      std::memcpy(static_cast<std::byte*>(to) + (i - 1) * kPieceBytes, pinned + (i - 1) % 2 * kPieceBytes, size(i - 1));
    }
  }

  const int device_;
  const cuda::Stream stream_;
  // Of one call. values_, sum_: of a whole slice; payload_: what comes or goes; pinned_: two pieces.
  mutable cuda::Buffer values_{cuda::BufferKind::kDevice}, sum_{cuda::BufferKind::kDevice};
  mutable cuda::Buffer payload_{cuda::BufferKind::kDevice};
  mutable cuda::Buffer result_{cuda::BufferKind::kDevice}, pinned_{cuda::BufferKind::kPinnedHost};
  mutable std::array<cuda::Event, 2> copied_;
};

}  // namespace

std::unique_ptr<SliceMath> make_cuda_slice_math() {
  if (const std::string missing = cuda::why_no_device(); !missing.empty()) {
    throw DeviceFailure("shared updates of params on a GPU were asked for, but " + missing + ", or train on the CPU");
  }
  return std::make_unique<CudaSliceMath>();
}

}  // namespace starling
