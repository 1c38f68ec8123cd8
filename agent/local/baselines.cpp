#include "agent/local/baselines.h"

#include <thread>

namespace starling {
namespace {

using namespace std::chrono_literals;

constexpr Duration kStallLimit = 10min;  // without one step anywhere: something hangs

class BaselineRuns {
 public:
  BaselineRuns(const SwarmCommandLines& lines, uint32_t shards, std::filesystem::path dir, Clock& clock)
      : lines_(lines),
        shards_(shards),
        dir_(std::move(dir)),
        clock_(clock),
        table_(clock),
        last_progress_(clock.now()) {}

  void run(SignalGate& gate) {
    const size_t at_once = std::max(1u, std::thread::hardware_concurrency());
    while (members_.size() <= shards_ || running() > 0) {
      while (members_.size() <= shards_ && running() < at_once) start_next();
      if (gate.wait(100ms)) return;  // members end with this object
      for (const auto& member : members_) {
        if (member->poll()) last_progress_ = clock_.now();
      }
      if (clock_.now() - last_progress_ > kStallLimit) give_up();
      table_.update(members_, false);
    }
    table_.update(members_, true);
    table_.finish();
  }

  BaselineResult result() const {
    BaselineResult result;
    result.alone.resize(shards_);
    for (size_t i = 0; i < members_.size(); ++i) {
      const SwarmMember& member = *members_[i];
      if (member.state() == ProcessState::kFailed) {
        result.failure += member.name() + " " + member.failure() + "; see " + member.log_path() + "\n";
      }
      if (member.state() != ProcessState::kFinished) continue;
      if (i == 0)
        result.central = member.track().accuracy;
      else
        result.alone[i - 1] = member.track().accuracy;
    }
    return result;
  }

 private:
  size_t running() const {
    size_t count = 0;
    for (const auto& member : members_) count += member->running() ? 1 : 0;
    return count;
  }

  void start_next() {
    if (members_.empty()) {
      const auto dir = dir_ / "central";
      members_.push_back(std::make_unique<SwarmMember>("central", dir, 0, lines_.central("central", dir)));
      return;
    }
    const auto shard = static_cast<uint32_t>(members_.size() - 1);
    const std::string name = "alone-" + std::to_string(shard);
    const auto dir = dir_ / name;
    members_.push_back(std::make_unique<SwarmMember>(name, dir, shard, lines_.alone(name, dir, shard)));
  }

  void give_up() {
    for (const auto& member : members_) {
      if (member->running()) member->give_up("made no step for 10 minutes");
    }
    last_progress_ = clock_.now();
  }

  const SwarmCommandLines& lines_;
  uint32_t shards_;
  std::filesystem::path dir_;
  Clock& clock_;
  LiveTable table_;
  TimePoint last_progress_;
  SwarmMembers members_;  // central first, then one for each shard
};

}  // namespace

BaselineResult run_baselines(const SwarmCommandLines& lines, uint32_t shards, const std::filesystem::path& dir,
                             Clock& clock, SignalGate& gate) {
  BaselineRuns runs(lines, shards, dir, clock);
  runs.run(gate);
  return runs.result();
}

}  // namespace starling
