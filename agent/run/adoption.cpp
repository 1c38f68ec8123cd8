#include "agent/run/adoption.h"

#include <chrono>
#include <cmath>
#include <span>
#include <utility>

#include <spdlog/spdlog.h>

#include "agent/run/first_params.h"
#include "kernels/transfer.h"
#include "kernels/vector_ops.h"

namespace starling {
namespace {

constexpr Duration kFetchEvery = std::chrono::seconds(1);  // where what came was not the model of most

}  // namespace

bool looks_like(std::span<const float> arrived, const OthersModel& model) {
  const Projection found = project({arrived.data(), arrived.size()});
  return projected_distance(found, model.theirs) <= model.within;
}

bool is_model_of_most(std::span<const float> arrived, const OthersModel& model, std::span<const float> own) {
  const double moves =
      std::sqrt(squared_distance(own.data(), arrived.data(), own.size()) / static_cast<double>(own.size()));
  return looks_like(arrived, model) && moves <= kMayBeFarther * model.apart();
}

void Adoption::look() {
  const uint64_t completed = rounds_.tally().completed();
  const bool none_counts = std::exchange(completed_, completed) == completed;
  const std::optional<OthersModel> model = rounds_.model_of_most();
  if (!model) {
    fetch_.reset();
    arrived_.reset();
  } else if (!arrived_ && (none_counts || rounds_.waits_for_model()) && clock_.now() >= next_fetch_) {
    next_fetch_ = clock_.now() + kFetchEvery;
    begin(*model);
  }
}

void Adoption::begin(const OthersModel& model) {
  spdlog::info("the other members agree, and this agent's model is too far away for them to count: it takes theirs");
  arrived_ = std::make_shared<Arrived>(Arrived{.model = model});
  worker_.submit([to = arrived_, count = params_.count] { to->params.resize(count); },  // which touches all of it
                 [this, to = arrived_] {
                   if (to == arrived_) fetch(to->model);
                 });
}

void Adoption::fetch(const OthersModel& model) {
  ModelFetchOptions options;
  options.gives = [model, allowed = projected_distance(model.own, model.theirs) / 2](const MemberMeta& meta) {
    return distance_to(meta, model.theirs, 1).value_or(INFINITY) <= allowed;
  };
  fetch_ = std::make_unique<ModelFetch>(
      options, params_.count * sizeof(float), router_.membership(), clock_, router_, worker_,
      [to = arrived_, place = params_sink({arrived_->params.data(), params_.count})](
          uint64_t offset_bytes, std::span<const std::byte> bytes) { return place(offset_bytes, bytes); },
      ++rng_seed_, router_.secret());
}

void Adoption::tick() {
  if (!arrived_) return;
  if (fetch_) {
    fetch_->tick();
    if (!fetch_->done()) return;
    fetch_.reset();
    worker_.submit(
        [to = arrived_, told = told_] { to->near = looks_like(std::span(to->params).first(told), to->model); },
        [to = arrived_] { to->checked = true; });
  } else if (arrived_->checked && !arrived_->near) {
    arrived_.reset();
  } else if (arrived_->checked && rounds_.phase() != Phase::kSettling) {
    rounds_.has_final_model();  // to be taken when the loop lets go of the params
  } else if (arrived_->checked && !arrived_->compares) {
    compare();
  }
}

void Adoption::compare() {
  arrived_->compares = true;
  worker_.submit(
      [to = arrived_, told = params_.part(0, told_)] {
        std::vector<float> own(told.count);
        copy_to_host(told, own.data());
        to->near = is_model_of_most(std::span(to->params).first(told.count), to->model, own);
      },
      [this, to = arrived_] {
        if (to != arrived_) return;
        if (to->near && rounds_.phase() == Phase::kSettling) rounds_.adopt({to, &to->params});  // else steps follow
        arrived_.reset();
      });
}

void Adoption::handle(const FrameHeader& header, const BootstrapMessage& message, const SharedBytes& payload) {
  if (fetch_) fetch_->handle(header, message, payload);
}

}  // namespace starling
