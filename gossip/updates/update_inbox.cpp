#include "gossip/updates/update_inbox.h"

#include <algorithm>
#include <tuple>

namespace starling {
namespace {

bool may_count(const UpdateLog& log, const PeerId& from, uint64_t generation, const Contribution& message) {
  return log.table().may_count(from, generation, message.seq) &&
         !log.table().counted_since(from, generation, message.length) &&
         !CountedTable::too_old(message.length, log.head().length);
}

}  // namespace

bool UpdateInbox::add(const PeerId& from, uint64_t generation, const Contribution& message, const SharedBytes& part) {
  said_[from] = {message.round, message.head};
  std::vector<Item>& items = slots_[from];
  const auto key = [](const Item& item) { return std::tuple(item.generation, item.message.seq); };
  auto at = std::find_if(items.begin(), items.end(),
                         [&](const Item& item) { return key(item) >= std::tuple(generation, message.seq); });
  if (at == items.end() || key(*at) != std::tuple(generation, message.seq)) {
    if (items.size() >= kPerSender && at == items.begin()) return false;  // older than both
    at = items.insert(at, Item{generation, message, {}});
    if (items.size() > kPerSender) {
      items.erase(items.begin());
      at = std::find_if(items.begin(), items.end(),
                        [&](const Item& item) { return key(item) == std::tuple(generation, message.seq); });
    }
  }
  const bool before = at->parts.complete() && at->message.round >= message.round;
  at->message.round = std::max(at->message.round, message.round);
  at->parts.add(message.part, message.parts, part);
  return !before && at->parts.complete();
}

bool UpdateInbox::handed_in(const PeerId& from, uint64_t round) const {
  const auto at = slots_.find(from);
  return at != slots_.end() && std::any_of(at->second.begin(), at->second.end(), [&](const Item& item) {
           return item.parts.complete() && item.message.round >= round;
         });
}

const LogHead* UpdateInbox::head_of(const PeerId& from, uint64_t round) const {
  const auto at = said_.find(from);
  return at != said_.end() && at->second.round >= round ? &at->second.head : nullptr;
}

bool UpdateInbox::can_count(const PeerId& from, const UpdateLog& log) const {
  const auto at = slots_.find(from);
  return at != slots_.end() && std::any_of(at->second.begin(), at->second.end(), [&](const Item& item) {
           return item.parts.complete() && may_count(log, from, item.generation, item.message);
         });
}

std::vector<HandedIn> UpdateInbox::countable(const GroupMembers& members, const UpdateLog& log) const {
  std::vector<HandedIn> newest;
  for (const PeerId& id : members.ids) {
    const auto slot = slots_.find(id);
    if (slot == slots_.end()) continue;
    const auto item = std::find_if(slot->second.rbegin(), slot->second.rend(), [&](const Item& candidate) {
      return candidate.parts.complete() && may_count(log, id, candidate.generation, candidate.message);
    });
    if (item != slot->second.rend()) newest.push_back({id, item->generation, item->message, item->parts.whole()});
  }
  return newest;
}

size_t UpdateInbox::bytes(HeldBytes& held) const {
  size_t bytes = 0;
  for (const auto& [from, items] : slots_) {
    for (const Item& item : items) bytes += held.add(item.parts.held());
  }
  return bytes;
}

void UpdateInbox::drop_void(const UpdateLog& log) {
  for (auto& [from, items] : slots_) {
    std::erase_if(items,
                  [&, &id = from](const Item& item) { return !may_count(log, id, item.generation, item.message); });
  }
  std::erase_if(slots_, [](const auto& slot) { return slot.second.empty(); });
}

void UpdateInbox::keep_only(const GroupMembers& members) {
  const auto gone = [&](const auto& row) {
    return !std::binary_search(members.ids.begin(), members.ids.end(), row.first);
  };
  std::erase_if(slots_, gone);
  std::erase_if(said_, gone);
}

}  // namespace starling
