#include "compression/codec_cuda.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>

#include "compression/modulo.h"
#include "compression/modulo_encode.h"
#include "compression/modulo_format.h"
#include "compression/modulo_pairing.h"
#include "kernels/check.h"
#include "kernels/cuda/cast.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/modulo.h"
#include "kernels/cuda/pair.h"
#include "kernels/device_failure.h"

namespace starling {
namespace {

using modulo_format::kHeaderBytes;

constexpr size_t kPassElements = size_t{4} << 20;  // a small part of a pass is its wait
constexpr size_t kPitch = 64;                      // bytes to which all parts of a call's memory are aligned

constexpr size_t padded(size_t bytes) { return (bytes + kPitch - 1) / kPitch * kPitch; }

// A place in device memory and the same in its pinned copy.
struct Place {
  std::byte *device, *pinned;
  Place after(size_t bytes) const { return {device + bytes, pinned + bytes}; }
};

// What the GPU finds of a block, and behind it the payload without a header.
constexpr size_t kResultBytes = padded(sizeof(ModuloEncoded));
struct Slot : Place {
  explicit Slot(Place place) : Place(place) {}
  ModuloEncoded* result() const { return reinterpret_cast<ModuloEncoded*>(device); }
  const ModuloEncoded& fetched() const { return *reinterpret_cast<const ModuloEncoded*>(pinned); }
  Place payload() const { return after(kResultBytes); }
};

// Scratch for one call at a time. A call takes the lock, makes the codec's GPU current and puts both back.
class CudaScratch {
 public:
  CudaScratch() : device_id_(cuda::current_device()) {}

  class Use {
   public:
    explicit Use(CudaScratch& scratch) : scratch_(scratch), lock_(scratch.mutex_), current_(scratch.device_id_) {}
    void* stream() const { return scratch_.stream_.handle(); }
    void wait() const { scratch_.stream_.wait(); }
    Place reserve(size_t bytes) { return {scratch_.device_.reserve(bytes), scratch_.pinned_.reserve(bytes)}; }
    void fetch(Place place, size_t bytes) const {  // and all that was asked before
      cuda::copy_async(place.pinned, place.device, bytes, stream());
      wait();
    }

   private:
    CudaScratch& scratch_;
    std::lock_guard<std::mutex> lock_;
    cuda::CurrentDevice current_;
  };

 private:
  std::mutex mutex_;
  int device_id_;
  cuda::Stream stream_;
  cuda::Buffer device_{cuda::BufferKind::kDevice};
  cuda::Buffer pinned_{cuda::BufferKind::kPinnedHost};
};

class CudaCodec final : public Codec {
 public:
  explicit CudaCodec(std::unique_ptr<Codec> host)
      : host_(std::move(host)), kind_(host_->kind()), scratch_(std::make_unique<CudaScratch>()) {}

  CodecKind kind() const override { return kind_; }
  bool linear() const override { return host_->linear(); }
  size_t payload_bytes_max(size_t element_count) const override { return host_->payload_bytes_max(element_count); }
  PayloadStatus check(Bytes payload, size_t element_count) const override {
    return host_->check(payload, element_count);
  }
  PairStatus pair(Bytes own, Bytes peer, size_t element_count, PairStats* stats) const override {
    return host_->pair(own, peer, element_count, stats);
  }
  bool comparable(Bytes own, Bytes peer) const override { return host_->comparable(own, peer); }
  std::unique_ptr<CodecMemory> make_memory(size_t element_count) const override {
    return host_->make_memory(element_count);
  }
  size_t learnable_bytes(size_t payload_bytes) const override { return host_->learnable_bytes(payload_bytes); }
  void learn(const PairVerdict& verdict, CodecMemory* memory) const override { host_->learn(verdict, memory); }

  [[nodiscard]] std::optional<size_t> encode(ConstView x, const EncodeContext& context,
                                             MutableBytes out) const override {
    BlockPass block{.x = {const_cast<float*>(x.data), x.count, x.space}, .terms = {}, .context = context, .out = out};
    pass({&block, 1});  // without terms it only reads x
    return block.size;
  }

  void apply(float coefficient, Bytes own, Bytes peer, View x) const override {
    const CodecTerm term{coefficient, own, peer};
    const BlockPass block{.x = x, .terms = {&term, 1}, .out = {}};
    const size_t bytes = bytes_for_terms({&block, 1});
    CudaScratch::Use use(*scratch_);
    add_terms(use, {&block, 1}, use.reserve(bytes), bytes);
    use.wait();
  }

