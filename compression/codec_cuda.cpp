#include "compression/codec_cuda.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>

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

// Where the GPU leaves its results, in device memory and in their pinned copy: the results, then the payload.
struct Slot {
  static constexpr size_t kResultBytes = 64;  // room for ModuloEncoded; keeps the payload aligned
  static_assert(sizeof(ModuloEncoded) <= kResultBytes);

  std::byte* base;
  ModuloEncoded* result() const { return reinterpret_cast<ModuloEncoded*>(base); }
  std::byte* payload() const { return base + kResultBytes; }
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
    Slot device(size_t payload_bytes) { return {scratch_.device_.reserve(Slot::kResultBytes + payload_bytes)}; }
    Slot pinned(size_t payload_bytes) { return {scratch_.pinned_.reserve(Slot::kResultBytes + payload_bytes)}; }

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
    STARLING_CHECK(x.space == MemorySpace::kCuda);
    STARLING_CHECK(out.size() == payload_bytes_max(x.count));
    CudaScratch::Use use(*scratch_);
    const bool finite = kind_ == CodecKind::kModulo8   ? encode_modulo<8>(use, x, context, out)
                        : kind_ == CodecKind::kModulo4 ? encode_modulo<4>(use, x, context, out)
                                                       : encode_dense(use, x, out);
    return finite ? std::optional(out.size()) : std::nullopt;
  }

  void apply(float coefficient, Bytes own, Bytes peer, View x) const override {
    STARLING_CHECK(x.space == MemorySpace::kCuda);
    STARLING_CHECK(own.size() == payload_bytes_max(x.count) && peer.size() == own.size());
    if (x.count == 0) return;
    CudaScratch::Use use(*scratch_);
    const size_t pitch = (own.size() + Slot::kResultBytes - 1) / Slot::kResultBytes * Slot::kResultBytes;
    std::byte* const pinned = use.pinned(2 * pitch).payload();
    std::byte* const device = use.device(2 * pitch).payload();
    std::memcpy(pinned, own.data(), own.size());
    std::memcpy(pinned + pitch, peer.data(), peer.size());
    cuda::copy_async(device, pinned, 2 * pitch, use.stream());
    launch_apply(use, coefficient, own, peer, device, device + pitch, x);
    use.wait();
  }

 private:
  bool encode_dense(CudaScratch::Use& use, ConstView x, MutableBytes out) const {
    const Slot device = use.device(out.size());
    const Slot pinned = use.pinned(out.size());
    cuda::zero_async(device.result(), Slot::kResultBytes, use.stream());
    if (kind_ != CodecKind::kFp32) {
      const auto cast = kind_ == CodecKind::kBf16 ? f32_to_bf16_cuda : f32_to_fp16_cuda;
      cast(x.data, x.count, device.payload(), &device.result()->max_abs_bits, use.stream());
      cuda::copy_async(pinned.base, device.base, Slot::kResultBytes + out.size(), use.stream());
    } else {
      max_abs_bits_cuda(x.data, x.count, &device.result()->max_abs_bits, use.stream());
      cuda::copy_async(pinned.base, device.base, Slot::kResultBytes, use.stream());
      cuda::copy_async(pinned.payload(), x.data, out.size(), use.stream());
    }
    use.wait();
    if (!out.empty()) std::memcpy(out.data(), pinned.payload(), out.size());
    return std::isfinite(std::bit_cast<float>(pinned.result()->max_abs_bits));
  }

  template <int kBits>
  bool encode_modulo(CudaScratch::Use& use, ConstView x, const EncodeContext& context, MutableBytes out) const {
    const size_t code_bytes = modulo_code_bytes<kBits>(x.count);
    const Slot device = use.device(code_bytes);
    const Slot pinned = use.pinned(code_bytes);
    const auto fetch = [&](size_t payload_bytes) {
      cuda::copy_async(pinned.base, device.base, Slot::kResultBytes + payload_bytes, use.stream());
      use.wait();
      return *pinned.result();
    };
    const auto measure = [&] {
      cuda::zero_async(device.result(), Slot::kResultBytes, use.stream());
      max_abs_bits_cuda(x.data, x.count, &device.result()->max_abs_bits, use.stream());
      return std::bit_cast<float>(fetch(0).max_abs_bits);
    };
    const auto encode_at = [&](int exponent) {
      cuda::zero_async(device.result(), Slot::kResultBytes, use.stream());
      modulo_encode_cuda<kBits>(x.data, x.count, exponent, device.payload(), device.result(), use.stream());
      return fetch(code_bytes);
    };
    const auto header = modulo_snapshot(kModuloSteps<kBits>, context, measure, encode_at);
    if (!header) return false;
    modulo_format::write_header(*header, out);
    if (x.count > 0) std::memcpy(out.data() + kHeaderBytes, pinned.payload(), code_bytes);
    return true;
  }

  void launch_apply(CudaScratch::Use& use, float coefficient, Bytes own, Bytes peer, const std::byte* device_own,
                    const std::byte* device_peer, View x) const {
    switch (kind_) {
      case CodecKind::kFp32:
        return pair_apply_f32_cuda(coefficient, device_own, device_peer, x.count, x.data, use.stream());
      case CodecKind::kBf16:
        return pair_apply_bf16_cuda(coefficient, device_own, device_peer, x.count, x.data, use.stream());
      case CodecKind::kFp16:
        return pair_apply_fp16_cuda(coefficient, device_own, device_peer, x.count, x.data, use.stream());
      case CodecKind::kModulo8: return apply_modulo<8>(use, coefficient, own, peer, device_own, device_peer, x);
      case CodecKind::kModulo4: return apply_modulo<4>(use, coefficient, own, peer, device_own, device_peer, x);
      default: break;  // make_cuda_codec() refused it
    }
    STARLING_CHECK(!"a codec kind without a CUDA twin");
  }

  template <int kBits>
  static void apply_modulo(CudaScratch::Use& use, float coefficient, Bytes own, Bytes peer, const std::byte* device_own,
                           const std::byte* device_peer, View x) {
    const ModuloPairing pairing(own, peer);
    STARLING_CHECK(pairing.comparable(kModuloSteps<kBits>));
    modulo_apply_cuda<kBits>(pairing.factor(coefficient), device_own + kHeaderBytes, pairing.own_shift,
                             device_peer + kHeaderBytes, pairing.peer_shift, x.count, x.data, use.stream());
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
