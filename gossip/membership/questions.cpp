#include "gossip/membership/questions.h"

#include <algorithm>

#include "gossip/net/hash.h"

namespace starling {

// The first is another one each time, so that many that never answer keep nobody waiting for long.
void Questions::begin_period() {
  period_ends_ = context_.clock.now() + context_.options.probe_interval;
  asked_now_ = 0;
  asked_at_.clear();
  waiting_.clear();
  ++periods_;
  for (const Member* member : table_.unproven()) {
    const uint32_t asked = table_.find(member->record.id)->asked;
    const uint32_t doublings = std::min(asked - std::min(asked, kAskedFree), kDoublingsMax);
    if (periods_ % (uint64_t{1} << doublings) == 0) waiting_.push_back(member->record.id);
  }
  if (waiting_.empty()) return;
  std::rotate(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(asked_ever_ % waiting_.size()),
              waiting_.end());
}

bool Questions::may_be_asked(const Endpoint& endpoint) {
  std::set<uint16_t>& ports = asked_at_[endpoint.host];
  return ports.size() < kAskedOfHostMax && ports.insert(endpoint.port).second;
}

// Numbers are keyed, as those of probes (prober.h), and differ from theirs, which follow from random numbers.
void Questions::tick() {
  if (context_.clock.now() >= period_ends_) begin_period();
  if (own_.leaving()) waiting_.clear();
  for (; !waiting_.empty() && asked_now_ < kAskedMax; waiting_.pop_front()) {
    MemberEntry* entry = table_.find(waiting_.front());
    if (entry == nullptr || entry->member.proven || entry->member.state != MemberState::kAlive) continue;
    const PeerRecord& record = entry->member.record;
    if (!may_be_asked(record.endpoint)) continue;
    Question question{secret_number(context_.secret, ~asked_ever_++), record.id, record.version.generation, {}};
    ++asked_now_;
    context_.outbox.send(record.id, Ping{question.sequence, record.id, {}});
    const bool through_others = entry->asked > 0 && entry->asked < kThroughOthersMax && !entry->member.ever_answered;
    if (entry->asked++ > 0) table_.miss(*entry);
    if (through_others) question.helpers = some_that_answered();
    for (const PeerId& helper : question.helpers) {
      context_.outbox.send(helper, PingRequest{question.sequence, record.id, {}});
    }
    asked_.push_back(question);
    if (asked_.size() > 2 * kAskedMax) asked_.pop_front();
  }
}

TimePoint Questions::next_deadline() const {
  return waiting_.empty() || asked_now_ == kAskedMax ? period_ends_ : context_.clock.now();
}

// Others each time.
std::vector<PeerId> Questions::some_that_answered() {
  const std::vector<const Member*>& proven = table_.proven();
  std::vector<PeerId> some;
  for (size_t i = 0; i < std::min(kHelpers, proven.size()); ++i) {
    some.push_back(proven[(kHelpers * periods_ + i) % proven.size()]->record.id);
  }
  return some;
}

bool Questions::on_ping_ack(const PeerId& from, const PingAck& ack) {
  const auto question = std::find_if(asked_.begin(), asked_.end(), [&](const Question& one) {
    return one.sequence == ack.sequence &&
           (one.target == from || std::find(one.helpers.begin(), one.helpers.end(), from) != one.helpers.end());
  });
  if (question == asked_.end()) return false;
  MemberEntry* target = table_.find(question->target);
  if (target == nullptr || target->member.record.version.generation != question->generation) return true;
  question->target == from ? table_.prove(*target) : table_.vouch(*target);
  return true;
}

}  // namespace starling
