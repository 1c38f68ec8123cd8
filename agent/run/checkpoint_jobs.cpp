#include "agent/run/checkpoint_jobs.h"

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <spdlog/spdlog.h>

namespace starling {

void CheckpointJobs::save_then(const Progress& progress, std::function<void()> next) {
  auto saved = std::make_shared<SaveResult>();
  const TimePoint began = clock_.now();
  worker_.submit(
      [this, saved, progress] { *saved = keeper_.save(progress, trainer_, model_.save()); },
      [this, saved, began, progress, next = std::move(next)] {
        const double ms = seconds(clock_.now() - began) * 1e3;
        if (saved->ok()) on_saved_();
        observer_.on(CheckpointSaved{progress.steps, saved->path, ms, saved->error});
        next();
      });
}

void CheckpointJobs::restore_then(std::function<void(const std::optional<Progress>&)> next) {
  // Filled by the worker; read on the control thread after the job is done.
  auto found = std::make_shared<std::optional<Progress>>();
  worker_.submit(
      [this, found] {
        Progress progress;
        std::vector<std::byte> memory;
        if (!keeper_.restore(&progress, trainer_, &memory)) return;
        *found = progress;
        if (!model_.load_rule(memory)) spdlog::warn("what the local rule remembered is damaged; it goes on as it is");
      },
      [found, next = std::move(next)] { next(*found); });
}

}  // namespace starling
