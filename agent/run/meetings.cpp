#include "agent/run/meetings.h"

#include <cmath>
#include <string>

#include <fmt/format.h>

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

std::string json_number(double value) { return std::isfinite(value) ? fmt::format("{:.6g}", value) : "null"; }

}  // namespace

void Meetings::take(const std::vector<ExchangeReport>& reports, uint64_t steps, double params_rms) {
  for (const ExchangeReport& report : reports) {
    count(report);
    tell_sampler(report);
    if (report.distance >= 0) {
      distance_ = params_rms > 0 ? report.distance / params_rms : report.distance;
      if (report.initiated) settling_.met(distance_);
    }
    write(report, steps);
  }
}

void Meetings::count(const ExchangeReport& report) {
  switch (report.outcome) {
    case ExchangeOutcome::kDone: ++tally_.done; break;
    case ExchangeOutcome::kLate: ++tally_.late; break;
    case ExchangeOutcome::kFailed: ++tally_.failed; break;
    case ExchangeOutcome::kBusy: break;
  }
}

void Meetings::tell_sampler(const ExchangeReport& report) {
  // Steps keep the attempts apart; settling has none, and would ask one that winds down again and again.
  if (report.outcome == ExchangeOutcome::kBusy && report.initiated && settling_.active()) {
    sampler_.busy(report.peer, report.free_in);
  }
  // Silence costs a deadline; a partner that answered and could not be mixed with this time costs nothing.
  if (report.outcome == ExchangeOutcome::kFailed && report.payload_bytes_received == 0 &&
      report.duration >= deadline_min_) {
    sampler_.failed(report.peer);
  } else if (report.outcome == ExchangeOutcome::kDone) {
    sampler_.succeeded(report.peer);
  }
}

void Meetings::write(const ExchangeReport& report, uint64_t steps) {
  metrics_.write(fmt::format(
      "\"event\":\"exchange\",\"peer\":\"{}\",\"initiated\":{},\"outcome\":\"{}\",\"ms\":{:.2f},\"blocks\":{},"
      "\"blocks_total\":{},\"bytes_out\":{},\"bytes_in\":{},\"distance\":{},\"scale\":{},\"steps\":{}",
      report.peer.hex(), report.initiated, outcome_name(report.outcome), seconds(report.duration) * 1e3,
      report.blocks_mixed, report.blocks_total, report.payload_bytes_sent, report.payload_bytes_received,
      report.distance >= 0 ? json_number(distance_) : "null", json_number(report.scale), steps));
}

}  // namespace starling
