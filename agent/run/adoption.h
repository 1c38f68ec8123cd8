// While settling an agent may be left alone: most members agree, and its model is too far from theirs to count, as it
// hardly took part. It then takes theirs, so that all end with one model. Their records tell which model that is, and
// what donors send is compared with them.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "agent/run/rounds.h"
#include "bootstrap/model_fetch.h"
#include "bootstrap/router.h"
#include "kernels/projection.h"

namespace starling {

// Whether donors sent what the records tell, or another model: by the projection alone, and by where the params go.
// `own`: this agent's params, of the same size.
bool looks_like(std::span<const float> arrived, const OthersModel& model);
bool is_model_of_most(std::span<const float> arrived, const OthersModel& model, std::span<const float> own);

class Adoption {
 public:
  // Of `params` records tell the first `told`. All references outlive the object.
  Adoption(View params, size_t told, Rounds& rounds, Router& router, Worker& worker, const Clock& clock,
           uint64_t rng_seed)
      : params_(params),
        told_(told),
        rounds_(rounds),
        router_(router),
        worker_(worker),
        clock_(clock),
        rng_seed_(rng_seed) {}

  // Once a second. Begins to fetch where most agree without this agent, and no exchange counted since the last look,
  // or its rounds wait.
  void look();
  void tick();  // hands over what came
  void handle(const FrameHeader& header, const BootstrapMessage& message, const SharedBytes& payload);
  TimePoint next_deadline() const { return fetch_ ? fetch_->next_deadline() : TimePoint::max(); }

 private:
  // Of a fetch, which its jobs may outlive.
  struct Arrived {
    std::vector<float> params;
    OthersModel model;
    bool checked = false, near = false, compares = false;
  };
  void begin(const OthersModel& model);
  void fetch(const OthersModel& model);
  void compare();

  const View params_;
  const size_t told_;
  Rounds& rounds_;
  Router& router_;
  Worker& worker_;
  const Clock& clock_;
  uint64_t rng_seed_;       // another for each fetch, so that it asks other donors
  uint64_t completed_ = 0;  // exchanges, at the last look
  TimePoint next_fetch_;
  std::shared_ptr<Arrived> arrived_;   // null: nothing is fetched
  std::unique_ptr<ModelFetch> fetch_;  // null: not fetching, or all has come
};

}  // namespace starling
