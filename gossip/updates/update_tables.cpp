#include "gossip/updates/update_tables.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "gossip/limits.h"

namespace starling {

namespace {

struct RequestJob {
  std::vector<SharedBytes> tables;
  std::vector<PeerId> senders;  // of each of them
  std::vector<double> masses;   // of each of these
  size_t element_count = 0;

  // out
  std::vector<PeerId> refused;  // whose tables do not fit
  SharedBytes request;          // empty: no table is of use
};

// Of tables that follow different logs those of the log that most follow; they alone add up.
uint64_t usual_seed(const std::vector<SharedBytes>& tables) {
  std::map<uint64_t, size_t> counts;
  for (const SharedBytes& table : tables) {
    if (const std::optional<uint64_t> seed = SketchTables::seed(table.span())) ++counts[*seed];
  }
  const auto most =
      std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == counts.end() ? 0 : most->first;
}

// Nobody's claimed mass counts more than kMassRatioMax times the median.
void run_request(const SketchTables& codec, RequestJob& job) {
  const uint64_t seed = usual_seed(job.tables);
  std::vector<double> sorted = job.masses;
  std::sort(sorted.begin(), sorted.end());
  const double mass_max = kMassRatioMax * sorted[(sorted.size() - 1) / 2];
  std::vector<SketchTerm> terms;
  double total = 0;
  for (size_t i = 0; i < job.tables.size(); ++i) {
    if (codec.check(job.tables[i].span(), job.element_count, seed) != UpdateStatus::kOk) {
      job.refused.push_back(job.senders[i]);
      continue;
    }
    const double mass = std::min(job.masses[i], mass_max);
    total += mass;
    terms.push_back({static_cast<float>(mass), job.tables[i].span()});
  }
  if (terms.empty()) return;
  for (SketchTerm& term : terms) term.weight = static_cast<float>(static_cast<double>(term.weight) / total);
  job.request = SharedBytes::take(codec.request(terms, job.element_count, seed));
}

}  // namespace

UpdateTables::UpdateTables(const SketchTables* tables, const PeerId& self, const UpdateSlices& slices, Worker& worker,
                           const Clock& clock, Outbox& outbox, UpdateRefusals& refusals, OnRequested on_requested)
    : tables_(tables),
      self_(self),
      update_slices_(slices),
      worker_(worker),
      clock_(clock),
      outbox_(outbox),
      refusals_(refusals),
      on_requested_(std::move(on_requested)) {}

void UpdateTables::begin(const GroupMembers& members, uint64_t round, double mass, Duration wait,
                         const std::vector<SharedBytes>& own) {
  if (tables_ == nullptr) return;
  slices_.resize(update_slices_.size());
  members_ = members;
  round_ = round;
  ended_ = waited_ = false;
  wait_until_ = clock_.now() + wait;
  const auto old = [&](const auto& arriving) {  // or of one that left
    return arriving.second.message.round < round || (arriving.first != self_ && !members.rank_of_other(arriving.first));
  };
  for (uint32_t i = 0; i < slices_.size(); ++i) {
    Slice& slice = slices_[i];
    slice.asked = slice.answered = false;
    std::erase_if(slice.tables, old);
    std::erase_if(slice.requests, old);
    if (i >= own.size() || own[i].empty()) continue;
    const SketchTable message{members.group, round, i, mass, 0, 1};
    const PeerId& owner = members.ids[members.owner(i, round)];
    if (owner != self_) {
      send(owner, message, own[i]);
    } else {
      slice.tables[self_] = {message, {}};
      slice.tables[self_].parts.add(0, 1, own[i]);  // it need not travel
    }
  }
  for (uint32_t i = 0; i < slices_.size(); ++i) answer(i);
}

// ---- in ----

// Nothing is kept of rounds that are over.
template <class Message>
bool UpdateTables::take(std::map<PeerId, Arriving<Message>>& all, const PeerId& from, const Message& message,
                        const SharedBytes& part, size_t bytes_max) {
  if (!PartBuffer::fits(message.part, message.parts, part.size, bytes_max)) {
    refusals_.note(&UpdateRefusals::payloads, from);
    return false;
  }
  bytes_received_ += part.size;
  Arriving<Message>& arriving = all[from];
  if (message.round < round_) return false;
  if (message.round != arriving.message.round || message.group != arriving.message.group) arriving = {message, {}};
  const bool before = arriving.parts.complete();
  arriving.parts.add(message.part, message.parts, part);
  return !before && arriving.parts.complete();
}

void UpdateTables::receive(const PeerId& from, const SketchTable& message, const SharedBytes& part) {
  if (tables_ == nullptr) return;
  slices_.resize(update_slices_.size());
  const size_t bytes = tables_->bytes(update_slices_[message.slice]->shape().element_count);
  (void)take(slices_[message.slice].tables, from, message, part, bytes);
}

void UpdateTables::receive(const PeerId& from, const SketchRequest& message, const SharedBytes& part) {
  if (tables_ == nullptr) return;
  slices_.resize(update_slices_.size());
  const size_t bytes = tables_->request_bytes_max(update_slices_[message.slice]->shape().element_count);
  if (take(slices_[message.slice].requests, from, message, part, bytes)) answer(message.slice);
}

// The elements that the owner of this round asked for, once it did.
void UpdateTables::answer(uint32_t i) {
  Slice& slice = slices_[i];
  if (ended_ || slice.answered) return;
  const auto at = slice.requests.find(members_.ids[members_.owner(i, round_)]);
  if (at == slice.requests.end() || !at->second.parts.complete()) return;
  const SketchRequest& message = at->second.message;
  if (message.group != members_.group || message.round != round_) return;
  slice.answered = true;
  const Bytes request = at->second.parts.whole().span();
  if (tables_->check_request(request, update_slices_[i]->shape().element_count) != UpdateStatus::kOk) {
    refusals_.note(&UpdateRefusals::payloads, at->first);
    return;
  }
  on_requested_(i, SketchTables::requested(request));
}

// ---- the owner ----

bool UpdateTables::has_table(uint32_t slice, const PeerId& from) const {
  if (slice >= slices_.size()) return false;
  const auto at = slices_[slice].tables.find(from);
  return at != slices_[slice].tables.end() && at->second.message.round == round_ &&
         at->second.message.group == members_.group && at->second.parts.complete();
}

void UpdateTables::ask_if_due(uint32_t i, bool all) {
  if (!all && !waited_) return;
  auto job = std::make_shared<RequestJob>();
  for (const auto& [from, arriving] : slices_[i].tables) {
    if (!has_table(i, from)) continue;
    job->tables.push_back(arriving.parts.whole());
    job->senders.push_back(from);
    job->masses.push_back(arriving.message.mass);
  }
  if (job->tables.empty()) return;
  slices_[i].asked = true;
  job->element_count = update_slices_[i]->shape().element_count;
  auto run = [job, codec = tables_] { run_request(*codec, *job); };
  auto done = [this, job, i, round = round_, still_here = std::weak_ptr<int>(alive_)] {
    if (still_here.expired()) return;
    for (const PeerId& sender : job->refused) refusals_.note(&UpdateRefusals::payloads, sender);
    if (round == round_ && !ended_ && !job->request.empty()) ask(i, job->request);
  };
  worker_.submit(std::move(run), std::move(done));
}

void UpdateTables::ask(uint32_t slice, const SharedBytes& request) {
  const SketchRequest message{members_.group, round_, slice, 0, 1};
  for (const PeerId& peer : members_.ids) {
    if (peer != self_) send(peer, message, request);
  }
  slices_[slice].answered = true;
  on_requested_(slice, SketchTables::requested(request.span()));
}

// ---- out ----

template <class Message>
void UpdateTables::send(const PeerId& to, Message message, const SharedBytes& payload) {
  message.parts = parts_of(payload.size);
  for (message.part = 0; message.part < message.parts; ++message.part) {
    outbox_.send(to, message, part_of(payload, message.part));
  }
  bytes_sent_ += payload.size;
}

bool UpdateTables::wait_ends() {
  if (ended_ || waited_ || clock_.now() < wait_until_) return false;
  waited_ = true;
  return true;
}

}  // namespace starling
