#include "gossip/updates/update_owner.h"

#include <algorithm>
#include <map>
#include <utility>

#include "gossip/limits.h"
#include "kernels/check.h"

namespace starling {

UpdateOwner::UpdateOwner(const PeerId& self, const UpdateCodecs& codecs, Worker& worker, UpdateSlices& slices,
                         UpdateRefusals& refusals, OnMade on_made, OnEnded on_ended, OnDiffers on_differs,
                         OnApart on_apart)
    : self_(self),
      codecs_(codecs),
      worker_(worker),
      slices_(slices),
      refusals_(refusals),
      on_made_(std::move(on_made)),
      on_ended_(std::move(on_ended)),
      on_differs_(std::move(on_differs)),
      on_apart_(std::move(on_apart)) {}

void UpdateOwner::begin(const GroupMembers& members, uint64_t round, std::vector<double> masses,
                        const UpdateCodec& encoder, std::vector<uint8_t> plan) {
  STARLING_CHECK(masses.size() == members.count());
  members_ = members;
  round_ = round;
  masses_ = std::move(masses);
  encoder_ = &encoder;
  plan_ = std::move(plan);
  made_.assign(slices_.size(), false);
  merging_.assign(slices_.size(), false);
}

void UpdateOwner::merge(uint32_t slice, bool waited) {
  if (!waited || made_[slice] || merging_[slice] || !owns(slice)) return;
  const UpdateSlice& from = *slices_[slice];
  if (from.claims().lacks(from.log().head(), round_)) return;
  if (is_apart(slice)) return;
  const std::shared_ptr<MergeJob> job = draft(slice);
  if (job->items.size() < job->counted_min) return;
  merging_[slice] = true;
  ++jobs_;
  audit(slice, job->items);
  auto run = [job, &codecs = codecs_, encoder = encoder_] { run_merge(codecs, *encoder, *job); };
  auto done = [this, job, slice, round = round_, still_here = std::weak_ptr<int>(alive_)] {
    if (!still_here.expired()) merged(slice, round, *job);
  };
  worker_.submit(std::move(run), std::move(done));
}

// An owner whose own log nobody shares would continue it for the whole of its turn, and nobody would follow. If it is
// much longer than the others', all that they hand in is void here, but says where they are.
bool UpdateOwner::is_apart(uint32_t slice) const {
  size_t apart = 0;
  const PeerId* donor = nullptr;
  for (const PeerId& id : members_.ids) {
    const LogHead* head = id == self_ ? nullptr : slices_[slice]->inbox().head_of(id, round_);
    if (head == nullptr || !slices_[slice]->log().is_apart(*head)) continue;
    ++apart;
    donor = &id;
  }
  const bool most = 2 * apart > members_.count();
  if (most) on_apart_(slice, *donor);
  return most;
}

// The chain of hashes covers the protocol; this covers memory, kernels and compilers. Every member owns every slice in
// turn, so who differs from most finds it out itself.
void UpdateOwner::audit(uint32_t slice, const std::vector<HandedIn>& items) const {
  const auto own = std::find_if(items.begin(), items.end(), [&](const HandedIn& item) { return item.from == self_; });
  if (own == items.end() || own->message.audit == Digest16{}) return;
  std::map<Digest16, std::vector<PeerId>> holders;
  for (const HandedIn& item : items) {
    const bool comparable = item.message.head == own->message.head && item.message.audit != Digest16{};
    if (comparable) holders[item.message.audit].push_back(item.from);
  }
  const auto most = std::max_element(holders.begin(), holders.end(),
                                     [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  const size_t agree = holders[own->message.audit].size();
  if (most->second.size() > agree) on_differs_(slice, most->second.front());
}

// Nobody's claimed mass counts more than kMassRatioMax times the median.
std::shared_ptr<MergeJob> UpdateOwner::draft(uint32_t slice) const {
  const UpdateSlice& from = *slices_[slice];
  auto job = std::make_shared<MergeJob>();
  job->items = slices_[slice]->inbox().countable(members_, from.log());
  std::vector<double> masses = masses_;
  for (const HandedIn& item : job->items) {
    const auto rank = std::lower_bound(members_.ids.begin(), members_.ids.end(), item.from) - members_.ids.begin();
    masses[static_cast<size_t>(rank)] = item.message.mass;
  }
  std::vector<double> sorted = masses;
  std::sort(sorted.begin(), sorted.end());
  const double mass_max = kMassRatioMax * sorted[(sorted.size() - 1) / 2];
  double divisor = 0;
  for (double& mass : masses) divisor += mass = std::min(mass, mass_max);
  for (const HandedIn& item : job->items) {
    const auto rank = std::lower_bound(members_.ids.begin(), members_.ids.end(), item.from) - members_.ids.begin();
    job->masses.push_back(masses[static_cast<size_t>(rank)]);
  }
  job->draft.group = members_.group;
  job->draft.round = round_;
  job->draft.slice = slice;
  if (slice == 0) job->draft.plan = plan_;
  job->draft.divisor = divisor;
  job->after = from.log().head();
  job->counted_min = members_.count() / 2 + 1;
  job->self = self_;
  job->payload_norm_max = from.log().payload_norm_max();
  job->element_count = from.shape().element_count;
  return job;
}

void UpdateOwner::merged(uint32_t slice, uint64_t round, const MergeJob& job) {
  --jobs_;
  for (const PeerId& from : job.refused) refusals_.note(&UpdateRefusals::payloads, from);
  if (round != round_) return;
  merging_[slice] = false;
  if (job.made && slices_[slice]->append_own(job.entry, job.payload, job.payload_hash, job.norm)) {
    made_[slice] = true;
    on_made_(job.entry, job.payload);
  }
  on_ended_();
}

}  // namespace starling
