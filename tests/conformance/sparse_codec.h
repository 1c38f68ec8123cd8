// A codec that no swarm uses: of each block the quarter of its values that waited longest, largest first, as pairs of
// index and value; zeros are never sent, so payloads differ in size. It remembers how long each value has waited and
// learns from whole payloads. It shows that the seam carries what fp32, bf16 and modulo8 do not need.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <vector>

#include "compression/codec.h"
#include "kernels/check.h"

namespace starling {

class SparseMemory final : public CodecMemory {
 public:
  explicit SparseMemory(size_t count) : waited(count) {}
  std::vector<std::byte> save() const override {
    const auto bytes = std::as_bytes(std::span(waited));
    return {bytes.begin(), bytes.end()};
  }
  bool load(Bytes saved) override {
    if (saved.size() != waited.size() * sizeof(uint32_t)) return false;
    if (!saved.empty()) std::memcpy(waited.data(), saved.data(), saved.size());
    return true;
  }
  std::vector<uint32_t> waited;  // snapshots since the value was in an exchange that ended well
};

class SparseCodec final : public Codec {
 public:
  static constexpr CodecKind kKind = static_cast<CodecKind>(200);

  CodecKind kind() const override { return kKind; }
  bool linear() const override { return false; }
  size_t payload_bytes_max(size_t count) const override { return sizeof(uint32_t) + (count + 3) / 4 * sizeof(Entry); }
  std::unique_ptr<CodecMemory> make_memory(size_t count) const override {
    return std::make_unique<SparseMemory>(count);
  }

  std::optional<size_t> encode(ConstView x, const EncodeContext& context, MutableBytes out) const override {
    STARLING_CHECK(x.space == MemorySpace::kHost && out.size() == payload_bytes_max(x.count));
    std::vector<uint32_t> order(x.count);
    std::iota(order.begin(), order.end(), 0u);
    SparseMemory fresh(x.count);
    SparseMemory& memory = context.memory != nullptr ? static_cast<SparseMemory&>(*context.memory) : fresh;
    for (size_t i = 0; i < x.count; ++i) {
      if (!std::isfinite(x.data[i])) return std::nullopt;
    }
    for (size_t i = 0; i < x.count; ++i) memory.waited[i] = x.data[i] == 0 ? 0 : memory.waited[i] + 1;
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      if (memory.waited[a] != memory.waited[b]) return memory.waited[a] > memory.waited[b];
      return std::fabs(x.data[a]) > std::fabs(x.data[b]);
    });
    order.resize((x.count + 3) / 4);
    std::sort(order.begin(), order.end());
    std::vector<Entry> entries;
    for (uint32_t i : order) {
      if (x.data[i] != 0) entries.push_back({i, x.data[i]});
    }
    const auto count = static_cast<uint32_t>(entries.size());
    std::memcpy(out.data(), &count, sizeof count);
    if (count > 0) std::memcpy(out.data() + sizeof count, entries.data(), count * sizeof(Entry));
    return sizeof count + count * sizeof(Entry);
  }

  PayloadStatus check(Bytes payload, size_t element_count) const override {
    uint32_t count = 0;
    if (payload.size() < sizeof count) return PayloadStatus::kWrongSize;
    std::memcpy(&count, payload.data(), sizeof count);
    if (count > (element_count + 3) / 4) return PayloadStatus::kBadHeader;
    if (payload.size() != sizeof count + count * sizeof(Entry)) return PayloadStatus::kWrongSize;
    int64_t last = -1;
    for (const Entry& entry : entries_of(payload)) {
      if (entry.index <= last || entry.index >= element_count) return PayloadStatus::kBadHeader;
      if (!std::isfinite(entry.value)) return PayloadStatus::kNonFinite;
      last = entry.index;
    }
    return PayloadStatus::kOk;
  }

  PairStatus pair(Bytes own, Bytes peer, size_t element_count, PairStats* stats) const override {
    if (check(peer, element_count) != PayloadStatus::kOk) return PairStatus::kRefused;
    *stats = {};
    for (float value : differences(own, peer, element_count)) {
      if (!std::isfinite(value)) return PairStatus::kLeftOut;
      stats->squared_distance += double{value} * value;
      stats->max_abs_difference = std::max(stats->max_abs_difference, std::fabs(value));
    }
    return PairStatus::kOk;
  }

  void apply(float coefficient, Bytes own, Bytes peer, View x) const override {
    const std::vector<float> difference = differences(own, peer, x.count);
    for (size_t i = 0; i < x.count; ++i) x.data[i] += coefficient * difference[i];
  }

  size_t learnable_bytes(size_t payload_bytes) const override { return payload_bytes; }
  void learn(const PairVerdict& verdict, CodecMemory* memory) const override {
    if (verdict.status != PairStatus::kOk) return;
    for (const Entry& entry : entries_of(verdict.own)) static_cast<SparseMemory*>(memory)->waited[entry.index] = 0;
  }

 private:
  struct Entry {
    uint32_t index;
    float value;
  };

  static std::vector<Entry> entries_of(Bytes payload) {
    std::vector<Entry> entries((payload.size() - sizeof(uint32_t)) / sizeof(Entry));
    if (!entries.empty()) {
      std::memcpy(entries.data(), payload.data() + sizeof(uint32_t), entries.size() * sizeof(Entry));
    }
    return entries;
  }

  static std::vector<float> differences(Bytes own, Bytes peer, size_t element_count) {
    std::vector<float> a(element_count), b(element_count);
    for (const Entry& entry : entries_of(own)) a[entry.index] = entry.value;
    for (const Entry& entry : entries_of(peer)) b[entry.index] = entry.value;
    for (size_t i = 0; i < element_count; ++i) b[i] -= a[i];
    return b;
  }
};

}  // namespace starling
