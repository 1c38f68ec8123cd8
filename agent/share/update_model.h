// An agent's part of a swarm that shares updates: the replica R that the logs make, its outer momentum, and what this
// agent has learned and no log counts. The trainer holds x = R, or R + what no log counts,
// + the drift of its steps.
//
// R, m and the accumulator lie where the trainer's params lie: a boundary copies payloads over a GPU's bus, and the
// slice that it audits. They stay in host memory in three cases: the codec has no loops for the GPU (SliceMath), parts
// are sent while backward goes on, or the GPU has little room.
//
// R and m are the swarm's: checkpoints keep them, with where the logs stand. The accumulator is this process's own:
// what it holds may have been counted by the time that another process begins.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "agent/share/model_memory.h"
#include "agent/train/trainer.h"
#include "compression/slice_math.h"
#include "compression/update_codec.h"
#include "gossip/exchange/options.h"
#include "gossip/updates/update_replicas.h"
#include "kernels/transfer.h"

namespace starling {

class UpdateModel final : public ModelMemory {
 public:
  // The trainer holds the genesis, and outlives the object. Throws std::runtime_error if a section of it could not be
  // shared.
  UpdateModel(Trainer& trainer, const ExchangeConfig& exchange);

  const std::vector<SliceRange>& slices() const { return slices_; }
  SliceMemory memory() { return {replica_.all(), momentum_.all(), accumulator_.all(), velocity_.all()}; }
  UpdateCodecs codecs() const { return {running_.get(), exact_.get(), math_.get()}; }
  const OuterRule& outer() const { return outer_; }

  // Where boundaries read R + drift and leave R, in the replica's space: the trainer's params, or a copy of them.
  std::span<float> x() { return stages_ ? staged_.all() : params_of_trainer(); }
  // x(), where steps that are told of part by part put what lies on a device; empty: the params are read in place.
  std::span<float> landing() { return stages_ ? x() : std::span<float>(); }
  void fill_x();              // from the trainer. Worker, as all below
  void show_x();              // to the trainer
  void replica_to_trainer();  // x = R

  bool begins_from_genesis() const override { return true; }
  void params_fetched() override { adopt_params(); }

  // Where the logs of the replica stand, by slice; empty: at their beginning. From load().
  const std::vector<SliceState>& restored() const { return restored_; }
  // save() asks these where the logs stand. They must outlive the calls of save().
  void follow(const UpdateReplicas& replicas) { replicas_ = &replicas; }

  // Little-endian: u8 0x82, u8 version 2, u16 zero, u32 slices, XXH3-128 of R; for each slice its head, table and last
  // norms; then m. R itself is what the checkpoint holds as params.
  std::vector<std::byte> save() const override;
  [[nodiscard]] bool load(std::span<const std::byte> saved) override;
  // A sick agent keeps its replica: the log is never rolled back.
  [[nodiscard]] bool load_rule(std::span<const std::byte>) override { return true; }

 private:
  void adopt_params();  // they are the replica; where the logs stand is not known
  std::span<float> params_of_trainer() { return {params_.data, params_.count}; }

  Trainer& trainer_;
  const View params_;
  const OuterRule outer_;
  const std::unique_ptr<UpdateCodec> running_, exact_;
  const std::unique_ptr<SliceMath> math_;
  const bool stages_;  // the params lie on a device, the replica in host memory
  std::vector<SliceRange> slices_;
  FloatMemory replica_, momentum_, accumulator_, velocity_;
  FloatMemory staged_;  // none if nothing is staged
  std::vector<SliceState> restored_;
  const UpdateReplicas* replicas_ = nullptr;
};

}  // namespace starling
