#include "bootstrap/model_fetch.h"

#include <algorithm>
#include <set>
#include <utility>
#include <variant>

#include "gossip/limits.h"
#include "gossip/net/hash.h"

namespace starling {
namespace {

constexpr Duration kSearchInterval = std::chrono::milliseconds(500);
constexpr uint32_t kGoneMax = 8;          // file changes without a block in between; then the donor is left for a while

enum class BlockStage : uint8_t { kMissing, kAsked, kChecking, kPlaced };

}  // namespace

struct ModelFetch::Impl {
  Impl(const ModelFetchOptions& options_in, uint64_t total, Membership& membership_in, const Clock& clock_in,
       Outbox& outbox_in, Worker& worker_in, Sink sink_in, uint64_t rng_seed)
      : options(options_in),
        total_bytes(total),
        membership(membership_in),
        clock(clock_in),
        outbox(outbox_in),
        worker(worker_in),
        sink(std::move(sink_in)),
        sources(options, membership, clock, rng_seed),
        started(clock.now()),
        next_search(started),
        stages((total + kTransferBlockBytes - 1) / kTransferBlockBytes, BlockStage::kMissing) {}

  const ModelFetchOptions options;
  const uint64_t total_bytes;
  Membership& membership;
  const Clock& clock;
  Outbox& outbox;
  Worker& worker;
  Sink sink;
  ModelSources sources;
  TimePoint started, next_search;
  std::optional<TimePoint> first_asked, last_placed;
  std::vector<BlockStage> stages;
  uint32_t first_unasked = 0;
  std::vector<std::pair<uint32_t, PeerId>> failed;   // blocks to ask for again, and the donor to avoid for each
  std::set<uint32_t> asked_twice;
  size_t placed = 0, checking = 0;
  uint64_t round = 0, steps = 0;
  // Worker jobs may outlive the fetch, so they check this before they touch it.
  std::shared_ptr<Impl*> alive = std::make_shared<Impl*>(this);