  size_t pass_elements() const override { return kPassElements; }

  // Each term is copied to the GPU on its own; one copy brings all payloads back.
  void pass(std::span<BlockPass> blocks) const override {
    size_t slots = 0;
    for (const BlockPass& block : blocks) {
      STARLING_CHECK(block.x.space == MemorySpace::kCuda && !block.shared);
      STARLING_CHECK(block.out.size() == payload_bytes_max(block.x.count));
      slots += slot_bytes(block);
    }
    const size_t terms = bytes_for_terms(blocks);
    CudaScratch::Use use(*scratch_);
    const Place room = use.reserve(slots + terms);
    add_terms(use, blocks, room.after(slots), terms);
    const auto each = [&](const auto& with) {
      Place place = room;
      for (BlockPass& block : blocks) {
        with(block, Slot(place));
        place = place.after(slot_bytes(block));
      }
    };
    cuda::zero_async(room.device, slots, use.stream());
    each([&](const BlockPass& block, const Slot& slot) { begin_encode(use, block, slot); });
    use.fetch(room, slots);
    each([&](BlockPass& block, const Slot& slot) {
      block.size = end_encode(use, block, slot) ? std::optional(block.out.size()) : std::nullopt;
    });
  }

 private:
  static size_t slot_bytes(const BlockPass& block) { return kResultBytes + padded(block.out.size()); }

  static size_t bytes_for_terms(std::span<const BlockPass> blocks) {
    size_t sum = 0, largest = 0;
    for (const BlockPass& block : blocks) {
      for (const CodecTerm& term : block.terms) {
        sum += term_bytes(term);
        largest = std::max(largest, term_bytes(term));
      }
    }
    return std::max(largest, std::min(sum, cuda_term_bytes_max));
  }
  static size_t term_bytes(const CodecTerm& term) { return 2 * padded(term.own.size()); }

  // Each is copied over the bus while the next one is copied to pinned memory.
  void add_terms(const CudaScratch::Use& use, std::span<const BlockPass> blocks, Place room, size_t room_bytes) const {
    size_t filled = 0;
    for (const BlockPass& block : blocks) {
      for (const CodecTerm& term : block.terms) {
        STARLING_CHECK(block.x.space == MemorySpace::kCuda);
        STARLING_CHECK(term.own.size() == payload_bytes_max(block.x.count) && term.peer.size() == term.own.size());
        if (block.x.count == 0) continue;
        if (filled + term_bytes(term) > room_bytes) {
          use.wait();
          filled = 0;
        }
        const Place own = room.after(filled), peer = own.after(padded(term.own.size()));
        std::memcpy(own.pinned, term.own.data(), term.own.size());
        std::memcpy(peer.pinned, term.peer.data(), term.peer.size());
        cuda::copy_async(own.device, own.pinned, term_bytes(term), use.stream());
        launch_apply(use, term, own.device, peer.device, block.x);
        filled += term_bytes(term);
      }
    }
  }

  // ---- encode ----

  // With the step that is remembered, if one is: it mostly stays.
  void begin_encode(const CudaScratch::Use& use, const BlockPass& block, const Slot& slot) const {
    const ConstView x = block.x;
    uint32_t* const max_abs_bits = &slot.result()->max_abs_bits;
    std::byte* const payload = slot.payload().device;
    switch (kind_) {
      case CodecKind::kFp32:
        max_abs_bits_cuda(x.data, x.count, max_abs_bits, use.stream());
        return cuda::copy_async(payload, x.data, block.out.size(), use.stream());
      case CodecKind::kBf16: return f32_to_bf16_cuda(x.data, x.count, payload, max_abs_bits, use.stream());
      case CodecKind::kFp16: return f32_to_fp16_cuda(x.data, x.count, payload, max_abs_bits, use.stream());
      case CodecKind::kModulo8:
      case CodecKind::kModulo4:
        if (const auto exponent = remembered(block.context)) launch_modulo(use, x, *exponent, slot);
        return;
      default: break;  // make_cuda_codec() refused it
    }
    STARLING_CHECK(!"a codec kind without a CUDA twin");
  }

  // Writes the payload that was fetched. False: a value is not finite.
  bool end_encode(const CudaScratch::Use& use, const BlockPass& block, const Slot& slot) const {
    if (kind_ == CodecKind::kModulo8) return end_modulo(kModuloSteps<8>, use, block, slot);
    if (kind_ == CodecKind::kModulo4) return end_modulo(kModuloSteps<4>, use, block, slot);
    if (!block.out.empty()) std::memcpy(block.out.data(), slot.payload().pinned, block.out.size());
    return std::isfinite(std::bit_cast<float>(slot.fetched().max_abs_bits));
  }

