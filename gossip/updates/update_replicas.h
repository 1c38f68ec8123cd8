// All slices of one member's model, and what happens to them at a boundary. The arithmetic runs on the worker.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "gossip/updates/slice_replica.h"
#include "gossip/updates/update_slice.h"

namespace starling {

// A slice: a run of elements of the model, the same at every member.
struct SliceRange { size_t offset = 0, count = 0; };

// Cuts runs of whole sections, a larger section into several slices: at most slices_max slices. Each has at least
// kSliceElementsMin elements where the model has as many. Where slices_max allows it, each is of one part
// (update_parts.h) in fp32: a payload of several parts is put together in one more pass. Follows from the section sizes
// and slices_max alone.
inline constexpr size_t kSliceElementsMin = 16 * 1024;
std::vector<SliceRange> cut_slices(std::span<const size_t> section_sizes, size_t slices_max = kUpdateSlicesMax);

// One boundary: the drift joins the accumulators, the replicas take what came, x becomes R, new payloads are encoded.
struct BoundaryJob {
  std::span<float> x;                  // where the replicas lie. In: R, or R + accumulator, + drift; out: R
  std::vector<Backlog> backlogs;       // by slice
  bool hands_in = true;                // a round begins; else nothing is encoded
  std::vector<bool> handed_in_before;  // by slice: while the steps went on; empty: none
  bool makes_x = true;                 // false: x is left as it is, for the next boundary to make it R
  size_t members = 1;                  // of the round
  bool keeps_only_sent = false;        // what was never handed in is dropped
  const UpdateCodec* encoder = nullptr;
  const SketchTables* tables = nullptr;  // a new payload waits for the owner's request, and its table comes first
  uint32_t audited = 0;                  // the slice to be audited in this round

  // out
  // In: the member knows that it is sick. x or an accumulator was not finite: the own work is dropped, nothing is sent.
  bool sick = false;
  double rest = 0;                                    // the sum of the squares of all accumulators, if makes_x
  ReplicaTally splits;                                // of all slices, so far
  std::vector<std::optional<SentPayload>> handed_in;  // by slice
  std::vector<SharedBytes> own_tables;                // by slice; empty where something is handed in at once
  std::vector<LogHead> heads;                         // of the replicas
  Digest16 audit{};                                   // root of the audited slice
  Duration took{};                                    // by the clock of the thread that ran it; choosing included
  SelectTime select;
};

// A part of a boundary that makes x, while others are still waited for: one slice takes what came, and x becomes R.
struct KeepUpJob {
  uint32_t slice = 0;
  std::span<float> x;  // of the whole model, as the boundary before left it; out: R, for this slice
  Backlog backlog;
  LogHead head;  // out: of the replica
};

// A part of a boundary that comes before it: the drift of some slices is known while steps still go on.
struct EarlyJob {
  std::span<const float> x;  // of the whole model: R + drift, for these slices
  std::vector<uint32_t> slices;
  const UpdateCodec* encoder = nullptr;
  uint32_t audited = 0;

  // out
  std::vector<std::optional<SentPayload>> handed_in;  // as `slices`; fewer: the next one is not finite
  std::optional<Digest16> audit;                      // root of the audited slice, if it is among them
  Duration took{};                                    // by the clock of the thread that ran it; choosing included
  SelectTime select;
};

class UpdateReplicas {
 public:
  // `memory`: the whole model's, cut as `slices` say; `momentum` is empty without momentum. It must outlive the object.
  UpdateReplicas(const PeerId& self, uint64_t generation, std::span<const SliceRange> slices, const SliceMemory& memory,
                 const OuterRule& rule, const UpdateCodecs& codecs);

  // The memory holds the replicas of these logs. Before anything else.
  void restore(std::span<const SliceState> states);
  const std::vector<SliceReplica>& all() const { return replicas_; }
  ReplicaTally tally() const;                     // of all slices
  void run(BoundaryJob& job);                     // worker only
  void run_early(EarlyJob& job);                  // worker only; no entry is applied
  void keep_up(KeepUpJob& job);                   // worker only. REQUIRES: the boundary before did not make x
  void resume_with_residual(std::span<float> x);  // worker only; as SliceReplica's, of the whole model
  // Worker only. The payload that the slice's owner asked for.
  std::optional<SentPayload> submit(uint32_t slice, const UpdateCodec& codec, std::span<const uint32_t> requested) {
    return replicas_[slice].submit(codec, requested);
  }

 private:
  float clipped(const BoundaryJob& job) const;
  void take(const Backlog& backlog, SliceReplica& replica);
  bool submit(BoundaryJob& job, size_t slice);
  void make_x(size_t slice, std::span<float> x);

  std::vector<SliceRange> slices_;
  const UpdateVelocity velocity_;
  std::vector<SliceReplica> replicas_;
  std::vector<bool> drift_taken_;  // by slice: x is not R yet, but its drift is in the accumulator
  std::vector<bool> kept_up_;      // by slice: x is R already, though the boundary before did not make it
  std::vector<double> rest_;       // by slice: the accumulator's sum of squares when x became R
};

}  // namespace starling
