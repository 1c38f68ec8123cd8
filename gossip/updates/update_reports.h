// What the rounds of a group of updates came to: one report for each round that ended here, or was missed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "gossip/updates/update_messages.h"
#include "gossip/updates/update_round.h"
#include "gossip/updates/update_tables.h"

namespace starling {

// How a round ended, or that this member missed it.
struct UpdateReport {
  uint64_t round = 0;
  Duration duration{};
  uint32_t slices = 0, entries = 0;                             // entries of this round that arrived, or were made here
  uint64_t payload_bytes_sent = 0, payload_bytes_received = 0;  // since the report before
  bool sick = false;                                            // x was not finite: the own work was dropped
  bool missed = false;                                          // it had ended when this member came
  // Of the round since its boundary: frames sent and taken, and bytes of the direction that had more.
  uint64_t frames_after = 0, bytes_after = 0;
  uint32_t members = 0;
};

class UpdateReports {
 public:
  // All references must outlive the object.
  UpdateReports(UpdateRound& round, UpdateTables& tables, const UpdateMessages& messages)
      : round_(round), tables_(tables), messages_(messages) {}

  // The boundary of the round: what is sent and taken from here on is counted.
  void begin_counting() {
    frames_before_ = frames();
    sent_before_ = round_.streams().bytes_sent();
    received_before_ = round_.streams().bytes_received();
  }

  // The round has ended here. `entries`: of the round, that are here.
  void note_end(uint32_t slices, uint32_t entries, bool sick) {
    UpdateReport report{.round = round_.number(),
                        .duration = round_.wait().elapsed(),
                        .slices = slices,
                        .entries = entries,
                        .sick = sick};
    report.members = static_cast<uint32_t>(round_.members().count());
    report.frames_after = frames() - frames_before_;
    report.bytes_after =
        std::max(round_.streams().bytes_sent() - sent_before_, round_.streams().bytes_received() - received_before_);
    report.payload_bytes_sent = round_.streams().take_bytes_sent() + tables_.take_bytes_sent();
    report.payload_bytes_received = round_.streams().take_bytes_received() + tables_.take_bytes_received();
    last_ = report;
    note(report);
  }
  void note_missed(uint64_t round, uint32_t slices, uint32_t entries) {
    note({.round = round, .slices = slices, .entries = entries, .missed = true});
  }

  std::vector<UpdateReport> take() { return std::exchange(reports_, {}); }
  const UpdateReport& last() const { return last_; }  // of the last round that ended

 private:
  static constexpr size_t kMax = 4096;  // the oldest go first if the caller does not fetch them

  uint64_t frames() const { return round_.frames_sent() + messages_.tally().frames; }
  void note(const UpdateReport& report) {
    if (reports_.size() >= kMax) reports_.erase(reports_.begin());
    reports_.push_back(report);
  }

  UpdateRound& round_;
  UpdateTables& tables_;
  const UpdateMessages& messages_;
  std::vector<UpdateReport> reports_;
  UpdateReport last_;
  uint64_t frames_before_ = 0, sent_before_ = 0, received_before_ = 0;  // the boundary
};

}  // namespace starling
