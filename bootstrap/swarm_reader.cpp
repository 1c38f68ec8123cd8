#include "bootstrap/swarm_reader.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "gossip/limits.h"
#include "gossip/net/hash.h"
#include "gossip/net/member_keys.h"
#include "gossip/net/wire.h"

namespace starling {
namespace {

constexpr int kFramesPerTickMax = 256;
constexpr uint64_t kIdStream = 0, kFirstNonce = 4;  // what the numbers that follow from the secret are for

PeerId random_id(uint64_t secret) {
  PeerId id;
  for (uint64_t i = 0; i < 4; ++i) {
    const uint64_t number = secret_number(secret, kIdStream + i);
    std::memcpy(id.bytes.data() + 8 * i, &number, sizeof number);
  }
  return id;
}

// A record that an older member passed on has lost them; they were right a moment ago.
void keep_figures(const SwarmView& before, std::map<PeerId, SwarmView::Row>& rows) {
  for (const SwarmView::Row& old : before.rows) {
    const auto row = rows.find(old.record.id);
    if (row == rows.end() || row->second.record.version.generation != old.record.version.generation) continue;
    MemberMeta& meta = row->second.record.meta;
    if (meta.program != 0) continue;
    meta.program = old.record.meta.program;
    meta.done = old.record.meta.done;
    meta.failed = old.record.meta.failed;
  }
}

// Of the question that is answered. What does not repeat it is of nobody that was asked, or too late.
std::optional<uint64_t> nonce_of(const Message& message) {
  if (const auto* cookie = message_as<JoinCookie>(message)) return cookie->nonce;
  if (const auto* refused = message_as<JoinRefused>(message)) return refused->nonce;
  if (const auto* reply = message_as<JoinReply>(message)) return reply->nonce;
  if (const auto* page = message_as<Sync>(message)) return page->nonce;
  return std::nullopt;
}

}  // namespace

SwarmReader::SwarmReader(const SwarmReaderOptions& options, Transport& transport, const Clock& clock)
    : options_(options),
      self_{
          options.self.is_zero() ? random_id(options.secret) : options.self, {options.generation, 0}, options.own, {}},
      transport_(transport),
      clock_(clock),
      next_(clock.now()) {}

void SwarmReader::tick() {
  for (int i = 0; i < kFramesPerTickMax; ++i) {
    const std::optional<ReceivedFrame> frame = transport_.poll();
    if (!frame) break;
    FrameHeader header;
    Message message;
    const DecodeStatus status =
        decode_frame(frame->channel, frame->header.span(), frame->payload.span(), &header, &message);
    if (status != DecodeStatus::kOk || nonce_ == 0 || nonce_of(message) != nonce_) continue;
    has_expired(frame->not_after, clock_.unix_seconds()) ? take_expired(header.sender) : take(header, message);
  }
  if (clock_.now() < next_) return;
  next_ = clock_.now() + options_.every;
  nonce_ = secret_number(options_.secret, kFirstNonce + asked_++);
  reply_.reset();
  pages_.clear();
  ask();
}

void SwarmReader::ask() {
  const uint64_t swarm = options_.swarm == 0 ? kOnlySwarm : options_.swarm;
  const Message join = Join{self_, "", nonce_, cookie_, kProtocolRevision, swarm};
  const FrameHeader header{kOnlySwarm, self_.id, self_.version.generation, self_.endpoint};
  // A full queue or a bad name is seen by the answers that do not come.
  (void)transport_.send(options_.asked, channel_of(join), {encode_frame_header(header, join, {}), {}});
}

void SwarmReader::take(const FrameHeader& header, const Message& message) {
  if (const auto* cookie = message_as<JoinCookie>(message)) {
    if (cookie->cookie == cookie_) return;
    cookie_ = cookie->cookie;
    ask();
  } else if (const auto* refused = message_as<JoinRefused>(message)) {
    refusal_ = explain(*refused);
  } else if (const auto* reply = message_as<JoinReply>(message)) {
    take(*reply, header);
  } else if (const auto* page = message_as<Sync>(message)) {
    take(*page);
  }
}

void SwarmReader::take_expired(const PeerId& member) {
  refusal_ = options_.asked.to_string() +
             " answers, but the clock of this machine says that its membership has ended. Where that clock is right, "
             "ask the holder of the swarm's key for the ticket of `starling admit " +
             member.hex() + "`; else set it right, or ask another member";
}

void SwarmReader::take(const JoinReply& reply, const FrameHeader& header) {
  refusal_.clear();
  if (reply.members.empty()) return;
  reply_ = reply;
  swarm_id_ = header.swarm;
  complete();
}

void SwarmReader::take(const Sync& page) {
  if (pages_.empty()) pages_.resize(page.pages);
  if (pages_.size() != page.pages) return;
  pages_[page.page] = page;
  complete();
}

void SwarmReader::complete() {
  const bool all =
      !pages_.empty() && std::all_of(pages_.begin(), pages_.end(), [](const auto& page) { return page.has_value(); });
  if (!reply_ || (!all && !reply_->settings.empty())) return;
  SwarmView view{reply_->settings, swarm_id_, reply_->members.front(), {}, clock_.now()};
  std::map<PeerId, SwarmView::Row> rows;
  std::map<PeerId, MemberState> states;
  if (!all) pages_.clear();
  for (const std::optional<Sync>& page : pages_) {
    for (const PeerRecord& record : page->records) rows[record.id].record = record;
    for (const DigestEntry& entry : page->digest) states[entry.id] = static_cast<MemberState>(entry.state);
  }
  if (view_) keep_figures(*view_, rows);
  for (auto& [id, row] : rows) {
    const auto state = states.find(id);
    if (state != states.end()) row.state = state->second;
    view.rows.push_back(std::move(row));
  }
  view_ = std::move(view);
  nonce_ = 0;
}

// A program that knows readers refuses them without settings.
std::string SwarmReader::explain(const JoinRefused& refused) const {
  const std::string asked = options_.asked.to_string();
  const bool named_there =
      options_.swarm != 0 && refused.reason.find(fmt::format("{:016x}", options_.swarm)) != std::string::npos;
  if (!refused.settings.empty() || named_there) {
    return asked + " runs an older program, which cannot be read; name another member of that swarm, or update it";
  }
  return asked + " answers: " + refused.reason;
}

}  // namespace starling