  bool done() const { return placed == stages.size(); }
  size_t block_bytes(uint32_t index) const {
    return std::min<uint64_t>(kTransferBlockBytes, total_bytes - uint64_t{index} * kTransferBlockBytes);
  }
  void search();
  void expire();
  void release(const PeerId& peer, ModelSource& source);
  void release_block(const PeerId& peer, uint32_t index);
  void ask_offer(const PeerId& peer, ModelSource& source);
  void take_offer(const PeerId& from, const ModelOffer& offer);
  void finish_offer(const PeerId& from, ModelSource& source);
  void take_gone(const PeerId& from, const ModelGone& gone);
  std::optional<uint32_t> next_block(const PeerId& peer, const ModelSource& source);
  std::optional<uint32_t> block_of_a_slower_one(const PeerId& peer);
  void ask_blocks(const PeerId& peer, ModelSource& source);
  void take_block(const PeerId& from, const ModelBlock& block, const SharedBytes& payload);
  void judge(const PeerId& from, uint32_t index, bool good);
  std::string waiting_for() const;
  TimePoint next_deadline() const;
};

void ModelFetch::Impl::search() {
  if (clock.now() < next_search) return;
  next_search = clock.now() + kSearchInterval;
  const size_t in_use = sources.in_use().size();
  if (in_use >= options.donors_max) return;
  for (const PeerId& peer : sources.choose(options.donors_max - in_use)) ask_offer(peer, sources.use(peer));
}

void ModelFetch::Impl::ask_offer(const PeerId& peer, ModelSource& source) {
  release(peer, source);
  source.ready = false;
  source.offer = {};
  source.progress = clock.now();
  outbox.send(peer, ModelRequest{0});
}

// The blocks that this donor still owes are asked of another one.
void ModelFetch::Impl::release(const PeerId& peer, ModelSource& source) {
  const auto asked = std::exchange(source.asked, {});
  for (const auto& [index, request] : asked) release_block(peer, index);
}

// REQUIRES: no longer among what `peer` was asked for.
void ModelFetch::Impl::release_block(const PeerId& peer, uint32_t index) {
  if (stages[index] != BlockStage::kAsked) return;
  for (const auto& [other, source] : sources.in_use()) {
    if (source.asked.contains(index)) return;
  }
  stages[index] = BlockStage::kMissing;
  failed.emplace_back(index, peer);
}

void ModelFetch::Impl::take_offer(const PeerId& from, const ModelOffer& offer) {
  ModelSource* source = sources.find(from);
  if (!source || source->ready) return;
  if (offer.total_bytes == 0) return sources.has_nothing(from, "has no model to give yet");
  if (offer.total_bytes != total_bytes || offer.block_bytes != kTransferBlockBytes) {
    return sources.refuse(from, "offers a model of " + std::to_string(offer.total_bytes) +
                                    " bytes in blocks of " + std::to_string(offer.block_bytes) +
                                    "; ours has " + std::to_string(total_bytes) + " in blocks of " +
                                    std::to_string(kTransferBlockBytes));
  }
  ModelOffer& held = source->offer;
  if (offer.first_hash == 0 && (held.hashes.empty() || held.snapshot != offer.snapshot)) {
    held = offer;
  } else if (held.snapshot != offer.snapshot || held.root != offer.root) {
    return ask_offer(from, *source);  // its file changed between two pages
  } else if (offer.first_hash == held.hashes.size()) {
    held.hashes.insert(held.hashes.end(), offer.hashes.begin(), offer.hashes.end());
  } else {
    return;  // a page that we have
  }
  source->progress = clock.now();
  if (held.hashes.size() < stages.size() && !offer.hashes.empty()) {
    outbox.send(from, ModelRequest{static_cast<uint32_t>(held.hashes.size())});
    return;
  }
  finish_offer(from, *source);
}

void ModelFetch::Impl::finish_offer(const PeerId& from, ModelSource& source) {
  Blake2b256 root;
  for (const auto& hash : source.offer.hashes) root.update(std::as_bytes(std::span(hash)));
  if (source.offer.hashes.size() != stages.size() || root.finish() != source.offer.root) {
    return sources.refuse(from, "gave " + std::to_string(source.offer.hashes.size()) + " block hashes of " +
                                    std::to_string(stages.size()) + " that do not belong to its root");
  }
  source.ready = true;
  ask_blocks(from, source);
}

std::optional<uint32_t> ModelFetch::Impl::next_block(const PeerId& peer, const ModelSource& source) {
  const bool only_one = sources.in_use().size() == 1;
  for (auto one = failed.begin(); one != failed.end(); ++one) {
    if (one->second == peer && !only_one) continue;
    const uint32_t index = one->first;
    failed.erase(one);
    return index;
  }
  while (first_unasked < stages.size()) {
    const uint32_t index = first_unasked++;
    if (stages[index] == BlockStage::kMissing) return index;
  }
  if (source.asked.empty()) return block_of_a_slower_one(peer);
  return std::nullopt;
}

// At the end only blocks of slow donors are missing. An idle donor is asked for them as well, once per block.
std::optional<uint32_t> ModelFetch::Impl::block_of_a_slower_one(const PeerId& peer) {
  for (const auto& [other, source] : sources.in_use()) {
    if (other == peer || clock.now() - source.progress < options.block_timeout / 4) continue;
    for (const auto& [index, request] : source.asked) {
      if (stages[index] == BlockStage::kAsked && asked_twice.insert(index).second) return index;
    }
  }
  return std::nullopt;
}

// Blocks that wait for the worker count as well: it may be busy, and they are held in memory.
void ModelFetch::Impl::ask_blocks(const PeerId& peer, ModelSource& source) {
  if (!source.ready) return;
  while (source.asked.size() < options.blocks_in_flight && checking < 4 * size_t{options.blocks_in_flight}) {
    const std::optional<uint32_t> index = next_block(peer, source);
    if (!index) return;
    if (source.asked.empty()) {
      source.progress = clock.now();
      sources.asked_after_a_pause(peer);
    }
    if (!first_asked) first_asked = clock.now();
    stages[*index] = BlockStage::kAsked;
    source.asked[*index] = source.requests++;
    outbox.send(peer, ModelBlockRequest{source.offer.snapshot, *index});
  }
}

void ModelFetch::Impl::take_block(const PeerId& from, const ModelBlock& block, const SharedBytes& payload) {
  ModelSource* source = sources.find(from);
  if (!source || !source->ready || block.snapshot != source->offer.snapshot) return;
  source->progress = clock.now();
  source->gone = 0;
  sources.answered(from);
  const auto asked = source->asked.find(block.index);
  if (asked == source->asked.end()) return;
  const uint64_t request = asked->second;
  source->asked.erase(asked);
  // One connection keeps the order: what was asked long before this one is lost.
  for (auto one = source->asked.begin(); one != source->asked.end();) {
    if (one->second + 2 * options.blocks_in_flight > request) {
      ++one;
      continue;
    }
    const uint32_t lost = one->first;
    one = source->asked.erase(one);
    release_block(from, lost);
  }
  if (stages[block.index] == BlockStage::kAsked) {
    stages[block.index] = BlockStage::kChecking;
    ++checking;
    round = std::max(round, source->offer.round);
    steps = std::max(steps, source->offer.steps);
    auto good = std::make_shared<bool>(false);
    worker.submit(
        [good, here = std::weak_ptr<Impl*>(alive), sink = sink, expected = source->offer.hashes[block.index],
         size = block_bytes(block.index), payload, offset = uint64_t{block.index} * kTransferBlockBytes] {
          if (here.expired()) return;
          const bool intact = payload.size == size && xxh3_128(payload.span()) == expected;
          *good = intact && sink(offset, payload.span());
        },
        [weak = std::weak_ptr<Impl*>(alive), from, index = block.index, good] {
          if (const auto impl = weak.lock()) (*impl)->judge(from, index, *good);
        });
  }
  ask_blocks(from, *source);
}

void ModelFetch::Impl::judge(const PeerId& from, uint32_t index, bool good) {
  --checking;
  if (good) {
    stages[index] = BlockStage::kPlaced;
    ++placed;
    last_placed = clock.now();
  } else {
    stages[index] = BlockStage::kMissing;
    failed.emplace_back(index, from);
    if (sources.count_bad_block(from)) {
      if (ModelSource* source = sources.find(from)) release(from, *source);
      sources.refuse(from, "sent blocks that do not match its own hashes, or no finite params");
      next_search = clock.now();
    }
  }
  if (ModelSource* source = sources.find(from)) ask_blocks(from, *source);
}

void ModelFetch::Impl::take_gone(const PeerId& from, const ModelGone& gone) {
  ModelSource* source = sources.find(from);
  if (!source || !source->ready || source->offer.snapshot != gone.snapshot) return;
  if (++source->gone <= kGoneMax) return ask_offer(from, *source);
  release(from, *source);
  sources.has_nothing(from, "replaces its model file faster than it gives a block of it");
}

void ModelFetch::Impl::expire() {
  const TimePoint now = clock.now();
  std::vector<PeerId> gone, silent;
  for (const auto& [peer, source] : sources.in_use()) {
    const Member* member = membership.find(peer);
    if (!member || member->state >= MemberState::kDead ||
        member->record.version.generation != source.generation) {
      gone.push_back(peer);
    } else if ((!source.ready || !source.asked.empty()) &&
               now >= source.progress + sources.patience_with(peer)) {
      silent.push_back(peer);
    }
  }
  if (!gone.empty() || !silent.empty()) next_search = now;
  for (const auto* peers : {&gone, &silent}) {
    for (const PeerId& peer : *peers) {
      release(peer, *sources.find(peer));
      if (peers == &gone) {
        sources.is_gone(peer);
      } else {
        sources.fell_silent(peer);
      }
    }
  }
}

std::string ModelFetch::Impl::waiting_for() const {
  const auto waited = std::chrono::duration_cast<std::chrono::seconds>(clock.now() - started).count();
  std::string text = std::to_string(placed) + " of " + std::to_string(stages.size()) +
                     " blocks of the swarm's model are here after " + std::to_string(waited) + " s; ";
  if (sources.in_use().empty()) {
    const std::vector<Member> members = membership.alive();
    text += "none of " + std::to_string(members.size()) + " living members can give the rest now; asking on";
  } else {
    text += "fetching from";
    for (const auto& [peer, source] : sources.in_use()) text += " " + sources.describe(peer);
  }
  return text + (sources.last_trouble().empty() ? "" : " (last trouble: " + sources.last_trouble() + ")");
}

TimePoint ModelFetch::Impl::next_deadline() const {
  if (done()) return TimePoint::max();
  TimePoint next = next_search;
  for (const auto& [peer, source] : sources.in_use()) {
    if (source.ready && source.asked.empty()) continue;
    next = std::min(next, source.progress + sources.patience_with(peer));
  }
  return next;
}

ModelFetch::ModelFetch(const ModelFetchOptions& options, uint64_t total_bytes_expected, Membership& membership,
                       const Clock& clock, Outbox& outbox, Worker& worker, Sink sink, uint64_t rng_seed)
    : impl_(std::make_unique<Impl>(options, total_bytes_expected, membership, clock, outbox, worker,
                                   std::move(sink), rng_seed)) {}

ModelFetch::~ModelFetch() = default;

void ModelFetch::tick() {
  if (impl_->done()) return;
  impl_->expire();
  impl_->search();
  for (auto& [peer, source] : impl_->sources.in_use()) impl_->ask_blocks(peer, source);
}

void ModelFetch::handle(const FrameHeader& header, const BootstrapMessage& message, const SharedBytes& payload) {
  if (impl_->done()) return;
  if (const auto* offer = std::get_if<ModelOffer>(&message)) {
    impl_->take_offer(header.sender, *offer);
  } else if (const auto* block = std::get_if<ModelBlock>(&message)) {
    impl_->take_block(header.sender, *block, payload);
  } else if (const auto* gone = std::get_if<ModelGone>(&message)) {
    impl_->take_gone(header.sender, *gone);
  }
}

bool ModelFetch::done() const { return impl_->done(); }
uint64_t ModelFetch::round() const { return impl_->round; }
uint64_t ModelFetch::steps() const { return impl_->steps; }
Duration ModelFetch::transfer_time() const {
  if (!impl_->first_asked || !impl_->last_placed) return {};
  return *impl_->last_placed - *impl_->first_asked;
}
double ModelFetch::progress() const {
  return impl_->stages.empty()
             ? 1
             : static_cast<double>(impl_->placed) / static_cast<double>(impl_->stages.size());
}
std::string ModelFetch::waiting_for() const { return impl_->waiting_for(); }
TimePoint ModelFetch::next_deadline() const { return impl_->next_deadline(); }

}  // namespace starling