  static std::optional<int> remembered(const EncodeContext& context) {
    const auto* memory = static_cast<const ModuloMemory*>(context.memory);
    return memory != nullptr ? memory->exponent : std::nullopt;
  }

  void launch_modulo(const CudaScratch::Use& use, ConstView x, int exponent, const Slot& slot) const {
    const auto encode = kind_ == CodecKind::kModulo8 ? modulo_encode_cuda<8> : modulo_encode_cuda<4>;
    encode(x.data, x.count, exponent, slot.payload().device, slot.result(), use.stream());
  }

  bool end_modulo(const ModuloSteps& steps, const CudaScratch::Use& use, const BlockPass& block,
                  const Slot& slot) const {
    const ConstView x = block.x;
    std::optional<int> fetched = remembered(block.context);
    const auto measure = [&] {
      cuda::zero_async(slot.device, kResultBytes, use.stream());
      max_abs_bits_cuda(x.data, x.count, &slot.result()->max_abs_bits, use.stream());
      use.fetch(slot, kResultBytes);
      return std::bit_cast<float>(slot.fetched().max_abs_bits);
    };
    const auto encode_at = [&](int exponent) {
      if (fetched != exponent) {
        cuda::zero_async(slot.device, kResultBytes, use.stream());
        launch_modulo(use, x, exponent, slot);
        use.fetch(slot, slot_bytes(block));
        fetched = exponent;
      }
      return slot.fetched();
    };
    const auto header = modulo_snapshot(steps, block.context, measure, encode_at);
    if (!header) return false;
    modulo_format::write_header(*header, block.out);
    const MutableBytes codes = block.out.subspan(kHeaderBytes);
    if (!codes.empty()) std::memcpy(codes.data(), slot.payload().pinned, codes.size());
    return true;
  }

  // ---- apply ----

  void launch_apply(const CudaScratch::Use& use, const CodecTerm& term, const std::byte* own, const std::byte* peer,
                    View x) const {
    switch (kind_) {
      case CodecKind::kFp32: return pair_apply_f32_cuda(term.coefficient, own, peer, x.count, x.data, use.stream());
      case CodecKind::kBf16: return pair_apply_bf16_cuda(term.coefficient, own, peer, x.count, x.data, use.stream());
      case CodecKind::kFp16: return pair_apply_fp16_cuda(term.coefficient, own, peer, x.count, x.data, use.stream());
      case CodecKind::kModulo8: return apply_modulo<8>(use, term, own, peer, x);
      case CodecKind::kModulo4: return apply_modulo<4>(use, term, own, peer, x);
      default: break;  // make_cuda_codec() refused it
    }
    STARLING_CHECK(!"a codec kind without a CUDA twin");
  }

  template <int kBits>
  static void apply_modulo(const CudaScratch::Use& use, const CodecTerm& term, const std::byte* own,
                           const std::byte* peer, View x) {
    const ModuloPairing pairing(term.own, term.peer);
    STARLING_CHECK(pairing.comparable(kModuloSteps<kBits>));
    modulo_apply_cuda<kBits>(pairing.factor(term.coefficient), own + kHeaderBytes, pairing.own_shift,
                             peer + kHeaderBytes, pairing.peer_shift, x.count, x.data, use.stream());
  }

  std::unique_ptr<Codec> host_;
  CodecKind kind_;
  std::unique_ptr<CudaScratch> scratch_;
};

}  // namespace

bool has_cuda_twin(CodecKind kind) {
  return kind == CodecKind::kFp32 || kind == CodecKind::kBf16 || kind == CodecKind::kFp16 ||
         kind == CodecKind::kModulo8 || kind == CodecKind::kModulo4;
}

std::unique_ptr<Codec> make_cuda_codec(std::unique_ptr<Codec> host) {
  if (!has_cuda_twin(host->kind())) {
    throw DeviceFailure("codec " + std::string(codec_name(host->kind())) +
                        " works on params in host memory only; train on the CPU, or take another codec");
  }
  if (const std::string missing = cuda::why_no_device(); !missing.empty()) {
    throw DeviceFailure("codec " + std::string(codec_name(host->kind())) + ": params on a GPU were asked for, but " +
                        missing + ", or train on the CPU");
  }
  return std::make_unique<CudaCodec>(std::move(host));
}

}  // namespace starling
