#include "gossip/updates/update_donor.h"

#include <algorithm>

#include "gossip/exchange/bitmap.h"
#include "gossip/limits.h"

namespace starling {

void UpdateDonor::give(const PeerId& to, const LogPull& pull, const LogHead& head) {
  Slice& slice = slices_[pull.slice];
  slice.asked_at = clock_.now();
  for (const auto& copy : slice.copies) {
    if (copy->root == pull.root && fits(pull.missing, copy->blocks.size())) return send(to, *copy, pull.missing);
  }
  if (!slice.copies.empty() && slice.copies.front()->header.head == head) return send(to, *slice.copies.front(), {});
  if (slice.waiting.size() >= kWaitingMax) return;
  if (std::find(slice.waiting.begin(), slice.waiting.end(), to) == slice.waiting.end()) slice.waiting.push_back(to);
  if (!slice.copying) copy(pull.slice);
}

void UpdateDonor::drop_old_copies() {
  for (Slice& slice : slices_) {
    if (clock_.now() - slice.asked_at >= kCopyLife) slice.copies.clear();
  }
}

size_t UpdateDonor::bytes() const {
  size_t bytes = 0;
  for (const Slice& slice : slices_) {
    for (const auto& copy : slice.copies) {
      for (const SharedBytes& block : copy->blocks) bytes += block.size;
    }
  }
  return bytes;
}

void UpdateDonor::copy(uint32_t number) {
  slices_[number].copying = true;
  auto copied = std::make_shared<StateCopy>();
  auto run = [copied, number, &replica = replicas_[number]] { *copied = copy_state(number, replica); };
  auto done = [this, copied, number, still_here = std::weak_ptr<int>(alive_)] {
    if (still_here.expired()) return;
    Slice& slice = slices_[number];
    slice.copying = false;
    const std::vector<PeerId> waiting = std::exchange(slice.waiting, {});
    if (copied->header.head.length == 0) return;  // an empty log has no state
    slice.copies.push_front(copied);
    if (slice.copies.size() > kCopiesMax) slice.copies.pop_back();
    for (const PeerId& to : waiting) send(to, *copied, {});
  };
  worker_.submit(std::move(run), std::move(done));
}

void UpdateDonor::send(const PeerId& to, const StateCopy& copy, const Bitmap& missing) {
  size_t sent = 0;
  SliceState frame = copy.header;
  for (uint32_t i = 0; i < copy.blocks.size() && sent < kCreditBytes; ++i) {
    if (!missing.empty() && !test_bit(missing, i)) continue;
    frame.block = i;
    outbox_.send(to, frame, copy.blocks[i]);
    sent += copy.blocks[i].size;
  }
  bytes_sent_ += sent;
}

}  // namespace starling
