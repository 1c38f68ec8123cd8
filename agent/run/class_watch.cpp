#include "agent/run/class_watch.h"

#include <bit>
#include <span>
#include <stdexcept>
#include <tuple>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "agent/run/swarm_clock.h"
#include "gossip/limits.h"
#include "gossip/net/hash.h"

namespace starling {
namespace {

constexpr double kNoiseMax = 0.1;  // of few samples, two draws of the same shares would differ
constexpr int kOtherLabels = 22;   // bits of 64 that differ: the shares are further apart than 60 degrees

// One of 64 random directions, close to normal: the bytes of a hash, less their mean.
double direction(uint64_t bit, uint64_t label) {
  const uint64_t pair[] = {bit, label};
  constexpr uint64_t kEven = 0x00ff00ff00ff00ff;
  const uint64_t bytes = xxh3_64(std::as_bytes(std::span(pair)));
  const uint64_t sums = (bytes & kEven) + ((bytes >> 8) & kEven);  // four, of two bytes each
  return static_cast<double>((sums * 0x0001000100010001) >> 48) - 8 * 127.5;
}

}  // namespace

uint64_t hash_of_classes(const std::vector<std::string>& names) {
  std::string bytes;
  for (const std::string& name : names) (bytes += name) += '\0';
  return names.empty() ? 0 : xxh3_64(std::as_bytes(std::span(bytes)));
}

uint64_t hash_of_labels(std::span<const uint64_t> counts) {
  double samples = 0, squares = 0;
  for (const uint64_t count : counts) {
    samples += static_cast<double>(count);
    squares += static_cast<double>(count) * static_cast<double>(count);
  }
  if (samples > kNoiseMax * squares) return 0;
  uint64_t hash = 0;
  for (uint64_t bit = 0; bit < 64; ++bit) {
    double sum = 0;
    for (uint64_t label = 0; label < counts.size(); ++label) {
      if (counts[label] > 0) sum += direction(bit, label) * static_cast<double>(counts[label]);
    }
    hash |= uint64_t{sum > 0} << bit;
  }
  return hash;
}

ClassWatch::ClassWatch(TrainerData data, const Membership& membership, TimePoint born)
    : data_(std::move(data)),
      hash_(hash_of_classes(data_.classes)),
      labels_hash_(hash_of_labels(data_.labels)),
      membership_(membership),
      born_(born) {}

bool ClassWatch::was_there_first(const PeerRecord& other, uint64_t steps) const {
  if (other.meta.steps != steps) return other.meta.steps > steps;
  const PeerRecord& self = membership_.self();
  return std::tie(other.version.generation, other.id) < std::tie(self.version.generation, self.id);
}

void ClassWatch::look(uint64_t steps, bool may_refuse, TimePoint now) {
  if (hash_ == 0 && labels_hash_ == 0) return;
  const Counts counts = counting(born_, now);
  membership_.visit_alive([&](const Member& member) {
    if (member.record.meta.role != Role::kAgent || !counts(member)) return;
    compare_names(member, steps, may_refuse);
    compare_labels(member);
  });
}

void ClassWatch::compare_names(const Member& member, uint64_t steps, bool may_refuse) {
  const PeerRecord& other = member.record;
  const uint64_t hash = other.meta.classes_hash;
  if (hash_ == 0 || hash == 0 || hash == hash_) return;
  const std::string text = fmt::format(
      "the classes of this agent's data ({}) differ from those of {} ({}) in name or order, so that their labels would "
      "mean different things",
      data_.summary, print_name(other), other.endpoint.to_string());
  if (may_refuse && was_there_first(other, steps)) {
    throw std::runtime_error(text +
                             "; compare what `starling check --data FOLDER` says on both machines, name the folders of "
                             "classes alike, and start again");
  }
  if (may_refuse || warned_.size() >= kMembersMax || !warned_.emplace(other.id, hash).second) return;
  spdlog::warn("{}: stop one of them, and compare what `starling check --data FOLDER` says on both machines", text);
}

void ClassWatch::compare_labels(const Member& member) {
  const uint64_t hash = member.record.meta.labels_hash;
  if (!data_.adaptive || warned_of_labels_ || labels_hash_ == 0 || hash == 0) return;
  if (std::popcount(hash ^ labels_hash_) < kOtherLabels) return;
  warned_of_labels_ = true;
  spdlog::warn(
      "most labels of this agent's data ({}) are others than those of {} ({}), and with Adam such a swarm learns "
      "badly. Train with SGD, local_steps: 1 and share: [params, momentum], or give each agent data of all labels",
      data_.summary, print_name(member.record), member.record.endpoint.to_string());
}

}  // namespace starling
