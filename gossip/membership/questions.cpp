#include "gossip/membership/questions.h"

#include <algorithm>
#include <vector>

#include "gossip/net/hash.h"

namespace starling {

// The first is another one each time, so that many that never answer keep nobody waiting for long.
void Questions::begin_period() {
  period_ends_ = context_.clock.now() + context_.options.probe_interval;
  asked_now_ = 0;
  waiting_.clear();
  for (const Member* member : table_.unproven()) waiting_.push_back(member->record.id);
  if (waiting_.empty()) return;
  std::rotate(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(asked_ever_ % waiting_.size()),
              waiting_.end());
}

// Numbers are keyed, as those of probes (prober.h), and differ from theirs, which follow from random numbers.
void Questions::tick() {
  if (context_.clock.now() >= period_ends_) begin_period();
  if (own_.leaving()) waiting_.clear();
  for (; !waiting_.empty() && asked_now_ < kAskedMax; waiting_.pop_front()) {
    const MemberEntry* entry = table_.find(waiting_.front());
    if (entry == nullptr || entry->member.proven || entry->member.state != MemberState::kAlive) continue;
    const PeerRecord& record = entry->member.record;
    asked_.push_back({secret_number(context_.secret, ~asked_ever_++), record.id, record.version.generation});
    if (asked_.size() > 2 * kAskedMax) asked_.pop_front();
    ++asked_now_;
    context_.outbox.send(record.id, Ping{asked_.back().sequence, record.id, {}});
  }
}

TimePoint Questions::next_deadline() const {
  return waiting_.empty() || asked_now_ == kAskedMax ? period_ends_ : context_.clock.now();
}

bool Questions::on_ping_ack(const PeerId& from, const PingAck& ack) {
  const auto question = std::find_if(asked_.begin(), asked_.end(), [&](const Question& one) {
    return one.sequence == ack.sequence && one.target == from;
  });
  if (question == asked_.end()) return false;
  MemberEntry* target = table_.find(from);
  if (target != nullptr && target->member.record.version.generation == question->generation) table_.prove(*target);
  return true;
}

}  // namespace starling
