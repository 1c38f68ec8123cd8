#include "agent/run/meetings.h"

#include <cmath>

namespace starling {
namespace {

const char* outcome_name(ExchangeOutcome outcome) {
  switch (outcome) {
    case ExchangeOutcome::kDone: return "done";
    case ExchangeOutcome::kLate: return "late";
    case ExchangeOutcome::kFailed: return "failed";
    case ExchangeOutcome::kBusy: return "busy";
  }
  return "?";
}

}  // namespace

void Meetings::take(const std::vector<ExchangeReport>& reports, uint64_t steps, double params_rms) {
  for (const ExchangeReport& report : reports) {
    count(report);
    tell_sampler(report);
    if (report.distance >= 0 && std::isfinite(report.distance)) {
      distance_ = params_rms > 0 ? report.distance / params_rms : report.distance;
    }
    observe(report, steps);
  }
}

void Meetings::count(const ExchangeReport& report) {
  switch (report.outcome) {
    case ExchangeOutcome::kDone: ++tally_.done; break;
    case ExchangeOutcome::kLate:
      ++tally_.late;
      last_late_ = {sampler_.name_of(report.peer), report.blocks_mixed, report.blocks_total,
                    report.payload_bytes_received, report.duration};
      break;
    case ExchangeOutcome::kFailed: ++tally_.failed; break;
    case ExchangeOutcome::kBusy: break;
  }
  for (const PeerId& peer : report.left_out) {
    ++tally_.left_out;
    left_out_last_ = sampler_.name_of(peer);
    if (left_out_last_.empty()) left_out_last_ = peer.short_name();
  }
}

void Meetings::tell_sampler(const ExchangeReport& report) {
  // While settling there are no steps between attempts, and a busy partner would be asked again and again.
  if (report.outcome == ExchangeOutcome::kBusy && report.initiated && settling_.active()) {
    sampler_.busy(report.peer, report.free_in);
  }
  // Only silence counts as failed, because it costs a deadline; a partner that answered costs nothing.
  if (report.outcome == ExchangeOutcome::kFailed && report.payload_bytes_received == 0 &&
      report.duration >= deadline_min_) {
    sampler_.failed(report.peer);
  } else if (report.outcome == ExchangeOutcome::kDone) {
    sampler_.succeeded(report.peer);
  }
}

void Meetings::observe(const ExchangeReport& report, uint64_t steps) {
  ExchangeEnded event;
  event.peer = report.peer.hex();
  event.name = sampler_.name_of(report.peer);
  event.initiated = report.initiated;
  event.outcome = outcome_name(report.outcome);
  event.ms = seconds(report.duration) * 1e3;
  event.blocks = report.blocks_mixed;
  event.blocks_total = report.blocks_total;
  event.bytes_out = report.payload_bytes_sent;
  event.bytes_in = report.payload_bytes_received;
  if (report.distance >= 0 && std::isfinite(report.distance)) event.distance = distance_;
  event.scale = report.scale;
  event.steps = steps;
  observer_.on(event);
}

}  // namespace starling
