// The turn to touch the params: between two boundaries the loop's, at them the agent's. The loop's thread waits here
// while the agent has them; the agent's threads never wait for the loop, but for the state that a checkpoint keeps.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "agent/train/trainer.h"
#include "gossip/clock.h"

namespace starling {

class Handover {
 public:
  using Bytes = std::vector<std::byte>;
  enum class Answer {
    kGo,            // the loop's turn, still
    kChanged,       // again: a boundary was in between, and params may be others
    kRestored,      // the same, and restored() has what the loop gave with these params, until took_restored()
    kAgain,         // the agent's turn: wait()
    kStateWanted,   // a checkpoint is being written: give_state(), then wait()
    kOver,          // no more steps are wanted
    kParamsWanted,  // a boundary comes: the loop fills the buffers, then wait()
    kFailed,        // error() says why
  };

  explicit Handover(const Clock& clock) : clock_(clock) {}
  // Called on the loop's thread when it has handed over; safe from any thread.
  void set_wake(std::function<void()> wake);
  // From now on no round ends before its last step: not for a loss that is not finite, an end or an error.
  void keep_rounds_whole() { whole_rounds_ = true; }
  // The loop trains elsewhere, and the buffers hold what it has copied: at a boundary it is asked for that.
  void ask_for_params() { copies_ = true; }

  // ---- the loop's thread. Both wait for `patience` at most.
  Answer step(uint64_t samples, double loss, Duration patience);  // an optimizer step has ended
  Answer wait(Duration patience);
  void add_loss(double loss);  // of steps of this round that told none; before the boundary
  void give_state(std::span<const std::byte> state);
  void has_no_state();                            // now: the checkpoint that wants it is not written
  void finishing();                               // after kOver: no state follows
  std::shared_ptr<const Bytes> restored() const;  // null: nothing, or the loop has given another since
  void took_restored();
  void report(const Evaluation& evaluation);
  void leave();  // no more steps; those taken count

  // ---- the agent's threads
  void give(const LocalSteps& steps);
  bool with_agent() const;
  TimePoint last_step() const;  // or since when the loop has its turn; TimePoint::max(): it is the agent's
  StepReport take() const;
  bool has_evaluation() const;
  std::optional<Evaluation> take_evaluation();
  // Worker: waits until the loop, which waits for its turn, has given it; at most a minute, then throws StateMissing.
  Bytes ask_for_state();
  void restore(std::span<const std::byte> state);
  void end(const std::string& error);  // no more steps are wanted; empty: as it should be

  // ---- any thread
  std::string error() const;
  bool over() const;            // no step follows
  uint64_t steps() const;       // of the loop, since it began
  double rate() const;          // of the last LocalSteps
  uint64_t steps_left() const;  // of the round; 0: it is the agent's turn

 private:
  Answer answer(std::unique_lock<std::mutex>& lock, Duration patience);
  void hand_over(std::unique_lock<std::mutex>& lock);
  Bytes last_state();

  const Clock& clock_;
  mutable std::mutex mutex_;
  std::condition_variable to_loop_, to_worker_;
  std::function<void()> wake_;
  bool whole_rounds_ = false, copies_ = false;
  bool params_wanted_ = false;  // and still the loop's turn
  bool with_loop_ = false, left_ = false, over_ = false;
  bool fresh_ = false;  // given since the loop last looked
  bool wants_state_ = false, has_restored_ = false;
  bool last_state_ = false;   // the loop has given it after the end, or gives none
  bool keeps_state_ = false;  // the loop has given one that was not empty
  bool no_state_ = false;     // the last word of the loop was that it has none now
  LocalSteps asked_;
  StepReport report_;
  double loss_sum_ = 0;
  uint64_t steps_ = 0;
  TimePoint given_, last_step_, taken_back_;
  std::optional<Bytes> state_;  // after the last step; nullopt: the loop has not given it
  uint64_t states_given_ = 0;
  std::shared_ptr<const Bytes> restored_;
  std::optional<Evaluation> evaluation_;
  std::string error_;
};

}  // namespace starling
