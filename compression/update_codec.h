// The seam between updates and bytes, for members of one group that hold equal replicas. Each member adds what it
// learned to an accumulator and sends part of it as a payload; the owner of a slice adds payloads up and sends the sum
// as an entry, which all apply. What a payload left out, and what no entry counted, stays in the member's accumulator
// and is sent later: "Sparsified SGD with Memory" (Stich, Cordonnier, Jaggi 2018, arXiv:1809.07599), algorithm 1.
//
// Another algebra than Codec: a payload is added, never laid beside a second one, so it need not be antisymmetric and
// may hold few of the elements. Kind and slice of a payload travel in the message around it.
//
// Pure: no clock, no I/O, no threads of its own, and chance from the caller's seed alone. A codec works on
// host memory; SliceMath does the same work on a GPU. Every number that results is the same bits on
// every machine: float arithmetic in a fixed order, no fused multiply-add.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compression/codec.h"

namespace starling {

// On the wire: never renumber. topk has fp32 values, topk_bf16 the same elements with bf16 values. Retired: 10 (qsgd),
// 12 to 14 (randk).
enum class UpdateKind : uint8_t {
  kFp32 = 1,
  kBf16 = 2,
  kTopk = 3,
  kTopkBf16 = 4,
  kInt8 = 5,
  kInt4 = 6,
  kSign = 7,
  kSignEf = 8,
  kTernary = 9,
  kTopkInt8 = 11,
  kSketch = 15,
  kDgc = 16
};

// Every update codec there is. Config, flags, help texts and the conformance suite are made from this list.
struct UpdateName {
  UpdateKind kind;
  std::string_view name;
  std::string_view note;  // for people, in help texts
};
std::span<const UpdateName> update_names();
std::vector<std::string> update_words();                        // their names
std::string update_choices(std::string_view between);           // "fp32, bf16, topk, topk_bf16" with ", " between
std::optional<UpdateKind> parse_update(std::string_view name);  // nullopt: no such codec
std::optional<UpdateKind> update_kind(uint8_t number);          // of the wire; nullopt: no such codec
std::string_view update_name(UpdateKind kind);

// What all members of a group agree on: sizes of payloads follow from it.
struct UpdateOptions {
  UpdateKind kind = UpdateKind::kFp32;
  double density = 0.01;    // topk: a payload's share of a slice's elements, above 0, at most 1; one at least;
                            // sketch: an entry's
  uint32_t reply = 2;       // topk: an entry holds at most so many times the elements of a payload, at least 1 time
  double table = 0.2;       // sketch: a table's cells, as a share of the slice's elements; above 0, at most 1
  uint32_t candidates = 4;  // sketch: a payload holds at most so many times the elements of an entry, at least 1 time
  std::optional<double> momentum;  // dgc, sketch: of the velocity, at least 0 and below 1; nullopt: momentum_of()
  double clip = 0;      // dgc: a drift counts at most so long, over the root of the number of members; 0: no limit
  uint32_t warmup = 0;  // dgc: so many entries of a log are denser; 0: none
};

inline double momentum_of(const UpdateOptions& options) {
  return options.momentum.value_or(options.kind == UpdateKind::kSketch ? 0 : 0.9);
}

// Payloads of both roles have the same format; an entry may be larger.
enum class UpdateRole { kContribution, kEntry };

enum class [[nodiscard]] UpdateStatus {
  kOk,
  kWrongSize,  // no encode() of so many elements in this role writes so many bytes, or not with this header
  kBadIndex,   // indices that do not ascend, or one beyond the slice
  kBadLevel,   // a code that stands for no level, or bits where no element is
  kNonFinite,  // a NaN or an infinity, or a scale that is one, negative, or so large that values would be one
};

// What encode() leaves in the accumulator once its own payload is subtracted from it.
struct UpdateResidual {
  float rounding = 0;             // of each element sent at most this fraction, where its magnitude is a normal float
  float rounding_of_largest = 0;  // and this fraction of the slice's largest magnitude
  bool unsent = false;            // and all of the elements that were not sent
  // Its expected sum of squares is at most this fraction of the vector's. Below 1 what is kept stays bounded (a
  // contraction: Stich and Karimireddy 2020, arXiv:1909.05350, definition 3).
  double energy = 0;
  // Nothing is kept: the payload takes the place of what was encoded. Either the rounding averages out over payloads
  // but is too large to be sent later, or the payload does not stand for the vector's magnitudes (a vote).
  bool dropped = false;
  bool unbiased = false;  // the expectation of the decoded payload over seeds is the vector
};

// What a codec rounds and chooses by, beside the values.
struct UpdateSeeds {
  uint64_t own = 1;                       // another one for each payload of each member
  uint64_t common = 1;                    // of the log that the payload follows: all members that hold it have the same
  uint64_t entries = 0;                   // of that log; dgc: how dense a payload is
  std::span<const uint32_t> requested{};  // sketch: by the slice's owner, ascending; empty: the codec's own choice
};

// The elements of a slice that a payload holds.
struct UpdateSupport {
  bool everywhere = true;
  std::vector<uint32_t> indices;  // else these, ascending
};

// Momentum that belongs to the codec: u = momentum * u + drift goes into the accumulator in place of the drift, and u
// is 0 again where an entry counted what was sent.
struct UpdateVelocity {
  bool used = false;
  float momentum = 0;
  float clip = 0;  // see UpdateOptions
};

class UpdateCodec;
class SketchTables;

// One payload of a merge. A group may mix kinds: at the end of a run its members send fp32.
struct UpdateTerm {
  const UpdateCodec* codec = nullptr;
  float weight = 0;  // mass of the sender / mass of the whole roster, times the scale at which the owner takes it
  Bytes payload;
};

class UpdateCodec {
 public:
  virtual ~UpdateCodec() = default;
  virtual UpdateKind kind() const = 0;
  virtual UpdateResidual residual() const = 0;

