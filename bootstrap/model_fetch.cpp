#include "bootstrap/model_fetch.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "gossip/limits.h"
#include "gossip/net/hash.h"

namespace starling {

ModelFetch::ModelFetch(const ModelFetchOptions& options, uint64_t total_bytes_expected, Membership& membership,
                       const Clock& clock, Outbox& outbox, Worker& worker, Sink sink, uint64_t rng_seed,
                       uint64_t secret)
    : options_(options),
      total_bytes_(total_bytes_expected),
      membership_(membership),
      clock_(clock),
      outbox_(outbox),
      worker_(worker),
      sink_(std::move(sink)),
      sources_(options_, membership, clock, rng_seed, secret),
      offers_(options_, total_bytes_expected, sources_, clock, outbox),
      plan_((total_bytes_expected + kTransferBlockBytes - 1) / kTransferBlockBytes),
      started_(clock.now()) {}

// The blocks that this donor still owes are asked of another one.
void ModelFetch::release(const PeerId& peer, ModelSource& source) {
  const auto asked = std::exchange(source.asked, {});
  for (const auto& [index, request] : asked) release_block(peer, index);
}

// REQUIRES: no longer among what `peer` was asked for.
void ModelFetch::release_block(const PeerId& peer, uint32_t index) {
  for (const auto& [other, source] : sources_.in_use()) {
    if (source.asked.contains(index)) return;
  }
  plan_.give_back(index, peer);
}

// At the end only blocks of slow donors are missing. An idle donor is asked for them as well, once per block.
std::optional<uint32_t> ModelFetch::block_of_a_slower_one(const PeerId& peer) {
  for (const auto& [other, source] : sources_.in_use()) {
    if (other == peer || clock_.now() - source.progress < options_.block_timeout / 4) continue;
    for (const auto& [index, request] : source.asked) {
      if (plan_.ask_twice(index)) return index;
    }
  }
  return std::nullopt;
}

// Blocks that wait for the worker_ count as well: it may be busy, and they are held in memory.
void ModelFetch::ask_blocks(const PeerId& peer, ModelSource& source) {
  if (!source.ready) return;
  while (source.asked.size() < options_.blocks_in_flight && plan_.checking() < 4 * size_t{options_.blocks_in_flight}) {
    std::optional<uint32_t> index = plan_.next(peer, sources_.in_use().size() == 1);
    if (!index && source.asked.empty()) index = block_of_a_slower_one(peer);
    if (!index) return;
    if (source.asked.empty()) {
      source.progress = clock_.now();
      sources_.asked_after_a_pause(peer);
    }
    if (!first_asked_) first_asked_ = clock_.now();
    plan_.ask(*index);
    sources_.asked_block(peer);
    source.asked[*index] = source.requests++;
    outbox_.send(peer, ModelBlockRequest{source.offer.snapshot, *index, source.cookie, source.nonce});
  }
}

void ModelFetch::take_block(const PeerId& from, const ModelBlock& block, const SharedBytes& payload) {
  ModelSource* source = sources_.find_answering(from, block.nonce);
  if (!source || !source->ready || block.snapshot != source->offer.snapshot) return;
  const auto asked = source->asked.find(block.index);
  const bool owed = sources_.take_owed(from);
  // Late blocks tell of a slow link. One that nobody asked for would let a donor hold those that it owes for ever.
  if (!owed && asked == source->asked.end()) return;
  source->progress = clock_.now();
  source->gone = 0;
  sources_.answered(from);
  if (asked == source->asked.end()) return;
  const uint64_t request = asked->second;
  source->asked.erase(asked);
  // One connection keeps the order: what was asked long before this one is lost.
  for (auto one = source->asked.begin(); one != source->asked.end();) {
    if (one->second + 2 * options_.blocks_in_flight > request) {
      ++one;
      continue;
    }
    const uint32_t lost = one->first;
    one = source->asked.erase(one);
    release_block(from, lost);
  }
  if (plan_.begin_check(block.index)) check_block(from, *source, block.index, payload);
  ask_blocks(from, *source);
}

void ModelFetch::check_block(const PeerId& from, const ModelSource& source, uint32_t index,
                             const SharedBytes& payload) {
  const uint64_t offset = uint64_t{index} * kTransferBlockBytes;
  const size_t size = std::min<uint64_t>(kTransferBlockBytes, total_bytes_ - offset);
  auto good = std::make_shared<bool>(false);
  auto run = [good, here = std::weak_ptr<int>(alive_), sink = sink_, expected = source.offer.hashes[index], size,
              payload, offset] {
    if (here.expired()) return;
    const bool intact = payload.size == size && xxh3_128(payload.span()) == expected;
    *good = intact && sink(offset, payload.span());
  };
  auto done = [this, here = std::weak_ptr<int>(alive_), from, index, good, round = source.offer.round,
               steps = source.offer.steps] {
    if (here.expired()) return;
    if (*good) {
      round_ = std::max(round_, round);
      steps_ = std::max(steps_, steps);
    }
    judge(from, index, *good);
  };
  worker_.submit(std::move(run), std::move(done));
}

void ModelFetch::judge(const PeerId& from, uint32_t index, bool good) {
  plan_.judge(index, from, good);
  if (good) {
    last_placed_ = clock_.now();
  } else {
    if (sources_.count_bad_block(from)) {
      if (ModelSource* source = sources_.find(from)) release(from, *source);
      sources_.refuse(from, "sent blocks that do not match its own hashes, or no finite params");
      offers_.search_soon();
    }
  }
  if (ModelSource* source = sources_.find(from)) ask_blocks(from, *source);
}

void ModelFetch::take_gone(const PeerId& from, const ModelGone& gone) {
  ModelSource* source = sources_.find_answering(from, gone.nonce);
  if (!source || !source->ready || source->offer.snapshot != gone.snapshot) return;
  release(from, *source);
  offers_.replaced(from, *source);
}

void ModelFetch::expire() {
  const auto lose = [this](const PeerId& peer, void (ModelSources::*lost)(const PeerId&)) {
    release(peer, *sources_.find(peer));
    (sources_.*lost)(peer);
    offers_.search_soon();
  };
  for (const PeerId& peer : sources_.departed()) lose(peer, &ModelSources::is_gone);
  for (const PeerId& peer : sources_.overdue()) lose(peer, &ModelSources::fell_silent);
}

std::string ModelFetch::waiting_for() const {
  const auto waited = std::chrono::duration_cast<std::chrono::seconds>(clock_.now() - started_).count();
  std::string text = std::to_string(plan_.placed()) + " of " + std::to_string(plan_.count()) +
                     " blocks of the swarm's model are here after " + std::to_string(waited) + " s; ";
  if (sources_.in_use().empty()) {
    const std::vector<Member> members = membership_.alive();
    text +=
        "none of " + std::to_string(members.size()) + " living members can give the rest now; this agent keeps asking";
  } else {
    std::string names;
    for (const auto& [peer, source] : sources_.in_use()) names += (names.empty() ? "" : ", ") + sources_.describe(peer);
    text += "fetching from " + names;
  }
  return text + (sources_.last_trouble().empty() ? "" : " (last trouble: " + sources_.last_trouble() + ")");
}

TimePoint ModelFetch::next_deadline() const {
  if (done()) return TimePoint::max();
  return std::min(offers_.next_search(), sources_.next_overdue());
}

void ModelFetch::tick() {
  if (done()) return;
  expire();
  offers_.search();
  for (auto& [peer, source] : sources_.in_use()) ask_blocks(peer, source);
}

void ModelFetch::handle(const FrameHeader& header, const BootstrapMessage& message, const SharedBytes& payload) {
  if (done()) return;
  if (const auto* offer = std::get_if<ModelOffer>(&message)) {
    if (offers_.take(header.sender, *offer)) ask_blocks(header.sender, *sources_.find(header.sender));
  } else if (const auto* block = std::get_if<ModelBlock>(&message)) {
    take_block(header.sender, *block, payload);
  } else if (const auto* gone = std::get_if<ModelGone>(&message)) {
    take_gone(header.sender, *gone);
  } else if (const auto* asks = std::get_if<JoinCookie>(&message)) {
    offers_.show_cookie(header.sender, *asks);
  }
}

Duration ModelFetch::transfer_time() const {
  if (!first_asked_ || !last_placed_) return {};
  return *last_placed_ - *first_asked_;
}

double ModelFetch::progress() const {
  return plan_.count() == 0 ? 1 : static_cast<double>(plan_.placed()) / static_cast<double>(plan_.count());
}

}  // namespace starling
