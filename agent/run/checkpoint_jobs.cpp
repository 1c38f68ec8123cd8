#include "agent/run/checkpoint_jobs.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <spdlog/spdlog.h>

#include "kernels/check.h"
#include "kernels/transfer.h"

namespace starling {

// Read on the control thread after the job that fills it.
struct CheckpointJobs::Save {
  Progress progress;
  TimePoint began;
  bool alone = true;
  std::function<SaveResult()> write;  // null: there was no room for a copy
  SaveResult result;
};

std::shared_ptr<CheckpointJobs::Save> CheckpointJobs::begin(const Progress& progress) const {
  auto save = std::make_shared<Save>(progress, clock_.now());
  membership_.visit_alive([&](const Member& member) { save->alone &= member.record.meta.role != Role::kAgent; });
  return save;
}

void CheckpointJobs::ended(const Save& save) {
  error_ = save.result.error;
  saved_ |= save.result.ok();
  if (save.result.ok()) on_saved_();
  const double ms = seconds(clock_.now() - save.began) * 1e3;
  observer_.on(CheckpointSaved{save.progress.steps, save.result.path, ms, save.result.error});
}

void CheckpointJobs::when_written(std::function<void()> job) {
  if (!writing_) return job();
  STARLING_CHECK(!after_writing_);
  after_writing_ = std::move(job);
}

void CheckpointJobs::make_room() {
  if (writing_ || room_ != Room::kNone) return;
  room_ = Room::kBeingMade;
  const size_t floats = trainer_.params().count + trainer_.momentum().count;
  writer_.submit([this, floats] { keeper_.make_room(floats); },
                 [this] {
                   if (room_ == Room::kBeingMade) room_ = Room::kMade;  // else the copy came first
                 });
}

void CheckpointJobs::give_room_back() {
  if (room_ == Room::kNone) return;
  writer_.submit([this] { keeper_.make_room(0); }, [this] { room_ = Room::kNone; });
}

void CheckpointJobs::save_beside_then(const Progress& progress, std::function<void()> written,
                                      std::function<void()> next) {
  STARLING_CHECK(!writing_);
  room_ = Room::kNone;
  const std::shared_ptr<Save> save = begin(progress);
  worker_.submit(
      [this, save] {
        std::vector<std::byte> memory = model_.save();
        try {
          save->write = keeper_.copy_to_save(save->progress, trainer_, memory, save->alone);
          if (!save->write) save->result = keeper_.save(save->progress, trainer_, memory, save->alone);
        } catch (const StateMissing& missing) {
          save->result = {"", missing.what()};
        }
      },
      [this, save, written = std::move(written), next = std::move(next)] {
        if (!save->write) {
          ended(*save);
          written();
        } else {
          writing_ = true;
          writing_since_ = clock_.now();
          writer_.submit(
              [save] {
                save->result = save->write();
                save->write = nullptr;  // with all that it holds
              },
              [this, save, written] {
                writing_ = false;
                ended(*save);
                written();
                if (after_writing_) std::exchange(after_writing_, nullptr)();
              });
        }
        next();
      });
}

void CheckpointJobs::save_then(const Progress& progress, std::function<void()> next) {
  when_written([this, progress, next = std::move(next)] {
    const std::shared_ptr<Save> save = begin(progress);
    worker_.submit(
        [this, save] {
          try {
            save->result = keeper_.save(save->progress, trainer_, model_.save(), save->alone);
          } catch (const StateMissing& missing) {
            save->result = {"", missing.what()};
          }
        },
        [this, save, next] {
          ended(*save);
          next();
        });
  });
}

void CheckpointJobs::restore_then(std::function<void(const std::optional<Progress>&)> next) {
  // Filled by the worker; read on the control thread after the job is done.
  auto found = std::make_shared<std::optional<Progress>>();
  when_written([this, found, next = std::move(next)] {
    worker_.submit(
        [this, found] {
          Progress progress;
          std::vector<std::byte> memory;
          if (!keeper_.restore(&progress, trainer_, &memory)) return;
          *found = progress;
          if (!model_.load_rule(memory))
            spdlog::warn("the saved state of the local rule is damaged; the rule keeps its own");
        },
        [found, next] { next(*found); });
  });
}

void CheckpointJobs::replace_then(std::shared_ptr<const std::vector<float>> params, std::function<void()> next) {
  worker_.submit([this, params] { copy_from_host(params->data(), trainer_.params()); },
                 [this, next = std::move(next)] {
                   trainer_.params_changed();
                   model_.params_fetched();
                   next();
                 });
}

}  // namespace starling
