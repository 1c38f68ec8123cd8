#include "agent/observe/log.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include <spdlog/spdlog.h>

#include "agent/observe/event_fields.h"
#include "agent/report/format.h"
#include "agent/report/pair_report.h"

namespace starling {
namespace {

// "loss 0.312, "; empty before the first step.
std::string print_loss(const AgentStatus& status) {
  return status.loss ? fmt::format("loss {:.3g}, ", *status.loss) : "";
}

// "accuracy 94.2 %, ", with the step that it is of where that was an earlier one; empty when it was not measured.
std::string print_accuracy(const AgentStatus& status, uint64_t evaluated_at) {
  if (!status.accuracy) return "";
  const std::string of = evaluated_at < status.steps ? fmt::format(" at step {}", evaluated_at) : "";
  return fmt::format("accuracy {:.1f} %{}, ", 100 * *status.accuracy, of);
}

// "carol (1f9a03c2)"; "1f9a03c2 at 10.0.0.3:7400" if it has no name.
std::string print_member(const MemberChanged& member) {
  const std::string id = member.peer.substr(0, 8);
  if (!member.name.empty()) return fmt::format("{} ({})", member.name, id);
  return member.address.empty() ? id : fmt::format("{} at {}", id, member.address);
}

void print(const MemberChanged& member) {
  const std::string who = print_member(member);
  if (member.change == "died")
    spdlog::warn("{} is gone", who);
  else if (member.change == "suspected")
    spdlog::info("{} does not answer; suspected", who);
  else if (member.change == "alive")
    spdlog::info("{} answers again", who);
  else
    spdlog::info("{} {}", who, member.change);  // joined | left | restarted
}

// "25 exchanges", ", 2 late" and ", 1 failed" where some were.
std::string print_exchanges(const ExchangeCounts& counts) {
  std::string text = print_count(counts.done, "exchange");
  if (counts.late > 0) text += fmt::format(", {} late", counts.late);
  if (counts.failed > 0) text += fmt::format(", {} failed", counts.failed);
  return text;
}

// ", 0.002 off the mean, spread 0.004"; empty where no other model is known.
std::string print_spread(const AgentStatus& status) {
  if (!status.swarm_distance || !status.spread) return "";
  return fmt::format(", {:.2g} off the mean, spread {:.2g}", *status.swarm_distance, *status.spread);
}

// ", 12 left out as far away (carol)"
std::string print_left_out(const AgentStatus& status) {
  if (status.exchanges.left_out == 0) return "";
  return fmt::format(", {} left out as far away ({})", status.exchanges.left_out, status.left_out_last);
}

// ", 12 refused, last of carol"
std::string print_refused(const AgentStatus& status) {
  if (status.updates.refused() == 0) return "";
  const std::string& last = status.refused_last;
  return fmt::format(", {} refused{}", status.updates.refused(), last.empty() ? "" : ", last of " + last);
}

// ", 3 buckets since round 208, 2 plans refused"
std::string print_plan(const UpdateCounters& updates) {
  std::string text;
  if (updates.buckets > 0) text += fmt::format(", {} buckets since round {}", updates.buckets, updates.plan_since);
  if (updates.plans_refused > 0) text += fmt::format(", {} plans refused", updates.plans_refused);
  return text;
}

// ", 120 entries, 2 behind, 0.31 held back, log 1f9a03c2"
std::string print_updates(const AgentStatus& status) {
  const UpdateCounters& updates = status.updates;
  const uint64_t splits = updates.short_splits + updates.long_splits;
  return fmt::format(", {} entries{}{}{}{}, {:.2g} held back, log {}", updates.entries,
                     updates.behind > 0 ? fmt::format(", {} behind", updates.behind) : "",
                     splits > 0 ? fmt::format(", {} splits", splits) : "", print_refused(status), print_plan(updates),
                     status.held_back.value_or(0), status.log_heads.substr(0, 8));
}

// What was counted after `before`.
PairReport since(const PairReport& before, const PairReport& now) {
  PairReport lately{"", {}, now.steps - before.steps, now.drift};
  event_fields::for_each_field<PairwiseCounters>([&](const auto& field) {
    lately.counters.*field.value = now.counters.*field.value - before.counters.*field.value;
  });
  return lately;
}

// " (worker: 0.8 select, 0.2 ms encode)", beside the trainer and within what is exposed; empty where a codec sends all.
std::string print_worker(const StepBreakdown& step) {
  if (!step.select_ms) return "";
  return fmt::format(" (worker: {:.1f} select, {:.1f} ms encode)", *step.select_ms, step.encode_ms.value_or(0));
}

// "; step 3.1 forward + 6.0 backward + 0.4 other + 0.2 jobs + 2.5 ms exposed"; empty where nothing was measured.
std::string print_step(const StepBreakdown& step) {
  if (!step.exposed_ms) return "";
  const std::string jobs = step.jobs_ms.value_or(0) > 0 ? fmt::format("{:.1f} jobs + ", *step.jobs_ms) : "";
  if (!step.backward_ms)
    return fmt::format("; {}{:.1f} ms a step exposed", jobs, *step.exposed_ms) + print_worker(step);
  return fmt::format("; step {:.1f} forward + {:.1f} backward + {:.1f} other + {}{:.1f} ms exposed",
                     step.forward_ms.value_or(0), *step.backward_ms, step.other_ms.value_or(0), jobs,
                     *step.exposed_ms) +
         print_worker(step);
}

// ", 2 threads" where the trainer chooses their number.
std::string print_chosen(uint64_t threads) { return threads > 0 ? ", " + print_count(threads, "thread") : ""; }

// Others may remove what was saved.
bool is_there(const std::string& file) {
  std::error_code error;
  return !file.empty() && std::filesystem::exists(file, error);
}

double mega(uint64_t bytes) { return static_cast<double>(bytes) / 1e6; }

}  // namespace

void Log::on(const Event& event) {
  if (const auto* status = std::get_if<AgentStatus>(&event)) {
    print_status(*status);
  } else if (const auto* member = std::get_if<MemberChanged>(&event)) {
    print(*member);
  } else if (const auto* evaluated = std::get_if<Evaluated>(&event)) {
    evaluated_at_ = evaluated->steps;
  } else if (const auto* joined = std::get_if<Joined>(&event)) {
    spdlog::info("training from step {} ({}): {} params, {}", joined->steps, joined->how, joined->params, joined->data);
  } else if (const auto* saved = std::get_if<CheckpointSaved>(&event)) {
    if (saved->error.empty()) {
      saved_ = saved->file;
      last_was_saved_ = true;
      return;
    }
    last_was_saved_ = false;
    spdlog::error("checkpoint failed: {}{}", saved->error, is_there(saved_) ? "; the last one is " + saved_ : "");
  } else if (const auto* sick = std::get_if<BecameSick>(&event)) {
    spdlog::error("step {}: {}; sharing stopped, going back to the last good state", sick->steps, sick->reason);
  } else if (const auto* end = std::get_if<Finished>(&event)) {
    const bool left = end->reason == "signal";
    if (left && end->steps == 0) return spdlog::info("leaving before the first step: nothing is trained");
    const char* agreed = ", all models agree";
    if (!end->settled.value_or(true)) agreed = ", the models do not agree";
    if (!end->settled) agreed = "";
    const char* where = last_was_saved_ ? "; the model is in " : "; not saved, the newest model that was is in ";
    const bool apart = !left && end->stop_after > 0 && end->steps != end->stop_after;
    const std::string swarm = apart ? fmt::format(" (the swarm's: {})", end->stop_after) : "";
    spdlog::info("{} at step {}{}: {}{}{}{}{}", left ? "leaving" : "finished", end->steps, swarm, print_loss(*end),
                 print_accuracy(*end, evaluated_at_), print_count(end->exchanges.done, "exchange"), agreed,
                 is_there(saved_) ? where + saved_ : "");
  }
}

// An agent that joins and a registry take no steps; what the former waits for is logged where it waits.
void Log::print_status(const AgentStatus& status) {
  if (status.phase == "joining" || status.phase == "registry") return;
  if (status.steps == steps_printed_ && status.phase == "training") return;
  steps_printed_ = status.steps;
  print_threads(status.threads);
  const bool missed = status.blocks.due > status.blocks.counted + status.blocks.old;
  const std::string log = status.log_heads.empty() ? "" : print_updates(status);
  spdlog::debug("round {}: step {}, {}{}{}, {}{}{}, {:.1f} MB out{}{}{}", status.round, status.steps,
                print_loss(status), print_accuracy(status, evaluated_at_), print_count(status.peers, "peer"),
                print_exchanges(status.exchanges), print_left_out(status),
                missed ? fmt::format(", {:.1f} % of blocks missed", 100 * status.blocks.missed_part()) : "",
                mega(status.bytes_sent), print_spread(status), log, print_chosen(status.threads));
  print_details(status);
}

// Where the time went, for who looks for it: too long to be read each second.
void Log::print_details(const AgentStatus& status) {
  const PairReport pairs{"", status.pairs, status.steps_taken, status.drift};
  const PairReport before = std::exchange(pairs_printed_, pairs);
  std::string text;
  if (pairs.any()) text += "; exchanges: " + print_pairs_line(since(before, pairs), status.pairs);
  if (status.distance) text += fmt::format("; {:.2g} from the last partner", *status.distance);
  text += print_step(status.step);
  if (!text.empty()) spdlog::debug("{}", text.substr(2));
}

// Once: each line of status then has their number.
void Log::print_threads(uint64_t threads) {
  if (threads == 0 || std::exchange(threads_explained_, true)) return;
  spdlog::info("{} for a step, found by trial: runs differ in their last bits (--threads {} fixes it)",
               print_count(threads, "thread"), threads);
}

}  // namespace starling
