#include "gossip/exchange/neighborhood.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "gossip/exchange/bitmap.h"
#include "gossip/exchange/deadline.h"
#include "gossip/exchange/round_stream.h"
#include "kernels/check.h"

namespace starling {
namespace {

constexpr size_t kReportsMax = 4096;
constexpr int kCreditRepeats = 8;       // per longest deadline, while nothing arrives
constexpr int kFirstContact = 5;        // times the shortest deadline: the wait for a neighbor that never sent anything
constexpr int kHistory = 16;            // the pace of a neighbor is taken over this many rounds
constexpr int kHistoryMin = 4;
constexpr double kPaceMin = 0.75;       // part of these rounds with news; a neighbor below it is not waited for
constexpr uint64_t kRoundMax = 1ull << 62;   // no honest count of rounds reaches it
constexpr uint64_t kAheadMax = 2;       // rounds; graphs further away than this are not computed for a sender

// The last payload of one neighbor, block by block, and the stream that is arriving.
struct Feed {
  struct Piece {
    SharedBytes payload;
    uint64_t round = 0;        // the sender's
    bool used = false;         // was mixed already; counts again only until something newer arrives
    bool refused = false;      // an invalid payload arrived since the last mix
    uint64_t taken_in = 0;     // this agent's round when it arrived
    double squared_distance = 0;
  };
  explicit Feed(size_t block_count, const AdaptiveDeadline& deadline) : pieces(block_count), lateness(deadline) {}

  std::vector<Piece> pieces;
  size_t in_time = 0;          // pieces of the current round or a later one; recounted when a round begins
  bool heard = false;          // it has sent a valid payload
  size_t judging = 0;
  uint64_t stream_round = 0;   // the sender's round that `in` belongs to
  InStream in;
  TimePoint credit_repeat_at = TimePoint::max();
  uint64_t wanted_in = 0;      // this agent's last round in which it was a neighbor
  AdaptiveDeadline lateness;
  uint16_t kept_pace = 0;      // a bit per round of the last kHistory, newest in bit 0: set if it brought a new block
  int rounds_seen = 0;
  std::optional<TimePoint> waiting_since;   // when the first round began whose payload has not arrived in full
  uint64_t bytes_sent = 0, bytes_received = 0;   // since the last round ended
};

}  // namespace

struct Neighborhood::Impl {
  Impl(const ExchangeOptions& options, const Layout& layout, const Codec& codec, Worker& worker,
       const Clock& clock, Outbox& outbox, PeerSampler& sampler)
      : options(options), layout(layout), codec(codec), worker(worker), clock(clock), outbox(outbox),
        sampler(sampler) {
    STARLING_CHECK(!layout.blocks.empty() && layout.blocks.size() <= kBlocksMax);
    STARLING_CHECK(codec.linear());
    for (const Block& block : layout.blocks) {
      all_blocks.push_back(static_cast<uint32_t>(all_blocks.size()));
      payload_bytes_max.push_back(codec.payload_bytes_max(block.element_count));
    }
    window = stream_window(*std::max_element(payload_bytes_max.begin(), payload_bytes_max.end()));
  }

  bool begin();
  uint64_t next_round() const;
  void send_to(const PeerId& peer);
  void on_block(const PeerId& from, const RoundBlock& block, const SharedBytes& payload);
  void on_credit(const PeerId& from, const RoundCredit& credit);
  void on_judged(const PeerId& from, uint64_t block_round, uint32_t index, const SharedBytes& payload, bool good,
                 double squared_distance);
  void grant(const PeerId& from, Feed& feed);
  bool is_neighbor(const PeerId& peer, uint64_t in_round);
  static bool fresh(const Feed& feed);
  bool in_time(const Feed::Piece& piece) const;
  static double pace(const Feed& feed);
  bool complete() const;
  void finish_if_due();
  void mix(const Participant& neighbor);
  template <typename Of>
  Duration middle(Duration otherwise, const Of& of) const;
  Duration deadline() const;

  const ExchangeOptions options;
  const Layout& layout;
  const Codec& codec;
  Worker& worker;
  const Clock& clock;
  Outbox& outbox;
  PeerSampler& sampler;

  std::vector<uint32_t> all_blocks;
  std::vector<size_t> payload_bytes_max;
  uint32_t window = 2;

