#include "bootstrap/twin_watch.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "gossip/net/hash.h"
#include "gossip/net/text.h"
#include "kernels/check.h"

namespace starling {
namespace {

constexpr size_t kAskedMax = 4;
constexpr uint32_t kSilentMax = 4;  // questions without an answer
constexpr Duration kAskEvery = std::chrono::seconds(1);
constexpr Duration kJoinPatience = std::chrono::seconds(1);  // for an answer to the first question
constexpr Duration kAskTwinEvery = std::chrono::seconds(5);
constexpr Duration kTellPatience = std::chrono::seconds(3);
constexpr Duration kAnswerEvery = std::chrono::milliseconds(200);
constexpr uint64_t kNumbers = 0x7477696eull << 32;  // apart from all else that follows from the secret

std::string signed_text(uint64_t sequence, const Endpoint& address, uint64_t generation) {
  return fmt::format("starling twin {} {} {}", sequence, generation, address.to_string());
}

std::string in_use_at(const Endpoint& address) {
  return fmt::format("this identity is in use at {}: ", address.to_string());
}

constexpr const char* kOfItsOwn =
    "a folder (--state NEW_FOLDER) and, in a certified swarm, a ticket of its own (starling admit --new)";

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

}  // namespace

TwinWatch::TwinWatch(const PeerRecord& self, const Clock& clock, Outbox& outbox, uint64_t secret, Sign sign)
    : self_(self), clock_(clock), outbox_(outbox), born_(clock.now()), secret_(secret), sign_(std::move(sign)) {}

bool TwinWatch::is_self(const Endpoint& address, uint64_t generation) const {
  return address == self_.endpoint && generation == self_.version.generation;
}

void TwinWatch::ask(const Endpoint& address) { (void)reserve(address, false); }

// Null: it is the own address, or there is no room. Records come before frames, which anybody may send.
TwinWatch::Asked* TwinWatch::reserve(const Endpoint& address, bool of_record) {
  if (address == self_.endpoint) return nullptr;
  const auto found = asked_.find(address);
  if (found != asked_.end()) return &found->second;
  if (asked_.size() >= kAskedMax) {
    const auto spare = std::find_if(asked_.begin(), asked_.end(), [&](const auto& one) {
      return of_record && !one.second.of_record && !(twin_ && twin_->address == one.first);
    });
    if (spare == asked_.end()) return nullptr;
    asked_.erase(spare);
  }
  return &(asked_[address] = {secret_number(secret_, kNumbers + questions_++), 0, of_record, clock_.now()});
}

void TwinWatch::on_record(const PeerRecord& record) {
  if (record.version.generation > self_.version.generation) {
    later_ = std::max(later_, record.version.generation);
    if (record.endpoint == self_.endpoint) here_ = std::max(here_, record.version.generation);
  }
  const bool ended = ended_ && ended_->address == record.endpoint && ended_->generation == record.version.generation;
  if (ended) return;
  if (Asked* const asked = reserve(record.endpoint, true)) asked->of_record = true;
}

void TwinWatch::handle(const FrameHeader& header, const Message& message) {
  if (is_self(header.reply_to, header.generation)) return;  // the own address, by another name
  if (const auto* ping = message_as<Ping>(message)) {
    if (ping->target == self_.id) answer(header, ping->sequence);
  }
  if (says_farewell(header, message)) return give_up(header.reply_to);
  const auto* ack = message_as<PingAck>(message);
  const auto asked = std::find_if(asked_.begin(), asked_.end(), [&](const auto& one) {
    return ack != nullptr && one.second.sequence == ack->sequence;
  });
  if (asked == asked_.end()) return ask(header.reply_to);
  Signature proof{};
  if (ack->proof.size() != proof.size()) return;
  std::copy(ack->proof.begin(), ack->proof.end(), proof.begin());
  const std::string text = signed_text(ack->sequence, header.reply_to, header.generation);
  if (!verify(self_.id, bytes_of(text), proof)) return;
  const auto age = [](uint64_t generation, const Endpoint& address) { return std::pair(generation, address); };
  const bool older = age(header.generation, header.reply_to) < age(self_.version.generation, self_.endpoint);
  twin_ = Twin{header.reply_to, header.generation, older, twin_ ? twin_->found : clock_.now()};
  if (!older) younger_ = header.reply_to;
  asked->second.silent = 0;
  asked->second.next = clock_.now() + kAskTwinEvery;
}

void TwinWatch::answer(const FrameHeader& header, uint64_t sequence) {
  if (!sign_ || clock_.now() < next_answer_) return;
  next_answer_ = clock_.now() + kAnswerEvery;
  const Signature proof = sign_(bytes_of(signed_text(sequence, self_.endpoint, self_.version.generation)));
  outbox_.send({header.reply_to, self_.id}, PingAck{sequence, {}, {proof.begin(), proof.end()}});
  answered_ = header.reply_to;
}

void TwinWatch::part(const PeerRecord& farewell) {
  STARLING_CHECK(twin_.has_value());
  outbox_.send({twin_->address, self_.id}, Gossip{Updates{.left = {farewell}}});
}

// Anybody may send it: of a twin that goes on nothing follows but that this agent begins again above it.
bool TwinWatch::says_farewell(const FrameHeader& header, const Message& message) const {
  const auto* gossip = message_as<Gossip>(message);
  if (!gossip || !twin_ || twin_->older || twin_->address != header.reply_to) return false;
  return std::any_of(gossip->updates.left.begin(), gossip->updates.left.end(), [&](const PeerRecord& record) {
    return record.id == self_.id && record.version.generation == twin_->generation;
  });
}

void TwinWatch::tick() {
  const TimePoint now = clock_.now();
  for (auto& [address, asked] : asked_) {
    if (now < asked.next || asked.silent >= kSilentMax) continue;
    ++asked.silent;
    asked.next = now + kAskEvery;
    asked.sequence = secret_number(secret_, kNumbers + questions_++);
    outbox_.send({address, self_.id}, Ping{asked.sequence, self_.id, {}});
  }
  settle();
}

void TwinWatch::give_up(const Endpoint& address) {
  asked_.erase(address);
  if (!twin_ || twin_->address != address) return;
  if (!twin_->older) ended_ = twin_;
  twin_.reset();
}

// Addresses that stay silent after the last question are given up.
void TwinWatch::settle() {
  const TimePoint now = clock_.now();
  for (auto next = asked_.begin(); next != asked_.end();) {
    const auto one = next++;
    if (one->second.silent >= kSilentMax && now >= one->second.next) give_up(Endpoint(one->first));
  }
  const bool judged = std::none_of(asked_.begin(), asked_.end(), [](const auto& one) { return one.second.of_record; });
  if (judged && !twin_ && later_ > self_.version.generation) overtaken_ = std::exchange(later_, 0);
}

bool TwinWatch::may_join() const {
  if (twin_) return !twin_->older;
  return asked_.empty() || clock_.now() - born_ >= kJoinPatience;
}

std::string TwinWatch::take_notice() {
  const std::optional<Endpoint> younger = std::exchange(younger_, std::nullopt);
  if (!younger) return "";
  return fmt::format(
      "{}that process began after this one, with a copy of this state folder or with its ticket file, and ends by "
      "itself. If it comes again, start it with {}",
      in_use_at(*younger), kOfItsOwn);
}

std::string TwinWatch::must_end(bool of_clock) const {
  // A process at the own address has begun again above this one.
  if (of_clock && here_ == self_.version.generation + 1) {
    return in_use_at(self_.endpoint) +
           "a process that began before this one, with the same state folder or a copy of it, has the same address. "
           "Stop that one, or start this one with a folder of its own (--state NEW_FOLDER) and another port";
  }
  if (!twin_ || !twin_->older || !told()) return "";
  return in_use_at(twin_->address) +
         "that process began before this one, with the same state folder, a copy of it or the same ticket file. Stop "
         "that one, or start this one with " +
         kOfItsOwn;
}

std::string TwinWatch::must_begin_again(uint64_t now_by_clock) const {
  if (overtaken_ == 0) return "";
  if (ended_ && ended_->generation == overtaken_) {
    return fmt::format(
        "a copy of this state folder ran at {} and took the place of this process among the members. Start the copy "
        "with a folder of its own (--state NEW_FOLDER)",
        ended_->address.to_string());
  }
  if (overtaken_ == here_ && overtaken_ <= now_by_clock) {
    return in_use_at(self_.endpoint) +
           "a process with a copy of this state folder has the same address. Stop one of the two, or start it with "
           "another folder (--state NEW_FOLDER) and port";
  }
  return fmt::format(
      "members hold another process of this identity, which began {} by its clock; this one began {}. One of the two "
      "clocks was wrong: set it",
      clock_text(overtaken_), clock_text(self_.version.generation));
}

bool TwinWatch::told() const {
  return twin_ && (answered_ == twin_->address || clock_.now() - twin_->found >= kTellPatience);
}

TimePoint TwinWatch::next_deadline() const {
  TimePoint next = TimePoint::max();
  for (const auto& [address, asked] : asked_) next = std::min(next, asked.next);
  if (twin_ && twin_->older && !told()) next = std::min(next, twin_->found + kTellPatience);
  return next;
}

}  // namespace starling