  // No payload of so many elements in this role is larger. It depends on the settings alone: a peer cannot inflate it.
  virtual size_t bytes_max(UpdateRole role, size_t element_count) const = 0;

  // Writes the payload of an accumulator (or the entry of a sum of payloads) and returns its size. The values are left
  // as they are: subtracting what was sent is a call of add(). nullopt if one is not finite: the member is sick, or the
  // sum left the range of a float. Then `out` holds nothing of use. Chance comes from the seeds alone.
  // REQUIRES: out.size() == bytes_max(role, x.size()), x.size() below 2^32.
  [[nodiscard]] std::optional<size_t> encode(UpdateRole role, std::span<const float> x, const UpdateSeeds& seeds,
                                             MutableBytes out) const {
    const std::optional<UpdateSupport> chosen = choose(role, x, seeds);
    return chosen ? encode_chosen(role, x, seeds, *chosen, out) : std::nullopt;
  }
  // The two parts of it, for a caller that times them apart. The elements to be sent; all where the codec sends all.
  // nullopt: as encode().
  [[nodiscard]] virtual std::optional<UpdateSupport> choose(UpdateRole, std::span<const float>,
                                                            const UpdateSeeds&) const {
    return UpdateSupport{};
  }
  // REQUIRES: as encode(); `chosen` is of choose() with the same arguments.
  [[nodiscard]] virtual std::optional<size_t> encode_chosen(UpdateRole role, std::span<const float> x,
                                                            const UpdateSeeds& seeds, const UpdateSupport& chosen,
                                                            MutableBytes out) const = 0;

  // Are these foreign bytes a payload of so many elements in this role? Looks at nothing but the bytes, all of them.
  // What the other functions call a payload has passed it.
  virtual UpdateStatus check(UpdateRole role, Bytes payload, size_t element_count) const = 0;

  // target[i] += coefficient * value i of the payload, one rounding by each operation, for every element that is both
  // in the payload and in `on`. The one operation of all users of payloads:
  //   merge      sum += weight * payload, everywhere
  //   settle     accumulator -= scale * payload, on the support of the entry that counted it
  //   take back  accumulator += scale * payload, on the same support
  // The elements are target.size(). The result may leave the range of a float: encode() finds that.
  virtual void add(float coefficient, Bytes payload, const UpdateSupport& on, std::span<float> target) const = 0;

  // Writes values begin to begin + out.size() - 1 of a payload, zero where it holds none. `support`: the payload's own.
  virtual void decode_part(Bytes payload, const UpdateSupport& support, size_t begin, std::span<float> out) const = 0;
  void decode(Bytes payload, std::span<float> out) const { decode_part(payload, support(payload), 0, out); }

  virtual UpdateSupport support(Bytes payload) const = 0;

  // The Euclidean norm, summed in double in a fixed order. Finite: the squares of all floats fit.
  virtual double norm(Bytes payload) const = 0;

  // The norm of foreign bytes; nullopt: they do not pass check(). One pass where a norm tells whether all are finite.
  virtual std::optional<double> checked_norm(UpdateRole role, Bytes payload, size_t element_count) const;

  // sum = what an entry of this codec is encoded from: the weighted payloads added up in the order given, from zero. A
  // vote counts them otherwise.
  virtual void merge(std::span<const UpdateTerm> terms, std::span<float> sum) const;

  virtual UpdateVelocity velocity() const { return {}; }

  // With what owners choose the elements of payloads (update_sketch.h); null: each member chooses its own.
  virtual const SketchTables* tables() const { return nullptr; }
};

// REQUIRES: all options within their ranges.
std::unique_ptr<UpdateCodec> make_update_codec(const UpdateOptions& options);

}  // namespace starling
