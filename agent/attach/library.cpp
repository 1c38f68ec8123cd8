// The C API. Each function catches everything, and knows a handle that is not open.
#include "agent/attach/starling.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "agent/attach/attached_agent.h"
#include "agent/attach/fork_guard.h"

using namespace starling;

// Only its address is used: what it stands for is in `open_swarms`.
struct starling_swarm {};

namespace {

constexpr uint32_t kRankMax = 64;
constexpr uint32_t kAveraged = 1, kFrozen = 2;  // starling_tensor.averaged
constexpr uint64_t kTensorsMax = 1 << 20, kLabelsMax = 1 << 20;
constexpr const char* kUnnamed = "an error without a description, a bug of Starling; see the lines logged before it";

struct OpenSwarm {
  starling_swarm handle;
  std::unique_ptr<AttachedAgent> agent;
  std::atomic<bool> inside = false;
  std::mutex mutex;
  std::string message;

  void say(const std::string& text) {
    const std::lock_guard lock(mutex);
    message = text;
  }
};

struct OpenSwarms {
  std::mutex mutex;
  std::map<const starling_swarm*, std::shared_ptr<OpenSwarm>> all;
};

// Never destroyed: a thread of the caller's may be inside a call while the process exits.
OpenSwarms& open_swarms() {
  static OpenSwarms& swarms = *new OpenSwarms;
  return swarms;
}

std::shared_ptr<OpenSwarm> find(const starling_swarm* handle) {
  OpenSwarms& swarms = open_swarms();
  const std::lock_guard lock(swarms.mutex);
  const auto found = swarms.all.find(handle);
  return found == swarms.all.end() ? nullptr : found->second;
}

std::atomic<uint64_t> first_generation = 0;  // of the process that has swarms open; 0: none has

// A child may not touch the lock, which a thread of its parent's may have held.
bool is_childs() { return first_generation != 0 && first_generation != process_generation(); }

class Inside {
 public:
  explicit Inside(OpenSwarm& swarm) : swarm_(swarm), entered_(!swarm.inside.exchange(true)) {}
  ~Inside() {
    if (entered_) swarm_.inside = false;
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  bool entered() const { return entered_; }

 private:
  OpenSwarm& swarm_;
  const bool entered_;
};

// `call` of the swarm; what it throws becomes its message.
template <typename Call>
auto with(const starling_swarm* handle, Call call) -> decltype(call(std::declval<OpenSwarm&>())) {
  if (is_childs()) return STARLING_FORKED;
  const std::shared_ptr<OpenSwarm> swarm = find(handle);
  if (!swarm) return STARLING_CLOSED;
  try {
    return call(*swarm);
  } catch (const std::exception& error) {
    swarm->say(error.what());
    return STARLING_FAILED;
  } catch (...) {
    swarm->say(kUnnamed);
    return STARLING_FAILED;
  }
}

// The same for what one thread at a time may do.
template <typename Call>
int driving(const starling_swarm* handle, Call call) {
  return with(handle, [&](OpenSwarm& swarm) -> int {
    const Inside inside(swarm);
    if (inside.entered()) return call(swarm);
    swarm.say("two threads of this program drive one swarm at once; let one of them call step()");
    return STARLING_BUSY;
  });
}

int result_of(OpenSwarm& swarm, Handover::Answer answer) {
  switch (answer) {
    case Handover::Answer::kGo: return STARLING_GO;
    case Handover::Answer::kChanged: return STARLING_CHANGED;
    case Handover::Answer::kRestored: return STARLING_RESTORED;
    case Handover::Answer::kAgain: return STARLING_AGAIN;
    case Handover::Answer::kStateWanted: return STARLING_STATE_WANTED;
    case Handover::Answer::kOver: return STARLING_OVER;
    case Handover::Answer::kParamsWanted: return STARLING_PARAMS_WANTED;
    case Handover::Answer::kFailed: break;
  }
  swarm.say(swarm.agent->handover().error());
  return STARLING_FAILED;
}

Duration milliseconds(int count) { return std::chrono::milliseconds(std::clamp(count, 0, 60'000)); }

int64_t copy_text(const std::string& text, char* to, uint64_t size) {
  if (to != nullptr && size > 0) std::snprintf(to, size, "%s", text.c_str());
  return static_cast<int64_t>(text.size());
}

int64_t copy_bytes(const Handover::Bytes& bytes, void* to, uint64_t size) {
  if (to != nullptr && size >= bytes.size() && !bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
  return static_cast<int64_t>(bytes.size());
}

ModelTensor tensor_of(const starling_tensor& given) {
  if (given.name == nullptr || given.rank > kRankMax || (given.rank > 0 && given.shape == nullptr)) {
    throw std::runtime_error("a tensor in starling_options has no name, no shape, or more than 64 dimensions");
  }
  ModelTensor tensor{given.name, given.averaged == kAveraged, {given.shape, given.shape + given.rank}, given.offset};
  if (given.averaged == kFrozen) tensor.frozen = std::exchange(tensor.offset, 0);
  return tensor;
}

AttachedOptions options_of(const starling_options& given) {
  if (given.params == nullptr || given.tensors == nullptr || given.tensor_count > kTensorsMax) {
    throw std::runtime_error("starling_options lacks params or tensors, or has more than 2^20 of them");
  }
  AttachedOptions options;
  options.config = given.config != nullptr ? given.config : "";
  for (const char* const* one = given.set; one != nullptr && *one != nullptr; ++one) options.set.emplace_back(*one);
  const auto view = [&](float* data) { return View{data, data != nullptr ? given.count : 0, MemorySpace::kHost}; };
  options.memory = {view(given.params), view(given.momentum)};
  options.whole_rounds = given.whole_rounds != 0;
  if (given.label_count > kLabelsMax || (given.label_count > 0 && given.labels == nullptr)) {
    throw std::runtime_error("starling_options.labels is NULL, or has more than 2^20 labels");
  }
  options.labels.assign(given.labels, given.labels + given.label_count);
  options.adaptive = given.adaptive != 0;
  options.copied = given.copied != 0;
  for (uint64_t i = 0; i < given.tensor_count; ++i) options.tensors.push_back(tensor_of(given.tensors[i]));
  return options;
}

int open_swarm(const starling_options* options, starling_swarm** out) {
  if (options == nullptr || out == nullptr || options->size != sizeof *options) {
    throw std::runtime_error(
        "starling_open: options and out must not be NULL, and options->size must be sizeof(starling_options)");
  }
  if (is_childs()) {
    throw std::runtime_error("this process was forked from one that had joined a swarm; start it by spawn instead");
  }
  auto swarm = std::make_shared<OpenSwarm>();
  swarm->agent = std::make_unique<AttachedAgent>(options_of(*options));
  first_generation = process_generation();
  OpenSwarms& swarms = open_swarms();
  const std::lock_guard lock(swarms.mutex);
  *out = &swarm->handle;
  swarms.all.emplace(*out, std::move(swarm));
  return STARLING_GO;
}

void fill(starling_now& now, const AttachedStatus& status, const Handover& handover) {
  now.phase = static_cast<int32_t>(status.phase);
  now.own_steps = handover.steps();
  now.steps_left = handover.steps_left();
  now.steps = status.steps;
  now.steps_of_swarm = status.swarm_steps;
  now.stop_after = status.stop_after;
  now.round = status.round;
  now.peers = status.peers;
  now.exchanges = status.exchanges;
  now.failed = status.failed;
  now.rate_scale = status.rate_scale;
  now.distance = status.distance;
  now.carries_momentum = status.carries_momentum ? 1 : 0;
  now.agreed = status.agreed ? static_cast<int32_t>(*status.agreed) : -1;
}

}  // namespace

extern "C" {

int starling_abi(void) { return STARLING_ABI; }

int starling_open(const starling_options* options, starling_swarm** out, char* error, uint64_t error_size) {
  try {
    return open_swarm(options, out);
  } catch (const std::exception& caught) {
    copy_text(caught.what(), error, error_size);
    return STARLING_FAILED;
  } catch (...) {
    copy_text(kUnnamed, error, error_size);
    return STARLING_FAILED;
  }
}

int starling_wait(starling_swarm* handle, int ms) {
  return driving(handle,
                 [ms](OpenSwarm& swarm) { return result_of(swarm, swarm.agent->handover().wait(milliseconds(ms))); });
}

int starling_step(starling_swarm* handle, uint64_t samples, double loss, int ms) {
  return driving(handle, [=](OpenSwarm& swarm) {
    return result_of(swarm, swarm.agent->handover().step(samples, loss, milliseconds(ms)));
  });
}

int starling_add_loss(starling_swarm* handle, double loss) {
  return driving(handle, [=](OpenSwarm& swarm) -> int {
    swarm.agent->handover().add_loss(loss);
    return STARLING_GO;
  });
}

int starling_put_state(starling_swarm* handle, const void* data, uint64_t size) {
  if (data == nullptr && size > 0 && size != STARLING_NO_STATE) return STARLING_BAD_ARGUMENT;
  return driving(handle, [=](OpenSwarm& swarm) -> int {
    if (data == nullptr && size == STARLING_NO_STATE) {
      swarm.agent->handover().has_no_state();
      return STARLING_GO;
    }
    swarm.agent->handover().give_state({static_cast<const std::byte*>(data), size});
    return STARLING_GO;
  });
}

int64_t starling_take_state(starling_swarm* handle, void* to, uint64_t size) {
  return with(handle, [=](OpenSwarm& swarm) -> int64_t {
    const auto restored = swarm.agent->handover().restored();
    if (restored && to != nullptr && size >= restored->size()) swarm.agent->handover().took_restored();
    return restored ? copy_bytes(*restored, to, size) : 0;
  });
}

int starling_report(starling_swarm* handle, double accuracy, double loss, uint64_t samples) {
  if (!(accuracy >= 0 && accuracy <= 1)) return STARLING_BAD_ARGUMENT;
  return with(handle, [=](OpenSwarm& swarm) -> int {
    swarm.agent->handover().report({accuracy, loss, samples});
    return STARLING_GO;
  });
}

int starling_look(starling_swarm* handle, starling_now* now) {
  if (now == nullptr || now->size != sizeof *now) return STARLING_BAD_ARGUMENT;
  return with(handle, [now](OpenSwarm& swarm) -> int {
    fill(*now, swarm.agent->status(), swarm.agent->handover());
    return STARLING_GO;
  });
}

int64_t starling_log(starling_swarm* handle, int* level, char* line, uint64_t size) {
  return with(handle, [=](OpenSwarm& swarm) -> int64_t {
    LogLine next;
    if (!swarm.agent->log().pop(&next)) return 0;
    if (level != nullptr) *level = next.level;
    return std::max<int64_t>(1, copy_text(next.text, line, size));
  });
}

int64_t starling_place(starling_swarm* handle, char* text, uint64_t size) {
  return with(handle, [=](OpenSwarm& swarm) -> int64_t { return copy_text(swarm.agent->place(), text, size); });
}

int64_t starling_message(starling_swarm* handle, char* text, uint64_t size) {
  return with(handle, [=](OpenSwarm& swarm) -> int64_t {
    const std::lock_guard lock(swarm.mutex);
    return copy_text(swarm.message, text, size);
  });
}

int starling_leave(starling_swarm* handle) {
  return with(handle, [](OpenSwarm& swarm) -> int {
    swarm.agent->leave();
    return STARLING_GO;
  });
}

int starling_finish(starling_swarm* handle, int ms) {
  return driving(handle, [ms](OpenSwarm& swarm) -> int {
    swarm.agent->handover().finishing();
    if (!swarm.agent->wait_for_end(milliseconds(ms))) return STARLING_AGAIN;
    const std::string error = swarm.agent->handover().error();
    if (error.empty()) return STARLING_OVER;
    swarm.say(error);
    return STARLING_FAILED;
  });
}

int starling_close(starling_swarm* handle) {
  if (is_childs()) return STARLING_FORKED;
  try {
    OpenSwarms& swarms = open_swarms();
    std::shared_ptr<OpenSwarm> swarm;
    {
      const std::lock_guard lock(swarms.mutex);
      const auto found = swarms.all.find(handle);
      if (found == swarms.all.end()) return STARLING_CLOSED;
      swarm = std::move(found->second);
      swarms.all.erase(found);
      if (swarms.all.empty()) first_generation = 0;
    }
    swarm->agent->leave();  // a call in another thread then ends, and the last of both frees
    while (!swarm->agent->wait_for_end(std::chrono::seconds(1))) {
    }  // the caller may free the buffers, or end the process
    return STARLING_GO;
  } catch (...) {
    return STARLING_FAILED;
  }
}

}  // extern "C"