  std::shared_ptr<const Snapshot> snapshot;   // published
  std::shared_ptr<const Snapshot> own;        // of the round
  uint64_t round = 0;
  bool open = false;
  TimePoint began_at, deadline_at, first_contact_until;
  Duration round_deadline{};
  std::vector<Participant> neighbors;         // of the round
  std::map<uint64_t, std::vector<Participant>> around;   // neighbors in nearby rounds, for early and late blocks
  std::map<PeerId, OutStream> out;
  std::map<PeerId, Feed> feeds;

  std::vector<Delta> decided;
  std::vector<ExchangeReport> reports;
  uint64_t rounds = 0;
  BlockTally tally;
  std::shared_ptr<int> alive = std::make_shared<int>(0);
};

// ---- a round ----

// An agent behind the upper median of its neighbors' rounds jumps to it. The upper median, because on a ring a chain of
// newcomers has an older neighbor only at its ends and would otherwise never catch up.
uint64_t Neighborhood::Impl::next_round() const {
  std::vector<uint64_t> seen;
  for (const auto& [peer, feed] : feeds) {
    if (feed.stream_round > 0) seen.push_back(feed.stream_round);
  }
  std::sort(seen.begin(), seen.end());
  const uint64_t median = seen.empty() ? 0 : seen[seen.size() / 2];
  return std::max({round > 0 ? round + 1 : snapshot->round, median, uint64_t{1}});
}

// The lower median of `of` over the neighbors; `otherwise` if there are none.
template <typename Of>
Duration Neighborhood::Impl::middle(Duration otherwise, const Of& of) const {
  std::vector<Duration> all;
  for (const Participant& neighbor : neighbors) {
    const auto feed = feeds.find(neighbor.peer);
    if (feed != feeds.end()) all.push_back(of(feed->second.lateness));
  }
  if (all.empty()) return otherwise;
  std::sort(all.begin(), all.end());
  return all[(all.size() - 1) / 2];
}

// The lower median of the neighbors' adaptive deadlines.
Duration Neighborhood::Impl::deadline() const {
  return middle(options.deadline_max, [](const AdaptiveDeadline& lateness) { return lateness.current(); });
}

bool Neighborhood::Impl::begin() {
  if (snapshot == nullptr || open) return false;
  round = next_round();
  around.clear();
  out.clear();   // cancels the unsent blocks of the last round
  neighbors = sampler.neighbors(round);
  if (neighbors.empty()) return false;   // alone, or without a partner in this round's graph
  const TimePoint now = clock.now();
  own = snapshot;
  open = true;
  began_at = now;
  ++rounds;
  for (const Participant& neighbor : neighbors) {
    Feed& feed = feeds.try_emplace(neighbor.peer, layout.blocks.size(),
                                   AdaptiveDeadline(options.deadline_min, options.deadline_max)).first->second;
    feed.wanted_in = round;
    feed.in_time = static_cast<size_t>(std::count_if(feed.pieces.begin(), feed.pieces.end(),
                                                     [this](const Feed::Piece& piece) { return in_time(piece); }));
    if (fresh(feed)) {
      feed.lateness.arrived(Duration::zero());   // the neighbor's payload arrived before this round began
    } else if (!feed.waiting_since) {
      feed.waiting_since = now;
    }
  }
  std::erase_if(feeds, [this](const auto& entry) { return entry.second.wanted_in + kAgeMax < round; });
  round_deadline = deadline();
  deadline_at = now + round_deadline;
  first_contact_until = now + std::min(round_deadline, kFirstContact * options.deadline_min);
  for (const Participant& neighbor : neighbors) {
    OutStream stream(all_blocks, window);
    for (uint32_t index : all_blocks) stream.give(index, own->blocks[index]);
    out[neighbor.peer] = std::move(stream);
    send_to(neighbor.peer);
  }
  finish_if_due();
  return true;
}

void Neighborhood::Impl::send_to(const PeerId& peer) {
  const auto stream = out.find(peer);
  if (stream == out.end()) return;
  const auto feed = feeds.find(peer);
  stream->second.pump([&](uint32_t index, const SharedBytes& payload) {
    outbox.send(peer, RoundBlock{0, round, 0, index, own->mass, 0}, payload);
    if (feed != feeds.end()) feed->second.bytes_sent += payload.size;
  });
}

// True: the neighbor's payload of this round, or a later one, is here in full. Any payload that was not mixed yet would
// not do as the condition: two neighbors would take turns, each computing while the other waits.
bool Neighborhood::Impl::fresh(const Feed& feed) { return feed.in_time == feed.pieces.size(); }

bool Neighborhood::Impl::in_time(const Feed::Piece& piece) const {
  return piece.round >= round && !piece.payload.empty();
}

// The part of the recent rounds to which the neighbor brought something new. Agents do not wait for a neighbor of low
// pace; its last payload counts meanwhile. The deadline alone would let a straggler set the pace: other neighbors wait
// for this agent, so their lateness grows with its own waiting, and their lateness in turn lengthens its deadline.
double Neighborhood::Impl::pace(const Feed& feed) {
  const int rounds = std::min(feed.rounds_seen, kHistory);
  return rounds < kHistoryMin ? 1 : static_cast<double>(std::popcount(feed.kept_pace)) / rounds;
}

// True: every neighbor that keeps pace has sent its payload and taken this agent's. If none keeps pace, the agent waits
// for the best of them: an agent that runs ahead of all its neighbors would cancel each of its payloads half sent.
// It does not wait for a neighbor that has gone silent, and only briefly for one never heard from, which may not know
// this agent yet.
bool Neighborhood::Impl::complete() const {
  double best = 0;
  for (const Participant& neighbor : neighbors) {
    const auto feed = feeds.find(neighbor.peer);
    if (feed != feeds.end()) best = std::max(best, pace(feed->second));
  }
  if (best == 0) return true;
  const bool contact_over = clock.now() >= first_contact_until;
  return std::all_of(neighbors.begin(), neighbors.end(), [&](const Participant& neighbor) {
    const auto feed = feeds.find(neighbor.peer);
    if (feed != feeds.end() && contact_over && !feed->second.heard) return true;
    if (feed == feeds.end() || pace(feed->second) < std::min(best, kPaceMin)) return true;   // no feed: forgotten
    const auto stream = out.find(neighbor.peer);
    return fresh(feed->second) && (stream == out.end() || stream->second.drained());
  });
}

void Neighborhood::Impl::finish_if_due() {
  if (!open || (!complete() && clock.now() < deadline_at)) return;
  open = false;
  for (const Participant& neighbor : neighbors) mix(neighbor);
}

void Neighborhood::Impl::mix(const Participant& neighbor) {
  const auto found = feeds.find(neighbor.peer);
  ExchangeReport report;
  report.peer = neighbor.peer;
  report.initiated = true;
  report.outcome = ExchangeOutcome::kFailed;
  report.duration = clock.now() - began_at;
  report.blocks_total = static_cast<uint32_t>(layout.blocks.size());
  tally.due += layout.blocks.size();
  if (found == feeds.end()) {
    tally.dead += layout.blocks.size();
  } else {
    Feed& feed = found->second;
    Delta delta;
    delta.blocks = make_bitmap(layout.blocks.size());
    delta.own.resize(layout.blocks.size());
    delta.peer.resize(layout.blocks.size());
    delta.coefficient = static_cast<float>(neighbor.weight);
    double squares = 0;
    size_t elements = 0, fresh_count = 0;
    for (size_t k = 0; k < feed.pieces.size(); ++k) {
      Feed::Piece& piece = feed.pieces[k];
      const bool refused = std::exchange(piece.refused, false);
      if (piece.payload.empty() || piece.taken_in + kAgeMax < round) {
        refused ? ++tally.refused : ++tally.missing;
        continue;
      }
      piece.used ? ++tally.old : ++tally.counted;
      fresh_count += piece.used ? 0 : 1;
      piece.used = true;
      set_bit(delta.blocks, k);
      delta.own[k] = own->blocks[k];
      delta.peer[k] = piece.payload;
      ++report.blocks_mixed;
      if (k >= options.param_blocks) continue;
      squares += piece.squared_distance;
      elements += layout.blocks[k].element_count;
    }
    feed.kept_pace = static_cast<uint16_t>(feed.kept_pace << 1 | (fresh_count > 0 ? 1 : 0));
    ++feed.rounds_seen;
    report.peer_round = feed.stream_round;
    report.payload_bytes_sent = feed.bytes_sent;
    report.payload_bytes_received = feed.bytes_received;
    if (elements > 0) report.distance = std::sqrt(squares / static_cast<double>(elements));
    if (report.blocks_mixed > 0) {
      const bool whole = fresh_count == feed.pieces.size();
      report.outcome = whole ? ExchangeOutcome::kDone : ExchangeOutcome::kLate;
      decided.push_back(std::move(delta));
    }
    if (feed.waiting_since && feed.bytes_received == 0) feed.lateness.missed(round_deadline);
    feed.bytes_sent = feed.bytes_received = 0;
  }
  if (reports.size() >= kReportsMax) reports.erase(reports.begin());
  reports.push_back(report);
}

// ---- messages ----

// By this agent's view of the graph of that round. The sender's view may differ for a while after a join or a leave.
bool Neighborhood::Impl::is_neighbor(const PeerId& peer, uint64_t in_round) {
  if (feeds.contains(peer)) return true;
  const bool near = in_round + kAheadMax >= round && in_round <= round + kAheadMax;
  const uint64_t of_round = near ? in_round : round;   // far apart: one of the two is a newcomer
  auto row = around.find(of_round);
  if (row == around.end()) row = around.emplace(of_round, sampler.neighbors(of_round)).first;
  return std::any_of(row->second.begin(), row->second.end(),
                     [&](const Participant& neighbor) { return neighbor.peer == peer; });
}

void Neighborhood::Impl::on_block(const PeerId& from, const RoundBlock& block, const SharedBytes& payload) {
  const bool ours = block.group == 0 && block.phase == 0 && block.round > 0 && block.round <= kRoundMax &&
                    block.index < layout.blocks.size();
  if (!ours || !is_neighbor(from, block.round)) {
    ++tally.ignored_messages;
    return;
  }
  Feed& feed = feeds.try_emplace(from, layout.blocks.size(),
                                 AdaptiveDeadline(options.deadline_min, options.deadline_max)).first->second;
  feed.wanted_in = std::max(feed.wanted_in, round);
  if (block.round > feed.stream_round) {   // the sender has begun a new round
    feed.stream_round = block.round;
    feed.in = InStream(all_blocks, window);
  }
  Feed::Piece& piece = feed.pieces[block.index];
  const bool newer = (piece.payload.empty() || block.round > piece.round) && feed.judging < 2 * feed.pieces.size();
  if (block.round == feed.stream_round && !feed.in.arrived(block.index)) {
    ++tally.ignored_messages;   // a duplicate
    return;
  }
  if (block.round == feed.stream_round) grant(from, feed);
  if (!newer || payload.size > payload_bytes_max[block.index]) {
    if (!newer) ++tally.ignored_messages;
    if (newer) piece.refused = true;
    return;
  }
  feed.bytes_received += payload.size;
  ++feed.judging;

  struct Job {
    std::shared_ptr<const Snapshot> own;
    SharedBytes payload;
    bool good = false;
    PairStats stats;
  };
  auto job = std::make_shared<Job>(Job{own ? own : snapshot, payload, false, {}});
  auto run = [job, &codec = codec, index = block.index, count = layout.blocks[block.index].element_count] {
    if (job->own == nullptr) {
      job->good = codec.check(job->payload.span(), count) == PayloadStatus::kOk;
    } else {
      job->good = codec.pair(job->own->blocks[index].span(), job->payload.span(), count, &job->stats) ==
                  PairStatus::kOk;
    }
  };
  auto done = [this, job, here = std::weak_ptr<int>(alive), from, block_round = block.round, index = block.index] {
    if (here.expired()) return;
    on_judged(from, block_round, index, job->payload, job->good, job->stats.squared_distance);
  };
  worker.submit(std::move(run), std::move(done));
}

void Neighborhood::Impl::on_judged(const PeerId& from, uint64_t block_round, uint32_t index,
                                   const SharedBytes& payload, bool good, double squared_distance) {
  const auto found = feeds.find(from);
  if (found == feeds.end()) return;
  Feed& feed = found->second;
  Feed::Piece& piece = feed.pieces[index];
  feed.judging -= feed.judging > 0 ? 1 : 0;   // 0: this is a new feed, made after the peer was forgotten
  if (!good) {
    piece.refused = true;
    return;
  }
  if (!piece.payload.empty() && piece.round >= block_round) return;   // a later round's payload was judged first
  const bool was_in_time = in_time(piece);
  feed.heard = true;
  piece.payload = payload;
  piece.round = block_round;
  piece.used = false;
  piece.taken_in = round;
  piece.squared_distance = squared_distance;
  if (!was_in_time && in_time(piece)) ++feed.in_time;
  if (feed.waiting_since && fresh(feed)) {   // recorded for late payloads too: the wait should have been this long
    feed.lateness.arrived(clock.now() - *feed.waiting_since);
    feed.waiting_since.reset();
  }
  finish_if_due();
}

void Neighborhood::Impl::grant(const PeerId& from, Feed& feed) {
  if (const auto credit = feed.in.next_credit()) outbox.send(from, RoundCredit{0, feed.stream_round, 0, *credit});
  const bool waiting = !feed.in.complete() && layout.blocks.size() > window;
  feed.credit_repeat_at = waiting ? clock.now() + options.deadline_max / kCreditRepeats : TimePoint::max();
}

void Neighborhood::Impl::on_credit(const PeerId& from, const RoundCredit& credit) {
  const auto stream = out.find(from);
  if (credit.group != 0 || credit.phase != 0 || credit.round != round || stream == out.end()) {
    ++tally.ignored_messages;
    return;
  }
  stream->second.grant(credit.credit);
  send_to(from);
  finish_if_due();
}

// ---- the public face ----

Neighborhood::Neighborhood(const ExchangeOptions& options, const Layout& layout, const Codec& codec,
                           Worker& worker, const Clock& clock, Outbox& outbox, PeerSampler& sampler)
    : impl_(std::make_unique<Impl>(options, layout, codec, worker, clock, outbox, sampler)) {}
Neighborhood::~Neighborhood() = default;

void Neighborhood::publish(std::shared_ptr<const Snapshot> snapshot) {
  STARLING_CHECK(snapshot == nullptr || snapshot->blocks.size() == impl_->layout.blocks.size());
  impl_->snapshot = std::move(snapshot);
}
void Neighborhood::retract() { impl_->snapshot = nullptr; }   // an open round keeps the snapshot it began with
bool Neighborhood::begin() { return impl_->begin(); }
bool Neighborhood::under_way() const { return impl_->open; }

void Neighborhood::handle(const PeerId& from, uint64_t, const ExchangeMessage& message, const SharedBytes& payload) {
  if (const auto* block = std::get_if<RoundBlock>(&message)) return impl_->on_block(from, *block, payload);
  if (const auto* credit = std::get_if<RoundCredit>(&message)) return impl_->on_credit(from, *credit);
  ++impl_->tally.ignored_messages;
}

void Neighborhood::tick() {
  const TimePoint now = impl_->clock.now();
  for (auto& [peer, feed] : impl_->feeds) {
    if (feed.credit_repeat_at > now) continue;   // repeated because the last credit may be lost
    impl_->outbox.send(peer, RoundCredit{0, feed.stream_round, 0, feed.in.credit()});
    feed.credit_repeat_at = now + impl_->options.deadline_max / kCreditRepeats;
  }
  impl_->finish_if_due();
}

TimePoint Neighborhood::next_deadline() const {
  TimePoint next = impl_->open ? impl_->deadline_at : TimePoint::max();
  if (impl_->open && impl_->first_contact_until > impl_->clock.now()) next = impl_->first_contact_until;
  for (const auto& [peer, feed] : impl_->feeds) next = std::min(next, feed.credit_repeat_at);
  return next;
}

// The generation does not matter: a payload is complete in itself, and nothing is acknowledged.
void Neighborhood::forget(const PeerId& peer, uint64_t) {
  impl_->feeds.erase(peer);
  impl_->out.erase(peer);
  impl_->finish_if_due();
}

Decided Neighborhood::take_decided() { return {std::exchange(impl_->decided, {}), {}}; }
std::vector<ExchangeReport> Neighborhood::take_reports() { return std::exchange(impl_->reports, {}); }
const BlockTally& Neighborhood::block_tally() const { return impl_->tally; }
uint64_t Neighborhood::round() const { return impl_->round; }
uint64_t Neighborhood::rounds() const { return impl_->rounds; }
ExchangeStatus Neighborhood::status() const {
  const auto usual = [](const AdaptiveDeadline& lateness) { return lateness.usual(); };
  return {.under_way = under_way(), .idle = idle(), .in_rounds = true,
          .usual_duration = impl_->middle(Duration::zero(), usual), .block_tally = block_tally()};
}
Duration Neighborhood::current_deadline() const { return impl_->deadline(); }

}  // namespace starling
