#include "agent/run/class_watch.h"

#include <span>
#include <stdexcept>
#include <tuple>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "agent/run/swarm_clock.h"
#include "gossip/limits.h"
#include "gossip/net/hash.h"

namespace starling {

uint64_t hash_of_classes(const std::vector<std::string>& names) {
  std::string bytes;
  for (const std::string& name : names) (bytes += name) += '\0';
  return names.empty() ? 0 : xxh3_64(std::as_bytes(std::span(bytes)));
}

ClassWatch::ClassWatch(TrainerData data, const Membership& membership, TimePoint born)
    : data_(std::move(data)), hash_(hash_of_classes(data_.classes)), membership_(membership), born_(born) {}

bool ClassWatch::was_there_first(const PeerRecord& other, uint64_t steps) const {
  if (other.meta.steps != steps) return other.meta.steps > steps;
  const PeerRecord& self = membership_.self();
  return std::tie(other.version.generation, other.id) < std::tie(self.version.generation, self.id);
}

void ClassWatch::look(uint64_t steps, bool may_refuse, TimePoint now) {
  if (hash_ == 0) return;
  const Counts counts = counting(born_, now);
  membership_.visit_alive([&](const Member& member) {
    const PeerRecord& other = member.record;
    const uint64_t hash = other.meta.classes_hash;
    if (hash == 0 || hash == hash_ || other.meta.role != Role::kAgent || !counts(member)) return;
    const std::string text = fmt::format(
        "the classes of this agent's data ({}) differ from those of {} ({}) in name or order, so that their "
        "labels would mean different things",
        data_.summary, print_name(other), other.endpoint.to_string());
    if (may_refuse && was_there_first(other, steps)) {
      throw std::runtime_error(text +
                               "; compare what `starling check --data FOLDER` says on both machines, name the folders "
                               "of classes alike, and start again");
    }
    if (may_refuse || warned_.size() >= kMembersMax || !warned_.emplace(other.id, hash).second) return;
    spdlog::warn("{}: stop one of them, and compare what `starling check --data FOLDER` says on both machines", text);
  });
}

}  // namespace starling
