#include "bootstrap/model_sources.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "gossip/limits.h"
#include "gossip/net/hash.h"
#include "gossip/net/other_version.h"

namespace starling {
namespace {

constexpr uint32_t kBadBlocksMax = 3;
constexpr uint32_t kSilencesMax = 5;  // patience doubles up to 32 times

}  // namespace

ModelSources::ModelSources(const ModelFetchOptions& options, const Membership& membership, const Clock& clock,
                           uint64_t rng_seed, uint64_t secret)
    : options_(options), membership_(membership), clock_(clock), rng_(rng_seed), secret_(secret) {}

uint32_t ModelSources::silences_of(const PeerId& peer) const {
  const auto found = history_.find(peer);
  return found == history_.end() ? 0 : found->second.silences;
}

bool ModelSources::is_usable(const Member& member) const {
  const MemberMeta& meta = member.record.meta;
  const bool has_trained =
      meta.phase == Phase::kTraining || meta.phase == Phase::kSettling || meta.phase == Phase::kFinished;
  if (meta.role != Role::kAgent || !has_trained) return false;
  if (options_.gives && !options_.gives(meta)) return false;
  const auto found = history_.find(member.record.id);
  if (found == history_.end() || found->second.generation != member.record.version.generation) return true;
  return !found->second.refused && clock_.now() >= found->second.not_before;
}

std::vector<PeerId> ModelSources::choose(size_t count_max) {
  std::vector<Member> members = membership_.alive();
  std::erase_if(members, [this](const Member& member) { return !is_usable(member); });
  uint64_t most_steps = 0;
  for (const Member& member : members) most_steps = std::max(most_steps, member.record.meta.steps);
  std::erase_if(members, [&](const Member& member) {
    return in_use_.contains(member.record.id) || member.record.meta.steps < most_steps / 2;
  });
  rng_.shuffle(members);
  const auto rank = [&](const Member& member) {
    const bool near_the_top = member.record.meta.steps >= most_steps - most_steps / 10;
    return std::tuple(silences_of(member.record.id), member.record.meta.pause == Pause::kPaused, !near_the_top);
  };
  std::stable_sort(members.begin(), members.end(), [&](const Member& a, const Member& b) { return rank(a) < rank(b); });
  std::vector<PeerId> chosen;
  for (const Member& member : members) {
    if (chosen.size() < count_max) chosen.push_back(member.record.id);
  }
  return chosen;
}

ModelSource* ModelSources::find(const PeerId& peer) {
  const auto found = in_use_.find(peer);
  return found == in_use_.end() ? nullptr : &found->second;
}

ModelSource* ModelSources::find_answering(const PeerId& peer, uint64_t nonce) {
  ModelSource* source = find(peer);
  if (source && nonce == 0) source->is_older = true;
  if (source && nonce == source->nonce) source->is_newer = true;
  return source && source->nonce == nonce ? source : nullptr;
}

uint64_t ModelSources::nonce_for(const PeerId& peer, uint64_t generation) const {
  std::array<std::byte, sizeof peer.bytes + sizeof generation> about;
  std::memcpy(about.data(), peer.bytes.data(), sizeof peer.bytes);
  std::memcpy(about.data() + sizeof peer.bytes, &generation, sizeof generation);
  return secret_number(secret_, about);
}

ModelSource& ModelSources::use(const PeerId& peer) {
  ModelSource& source = in_use_[peer];
  const Member* member = membership_.find(peer);
  source.generation = member ? member->record.version.generation : 0;
  source.nonce = nonce_for(peer, source.generation);
  source.progress = clock_.now();
  History& history = history_[peer];
  if (history.generation != source.generation) history = {.generation = source.generation};
  return source;
}

std::vector<PeerId> ModelSources::departed() const {
  std::vector<PeerId> departed;
  for (const auto& [peer, source] : in_use_) {
    const Member* member = membership_.find(peer);
    const bool here = member != nullptr && member->state < MemberState::kDead &&
                      member->record.version.generation == source.generation;
    if (!here) departed.push_back(peer);
  }
  return departed;
}

TimePoint ModelSources::due(const PeerId& peer, const ModelSource& source) const {
  const bool owes = !source.ready || !source.asked.empty();
  return owes ? source.progress + patience_with(peer) : TimePoint::max();
}

std::vector<PeerId> ModelSources::overdue() const {
  std::vector<PeerId> overdue;
  for (const auto& [peer, source] : in_use_) {
    if (clock_.now() >= due(peer, source)) overdue.push_back(peer);
  }
  return overdue;
}

TimePoint ModelSources::next_overdue() const {
  TimePoint next = TimePoint::max();
  for (const auto& [peer, source] : in_use_) next = std::min(next, due(peer, source));
  return next;
}

void ModelSources::stop(const PeerId& peer, const std::string& why) {
  last_trouble_ = describe(peer) + " " + why;
  in_use_.erase(peer);
}

void ModelSources::refuse(const PeerId& peer, const std::string& why) {
  history_[peer].refused = true;
  stop(peer, why);
}

void ModelSources::fell_silent(const PeerId& peer) {
  const Duration waited = patience_with(peer);
  History& history = history_[peer];
  history.silences = std::min(history.silences + 1, kSilencesMax);
  history.not_before = clock_.now() + waited / 4;
  const ModelSource& source = in_use_.at(peer);
  const bool older = source.is_older && !source.is_newer;  // a stranger may have sent the answer
  stop(peer, older ? fmt::format("answers like a program of version {} of the protocol, and this one speaks version "
                                 "{}: update that agent's program",
                                 version_name(0), version_name(kProtocolRevision))
                   : fmt::format("did not answer for {:.1f} s", seconds(waited)));
}

void ModelSources::has_nothing(const PeerId& peer, const std::string& why) {
  history_[peer].not_before = clock_.now() + options_.block_timeout / 4;
  stop(peer, why);
}

void ModelSources::is_gone(const PeerId& peer) { stop(peer, "died, left or restarted"); }

bool ModelSources::count_bad_block(const PeerId& peer) { return ++history_[peer].bad_blocks >= kBadBlocksMax; }

bool ModelSources::take_owed(const PeerId& peer) {
  uint64_t& owed = history_[peer].owed;
  if (owed == 0) return false;
  --owed;
  return true;
}

// A silence does not restart the clock: blocks asked for earlier may still arrive over a slow link.
void ModelSources::asked_after_a_pause(const PeerId& peer) {
  History& history = history_[peer];
  if (history.silences == 0) history.busy_since = clock_.now();
}

void ModelSources::answered(const PeerId& peer) {
  History& history = history_[peer];
  history.block_interval = std::max(clock_.now() - history.busy_since, history.block_interval * 3 / 4);
  history.busy_since = clock_.now();
  history.silences = 0;
}

// A slow link must not look like a dead donor: the wait follows the donor's block times and doubles after each silence.
Duration ModelSources::patience_with(const PeerId& peer) const {
  const auto found = history_.find(peer);
  if (found == history_.end()) return options_.block_timeout;
  const Duration patience = std::max(options_.block_timeout, 2 * found->second.block_interval);
  return std::min(patience * (1 << found->second.silences), options_.block_timeout * (1 << kSilencesMax));
}

std::string ModelSources::describe(const PeerId& peer) const {
  const Member* member = membership_.find(peer);
  return peer.short_name() + (member ? " at " + member->record.endpoint.to_string() : "");
}

}  // namespace starling
