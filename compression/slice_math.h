// The arithmetic that replicas do on their vectors, where those lie: in host memory, or on a GPU that trains. Payloads
// lie in host memory, so with vectors on a GPU they alone cross its bus.
//
// A GPU leaves the same bits in every vector and payload. The sums in double are added in another order there.
// All spans of a call lie in the object's space, unless its comment says otherwise, and have one size. Calls come one
// at a time, from any thread, and end when their work is done; on a GPU they throw DeviceFailure if that fails.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "compression/outer_rule.h"
#include "compression/update_codec.h"
#include "kernels/view.h"

namespace starling {

class SliceMath {
 public:
  virtual ~SliceMath() = default;
  virtual MemorySpace space() const { return MemorySpace::kHost; }

  // Whether payloads of this codec can be taken and made. In host memory: all.
  virtual bool takes(const UpdateCodec&) const { return true; }

  virtual void copy(std::span<const float> from, std::span<float> to) const;  // either may lie in host memory
  virtual void clear(std::span<float> x) const;
  virtual void add(std::span<const float> x, std::span<float> y) const;  // y += x
  virtual void add_change(float scale, std::span<const float> from, std::span<const float> to,
                          std::span<float> y) const;  // y += scale * (to - from)
  virtual void add_change_from_host(std::span<const float> from, std::span<const float> to,
                                    std::span<float> y) const;  // y += to - from; `from` lies in host memory
  [[nodiscard]] virtual bool all_finite(std::span<const float> x) const;
  virtual float max_abs(std::span<const float> x) const;  // REQUIRES: finite
  virtual double squared_norm(std::span<const float> x) const;

  // As UpdateCodec's, of contributions. REQUIRES of each codec here and below: takes(codec).
  [[nodiscard]] virtual std::optional<UpdateSupport> choose(const UpdateCodec& codec, std::span<const float> x,
                                                            const UpdateSeeds& seeds) const;
  [[nodiscard]] virtual std::optional<size_t> encode_chosen(const UpdateCodec& codec, std::span<const float> x,
                                                            const UpdateSeeds& seeds, const UpdateSupport& chosen,
                                                            MutableBytes out) const;
  // The entry of the sum that UpdateCodec::merge() makes of these payloads.
  [[nodiscard]] virtual std::optional<size_t> encode_sum(const UpdateCodec& codec, std::span<const UpdateTerm> terms,
                                                         size_t element_count, const UpdateSeeds& seeds,
                                                         MutableBytes out) const;
  virtual void add_payload(const UpdateCodec& codec, float coefficient, Bytes payload, const UpdateSupport& on,
                           std::span<float> target) const;
  virtual void decode(const UpdateCodec& codec, Bytes payload, std::span<float> out) const;

  // Of apply_entry(): whether the entry leaves R and m finite, and its step.
  [[nodiscard]] virtual bool entry_fits(const OuterRule& rule, const UpdateCodec& codec, float factor, Bytes entry,
                                        std::span<const float> params, std::span<const float> momentum) const;
  virtual void take_entry(const OuterRule& rule, const UpdateCodec& codec, float factor, Bytes entry,
                          std::span<float> params, std::span<float> momentum) const;
};

const SliceMath& host_slice_math();  // without state: any thread may call it at any time

// For vectors of this space. kCuda: of the current device; throws DeviceFailure where there is none.
std::unique_ptr<SliceMath> make_slice_math(MemorySpace space);

}  // namespace starling
