// The seam between vectors and bytes. A codec turns one block of params into a payload, judges a peer's payload, and
// applies the pair's delta from the two payloads both ends hold (the transcript rule: never from one's own floats).
//
// Pure: no clock, no I/O, no threads of its own. Payloads always lie in host memory; params lie where the View says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/view.h"

namespace starling {

using Bytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;

// On the wire: never renumber.
enum class CodecKind : uint8_t { kFp32 = 1, kBf16 = 2, kModulo8 = 3, kFp16 = 4, kModulo4 = 5 };

// Every codec there is. Config, flags, help texts and the conformance suites are made from this list.
struct CodecName {
  CodecKind kind;
  std::string_view name;
  std::string_view note;  // for people, in help texts
};
std::span<const CodecName> codec_names();
std::string codec_choices(std::string_view between);  // "fp32, bf16, modulo8" with ", " between

std::optional<CodecKind> parse_codec(std::string_view name);  // nullopt: no such codec
std::string_view codec_name(CodecKind kind);

// What a codec remembers of one block from one snapshot to the next; only that codec knows what it is.
class CodecMemory {
 public:
  virtual ~CodecMemory() = default;
  virtual std::vector<std::byte> save() const = 0;
  [[nodiscard]] virtual bool load(Bytes saved) = 0;  // false, and nothing is changed: not what save() writes
};

// What encode() may use beside the values.
struct EncodeContext {
  CodecMemory* memory = nullptr;         // of make_memory(), changed by encode(); null: nothing is remembered
  std::function<float()> section_rms{};  // rms of all the section's values: the scale of a block of zeros; or empty
};

enum class [[nodiscard]] PayloadStatus {
  kOk,
  kWrongSize,  // no encode() of so many elements writes so many bytes
  kBadHeader,  // a field outside its range
  kNonFinite,  // a NaN or an infinity, in a payload that can hold one
};

// The outcome of laying a peer's payload beside one's own.
enum class [[nodiscard]] PairStatus {
  kOk,
  kLeftOut,  // the two payloads form no delta: the block leaves this exchange, and the codec learns from it
  kRefused,  // the peer's payload does not pass check(): no block of it
};

struct PairStats {
  // Sum over the block of (peer - own)^2, as the payloads say. 0: the two are equal, as far as the payloads can tell,
  // and no delta is applied.
  double squared_distance = 0;
  float max_abs_difference = 0;
};

// How a block went in an exchange that ended: what a codec learns from.
struct PairVerdict {
  PairStatus status = PairStatus::kRefused;  // kOk or kLeftOut: there is nothing to learn from other payloads
  PairStats stats;                           // where kOk
  Bytes own, peer;                           // their first learnable_bytes()
};

// One delta: coefficient * f(own, peer).
struct CodecTerm {
  float coefficient = 0;
  Bytes own, peer;
};

// One block of a boundary: the terms are added to x, and then the payload of what x holds is written.
struct BlockPass {
  View x;
  std::span<const CodecTerm> terms;
  std::function<ConstView(ConstView)> shared{};  // what is encoded, made of x; empty: x itself, as always on a device
  EncodeContext context{};
  MutableBytes out;              // of payload_bytes_max(x.count)
  std::optional<size_t> size{};  // what encode() returned
};

class Codec {
 public:
  virtual ~Codec() = default;
  virtual CodecKind kind() const = 0;

  // Payloads hold element after element, so that a mean of payloads can be made piece by piece. Each stands for itself:
  // no step has to fit the peer's, so there is nothing to learn from a pairing, and learnable_bytes() is 0.
  virtual bool linear() const = 0;

  // No payload of so many elements is larger. It depends on the element count alone, so a peer cannot inflate it.
  // Payloads of a linear codec all have exactly this size.
  virtual size_t payload_bytes_max(size_t element_count) const = 0;

  // A memory for one block of so many elements; null: this codec remembers nothing.
  virtual std::unique_ptr<CodecMemory> make_memory(size_t) const { return nullptr; }

  // Writes the payload of one block and returns its size. REQUIRES: out.size() == payload_bytes_max(x.count).
  // nullopt if x holds a non-finite value: the agent is sick and must not share.
  [[nodiscard]] virtual std::optional<size_t> encode(ConstView x, const EncodeContext& context,
                                                     MutableBytes out) const = 0;

  // Is this foreign payload well-formed and finite? Looks at nothing but its bytes.
  virtual PayloadStatus check(Bytes payload, size_t element_count) const = 0;

  // Checks the peer's payload as check() does, in the same pass, and says whether it and ours (an encode() of this
  // codec) form a delta. Fills stats on kOk. Gives the same verdict on both ends: of two payloads that pass check(),
  // pair(a, b) and pair(b, a) agree.
  virtual PairStatus pair(Bytes own, Bytes peer, size_t element_count, PairStats* stats) const = 0;

  // False: pair() leaves the block out because the two sides' steps are too far apart, which learn() mends.
  virtual bool comparable(Bytes, Bytes) const { return true; }  // the first learnable_bytes() of own and peer

  // x += coefficient * f(own, peer), f antisymmetric and bit-identical on every machine: f32 difference, one rounding
  // by the multiply, one by the add, no fused multiply-add. REQUIRES: pair(own, peer) == kOk.
  virtual void apply(float coefficient, Bytes own, Bytes peer, View x) const = 0;

  // Adds all terms, bit for bit as apply() of each in this order does; what they share is read once.
  void apply_all(std::span<const CodecTerm> terms, View x) const;

  // apply_all() and encode() of each block, one after the other; a device does several of them at once. Blocks that
  // refuse do not keep others from being written. What an exception leaves of x and of the payloads is not defined.
  virtual void pass(std::span<BlockPass> blocks) const;
  // A pass should have so many elements if it can, in one block at least: a device is waited for once a pass.
  virtual size_t pass_elements() const { return 1; }

  // Writes the payload of own + sum over i of weights[i] * (peers[i] - own), in the order given: one addition and one
  // multiply each, rounded as apply() does; and what pair(own, out) says of it. False if it is not finite, as it is
  // when a peer is not.
  // REQUIRES: linear(); a codec for host memory; weights above 0;
  // all payloads of own.size(), and own passes check().
  [[nodiscard]] bool mean(Bytes own, std::span<const Bytes> peers, std::span<const float> weights, size_t element_count,
                          MutableBytes out, PairStats* stats) const;

  // How many leading bytes of a payload learn() reads; an exchange keeps only these for it. 0: nothing to learn.
  virtual size_t learnable_bytes(size_t) const { return 0; }

  // Changes what the next snapshot of this block remembers, given how a pairing went.
  virtual void learn(const PairVerdict&, CodecMemory*) const {}
};

// `space` chooses the element loops: kCuda needs a build with CUDA and a GPU, else throws std::runtime_error.
std::unique_ptr<Codec> make_codec(CodecKind kind, MemorySpace space);

}  // namespace starling
