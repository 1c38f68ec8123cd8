#include "gossip/updates/update_group.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "gossip/exchange/coefficients.h"
#include "kernels/check.h"

namespace starling {
namespace {

constexpr double kSmallEnergy = 0.1;  // of a residual
// Who waits so many times longer than usual asks at the end of a round for nothing: the next contributions say what
// there is.
constexpr double kPatient = 2;
constexpr size_t kSmallModel = kUpdatePartBytes;  // the bytes of an entry for every slice

// Of a slice. At a run's end codecs that send all elements are replaced by the exact one (choose_encoder).
size_t largest_payload(const SliceRange& slice, const UpdateCodecs& codecs) {
  size_t bytes = 0;
  for (const UpdateRole role : {UpdateRole::kContribution, UpdateRole::kEntry}) {
    bytes = std::max(bytes, codecs.running->bytes_max(role, slice.count));
    if (!codecs.running->residual().unsent) bytes = std::max(bytes, codecs.exact->bytes_max(role, slice.count));
  }
  return bytes;
}

UpdateRoundOptions round_options(const UpdateGroupOptions& options, std::span<const SliceRange> slices,
                                 const UpdateCodecs& codecs) {
  UpdateRoundOptions round{
      .deadline_min = options.deadline_min, .deadline_max = options.deadline_max, .last_first = options.last_first};
  for (const SliceRange& slice : slices) {
    const size_t bytes = largest_payload(slice, codecs);
    round.parts.push_back(parts_of(bytes));
    round.part_bytes = std::max(round.part_bytes, std::min(bytes, kUpdatePartBytes));
  }
  return round;
}

bool is_small(std::span<const SliceRange> slices, const UpdateCodecs& codecs) {
  size_t bytes = 0;
  for (const SliceRange& slice : slices) bytes += codecs.running->bytes_max(UpdateRole::kEntry, slice.count);
  return bytes <= kSmallModel;
}

std::vector<size_t> sizes_of(std::span<const SliceRange> slices) {
  std::vector<size_t> sizes;
  for (const SliceRange& slice : slices) sizes.push_back(slice.count);
  return sizes;
}

}  // namespace

UpdateGroup::UpdateGroup(const UpdateGroupOptions& options, std::span<const SliceRange> slices,
                         const SliceMemory& memory, const UpdateCodecs& codecs, Worker& worker, const Clock& clock,
                         Outbox& outbox, PeerSampler& sampler)
    : options_(options),
      codecs_(codecs),
      worker_(worker),
      clock_(clock),
      outbox_(outbox),
      sampler_(sampler),
      replicas_(options.self, options.generation, slices, memory, options.outer, codecs_),
      plans_(options.merge, sizes_of(slices)),
      round_(round_options(options, slices, codecs), clock, outbox, numbers_),
      owner_(
          options.self, codecs_, worker, slices_, refusals_,
          [this](const LogEntry& entry, const SharedBytes& payload) {
            ++entries_made_;
            round_.entry_made(entry, payload);
          },
          [this] { round_.send_made([this](uint32_t slice) { return owner_.merging(slice); }); },
          [this](uint32_t slice, const PeerId& donor) { messages_.replace(slice, donor); },
          [this](uint32_t slice, const PeerId& donor) { messages_.yield(slice, donor); }),
      tables_(codecs.running->tables(), options.self, slices_, worker, clock, outbox, refusals_,
              [this](uint32_t slice, const std::vector<uint32_t>& requested) { answer(slice, requested); }),
      messages_(options_, codecs_, replicas_, slices_, round_, tables_, numbers_, refusals_, worker, clock, outbox,
                sampler, [this](uint32_t slice) { advance(slice); }),
      log_rounds_(slices_, clock),
      outlook_(options.self, round_, slices_, owner_, tables_),
      overdue_(options.deadline_min, is_small(slices, codecs_), clock),
      reports_(round_, tables_, messages_),
      early_(replicas_, worker, clock, [this](const EarlyJob& job, uint64_t round) { handed_in(job, round); }) {
  STARLING_CHECK(options.deadline_min.count() > 0 && options.deadline_min <= options.deadline_max);
  for (uint32_t i = 0; i < slices.size(); ++i) {
    const size_t values = slices[i].count * (options.outer.has_momentum() ? 2 : 1);
    const UpdateSlice::Shape shape{i, slices[i].count, values};
    slices_.push_back(std::make_unique<UpdateSlice>(shape, options.first_norm_max, codecs_, worker, refusals_,
                                                    [this, i] { advance(i); }));
  }
}

// ---- boundary and round ----

std::shared_ptr<BoundaryJob> UpdateGroup::make_job(std::span<float> x) {
  boundary_ = true;
  auto job = std::make_shared<BoundaryJob>();
  job->x = x;
  job->sick = std::exchange(drop_, false);
  for (auto& slice : slices_) job->backlogs.push_back(slice->take_backlog());
  return job;
}

// Small: after a round or two nothing is left of it. Top-k in fp32 has no need: zeros are short in it.
void UpdateGroup::choose_encoder(BoundaryJob& job) {
  const UpdateResidual rest = codecs_.running->residual();
  const bool at_end = settling_ && last_drift_taken_;
  last_drift_taken_ = settling_;
  job.keeps_only_sent = at_end && rest.energy > kSmallEnergy;
  job.encoder = at_end && !rest.unsent ? codecs_.exact : codecs_.running;
  job.tables = at_end ? nullptr : job.encoder->tables();
}

bool UpdateGroup::begin(std::span<float> x, double mass, uint64_t agent_round, std::function<void()> trainable,
                        bool makes_x, bool may_miss) {
  const bool open = round_.open();
  const std::optional<GroupMembers> members = open ? round_.members() : update_members(sampler_, options_.self);
  if (!members || (under_way() && !open)) return false;
  STARLING_CHECK(mass_is_sane(mass) && !boundary_);
  if (may_hand_in() && open) hand_in_rest(x);
  const std::shared_ptr<BoundaryJob> job = make_job(x);
  choose_encoder(*job);
  job->makes_x = makes_x;
  log_rounds_.begin();
  job->hands_in = !(may_miss && !settling_ && log_rounds_.went_on_after(round()));
  job->members = members->count();
  job->handed_in_before = early_.due();
  job->audited = open ? round_.audited() : next_audited();
  job->select.clock = &clock_;
  auto run = [job, &replicas = replicas_, &clock = clock_] {
    const TimePoint began = clock.now();
    replicas.run(*job);
    job->took = clock.now() - began;
  };
  auto done = [this, job, members = *members, mass, agent_round, trainable = std::move(trainable),
               still_here = std::weak_ptr<int>(alive_)] {
    if (still_here.expired()) return;
    end_boundary(*job);
    note_times(job->took, job->select.sum);
    if (round_.open()) {
      close_round(*job);
    } else if (!job->hands_in) {
      sick_ = job->sick;
      miss_round(members);
    } else {
      begin_round(members, agent_round, mass, *job);
    }
    trainable();
  };
  worker_.submit(std::move(run), std::move(done));
  return true;
}

// The others have ended the round that was to begin, and begin the next one when they have taken their steps. Who began
// that one now would wait for them in vain, train from an old replica, and come later still. What was to be handed in
// stays in the accumulator. The others hear that this member is there, or they would not wait for it next time.
void UpdateGroup::miss_round(const GroupMembers& members) {
  log_rounds_.miss();
  const uint64_t missed = log_rounds_.heard();
  uint32_t entries = 0;
  for (const auto& slice : slices_) entries += slice->entry_round() >= missed;
  reports_.note_missed(missed, slice_count(), entries);
  for (size_t rank = 0; rank < members.count(); ++rank) {
    if (rank != members.self) outbox_.send(members.ids[rank], RoundCredit{members.group, missed, 0, 0});
  }
}

// In turn, shifted by one each time around: else an owner might never own the slice whose turn it is.
uint32_t UpdateGroup::next_audited() const {
  const uint64_t next = round() + 1, count = slices_.size();
  return static_cast<uint32_t>((next + next / count) % count);
}

// ---- before the boundary ----

bool UpdateGroup::may_hand_in() const {
  const bool at_once = codecs_.running->tables() == nullptr && !(codecs_.running->velocity().clip > 0);
  if (!at_once || boundary_ || settling_ || drop_) return false;
  return round_.open() || (round_.ended() && !round_.serving_until());
}

bool UpdateGroup::open_round(double mass, uint64_t agent_round) {
  const std::optional<GroupMembers> members = update_members(sampler_, options_.self);
  if (!members) return false;
  STARLING_CHECK(mass_is_sane(mass));
  BoundaryJob nothing;
  nothing.encoder = codecs_.running;
  nothing.audited = next_audited();
  nothing.handed_in.resize(slices_.size());
  for (const SliceReplica& replica : replicas_.all()) nothing.heads.push_back(replica.head());
  begin_round(*members, agent_round, mass, nothing, true);
  early_.begin(slices_.size(), round(), *encoder_, round_.audited());
  return true;
}

bool UpdateGroup::submit(std::span<const uint32_t> slices, std::span<const float> x, double mass, uint64_t agent_round,
                         std::function<void()> sent) {
  if (!may_hand_in() || (!round_.open() && !open_round(mass, agent_round))) return false;
  early_.submit(slices, buckets(), x, std::move(sent));
  return true;
}

// What backward ended with last, and what it never reached: links would stand idle while all of it is chosen. Where an
// entry waits, the boundary takes it first.
void UpdateGroup::hand_in_rest(std::span<const float> x) {
  std::vector<uint32_t> rest;
  for (auto slice = static_cast<uint32_t>(slices_.size()); slice-- > 0;) {
    if (!early_.due()[slice] && !slices_[slice]->has_backlog()) rest.push_back(slice);
  }
  early_.submit(rest, buckets(), x, {});
}

void UpdateGroup::handed_in(const EarlyJob& job, uint64_t number) {
  note_times(job.took, job.select.sum);
  if (plans_.on()) {
    UpdateSelection& made = selections_.emplace_back(UpdateSelection{0, job.took});
    for (const uint32_t slice : job.slices) made.elements += slices_[slice]->shape().element_count;
  }
  if (job.handed_in.size() < job.slices.size()) drop_ = true;  // this boundary finds it too, or else the next one
  if (!round_.open() || round() != number) return;
  if (job.audit) round_.set_audit(*job.audit);
  round_.hold();
  for (const size_t i : round_.in_turn(std::span(job.slices).first(job.handed_in.size()))) {
    round_.submit(job.slices[i], *job.handed_in[i]);
    handed_in_early_ += !boundary_;
    if (owner_.owns(job.slices[i])) take_own(job.slices[i], *job.handed_in[i]);
    advance(job.slices[i]);
  }
  round_.release();
}

void UpdateGroup::note_times(Duration took, Duration select) {
  select_time_ += select;
  encode_time_ += took - select;
}

void UpdateGroup::close_round(const BoundaryJob& job) {
  sick_ = job.sick;
  early_.end();
  reports_.begin_counting();
  round_.close(job.handed_in, job.heads, job.audit);
  messages_.replicas_moved(job.heads);
  overdue_.begin(round_.wait(), messages_.patience());
  for (uint32_t i = 0; i < slices_.size(); ++i) {
    if (owner_.owns(i) && job.handed_in[i]) take_own(i, *job.handed_in[i]);
  }
  round_.stop_waiting_for_those_ahead();
  round_.stop_waiting_for_the_silent();
  for (uint32_t i = 0; i < slices_.size(); ++i) advance(i);
}

void UpdateGroup::abandon() {
  if (!round_.open()) return;
  round_.end();
  early_.end();
}

// ---- the boundary ----

void UpdateGroup::end_boundary(const BoundaryJob& job) {
  boundary_ = false;
  x_is_due_ = !job.makes_x;
  kept_up_.assign(slices_.size(), false);
  splits_ = job.splits;
  if (!job.makes_x) return;
  drained_ = job.rest == 0;
  held_back_ = std::sqrt(job.rest);
}

// Until the round's own entry is here, the slice's owner may still ask for a payload of the old replica.
bool UpdateGroup::may_keep_up(uint32_t slice) const {
  const bool is_here = slices_[slice]->has_entry_of(round_.members().group, round());
  return is_here && (!kept_up_[slice] || slices_[slice]->has_backlog());
}

void UpdateGroup::keep_up(std::span<float> x) {
  if (!x_is_due_ || keeps_up_ || boundary_ || round_.ended() || round_.open() || sick_ || drop_) return;
  uint32_t ready = 0;
  while (ready < slices_.size() && !may_keep_up(ready)) ++ready;
  if (ready == slices_.size()) return;
  keeps_up_ = kept_up_[ready] = true;
  auto job = std::make_shared<KeepUpJob>();
  job->slice = ready;
  job->x = x;
  job->backlog = slices_[ready]->take_backlog();
  auto run = [job, &replicas = replicas_] { replicas.keep_up(*job); };
  auto done = [this, job, still_here = std::weak_ptr<int>(alive_)] {
    if (still_here.expired()) return;
    keeps_up_ = false;
    messages_.replica_moved(job->slice, job->head);
  };
  worker_.submit(std::move(run), std::move(done));
}

void UpdateGroup::catch_up(std::span<float> x, std::function<void()> trainable) {
  STARLING_CHECK(!boundary_);
  const std::shared_ptr<BoundaryJob> job = make_job(x);
  job->hands_in = false;
  auto run = [job, &replicas = replicas_] { replicas.run(*job); };
  auto done = [this, job, trainable = std::move(trainable), still_here = std::weak_ptr<int>(alive_)] {
    if (still_here.expired()) return;
    end_boundary(*job);
    sick_ = sick_ || job->sick;
    messages_.replicas_moved(std::move(job->heads));
    for (uint32_t i = 0; i < slices_.size(); ++i) advance(i);
    trainable();
  };
  worker_.submit(std::move(run), std::move(done));
}

bool UpdateGroup::resume_with_residual(std::span<float> x, std::function<void()> trainable) {
  STARLING_CHECK(!boundary_);
  const UpdateResidual rest = codecs_.running->residual();
  const bool rounds_only = !rest.unsent && (rest.unbiased || rest.energy <= kSmallEnergy);
  const bool holds_drift = rounds_only && !rest.dropped && !codecs_.running->velocity().used;
  if (settling_ || drop_ || held_back_ == 0 || !holds_drift) return false;
  boundary_ = true;
  auto run = [x, &replicas = replicas_] { replicas.resume_with_residual(x); };
  auto done = [this, trainable = std::move(trainable), still_here = std::weak_ptr<int>(alive_)] {
    if (still_here.expired()) return;
    boundary_ = false;
    for (uint32_t i = 0; i < slices_.size(); ++i) advance(i);
    trainable();
  };
  worker_.submit(std::move(run), std::move(done));
  return true;
}

void UpdateGroup::restore(std::span<const SliceState> states) {
  STARLING_CHECK(states.size() == slices_.size() && round() == 0);
  replicas_.restore(states);
  std::vector<LogHead> heads;
  for (size_t i = 0; i < states.size(); ++i) {
    slices_[i]->restore(states[i]);
    heads.push_back(states[i].head);
  }
  messages_.replicas_moved(std::move(heads));
}

void UpdateGroup::begin_round(const GroupMembers& members, uint64_t agent_round, double mass, const BoundaryJob& job,
                              bool open) {
  sick_ = job.sick;
  const uint64_t own = round() > 0 ? round() + 1 : std::clamp<uint64_t>(agent_round, 1, kUpdateRoundMax);
  const uint64_t number = std::max(std::min(numbers_.next(members, own), log_rounds_.limit(numbers_, members, own)),
                                   log_rounds_.newest() + 1);
  numbers_.keep_only(members);
  std::vector<double> masses(members.count(), 1);
  for (const Participant& participant : sampler_.group()) {
    const auto at = std::lower_bound(members.ids.begin(), members.ids.end(), participant.peer);
    const bool known = at != members.ids.end() && *at == participant.peer && mass_is_sane(participant.weight);
    if (known) masses[static_cast<size_t>(at - members.ids.begin())] = participant.weight;
  }
  encoder_ = job.encoder;
  reports_.begin_counting();
  owner_.begin(members, number, std::move(masses), *job.encoder, plans_.say(number));
  round_.set_buckets(plans_.on() ? plans_.bucket_of_slices(number) : std::vector<uint32_t>());
  round_.begin(members, number, mass, job.handed_in, job.heads, job.audited, job.audit, open);
  messages_.begin_round(job.heads);
  overdue_.begin(round_.wait(), messages_.patience());
  for (uint32_t i = 0; i < slices_.size(); ++i) {
    if (owner_.owns(i) && job.handed_in[i]) take_own(i, *job.handed_in[i]);
  }
  tables_.begin(members, number, mass, round_.wait().first_wait() / 2, job.own_tables);
  round_.stop_waiting_for_those_ahead();
  round_.stop_waiting_for_the_silent();
  for (uint32_t i = 0; i < slices_.size(); ++i) advance(i);
}

void UpdateGroup::take_own(uint32_t slice, const SentPayload& payload) {
  Contribution message = round_.contribution(slice);
  message.parts = 1;  // it need not travel
  (void)slices_[slice]->inbox().add(options_.self, options_.generation, message, payload.bytes);
}

// The owner of the slice asks for these elements. Who handed in an older payload again at the boundary stays with it.
void UpdateGroup::answer(uint32_t slice, const std::vector<uint32_t>& requested) {
  if (boundary_ || round_.ended() || sick_ || round_.contribution(slice).round == round()) return;
  struct Job {
    std::vector<uint32_t> requested;
    std::optional<SentPayload> payload;
  };
  auto job = std::make_shared<Job>(Job{requested, std::nullopt});
  auto run = [job, slice, &replicas = replicas_, encoder = encoder_] {
    job->payload = replicas.submit(slice, *encoder, job->requested);
  };
  auto done = [this, job, slice, number = round(), still_here = std::weak_ptr<int>(alive_)] {
    if (still_here.expired() || !job->payload || boundary_ || round_.ended() || round() != number) return;
    round_.submit(slice, *job->payload);
    if (owner_.owns(slice)) take_own(slice, *job->payload);
    advance(slice);
  };
  worker_.submit(std::move(run), std::move(done));
}

// Whatever may have happened to a slice: its owner may be able to merge now, and the round may be over.
void UpdateGroup::advance(uint32_t slice) {
  if (slice == 0) look_at_plan();
  log_rounds_.note_entry(slice);
  if (boundary_ || round_.ended()) return;
  if (tables_.may_ask(slice)) tables_.ask_if_due(slice, outlook_.all_tables(slice, sick_));
  owner_.merge(slice, round_.wait().first_over() || outlook_.all_handed_in(slice, sick_));
  try_end();
}

// The newest entry alone: each one repeats what its owner knew when its round began. Who takes several at once misses a
// plan where the next owner had begun its round before it heard of it, and learns of it from that owner's next entry.
void UpdateGroup::look_at_plan() {
  const UpdateLog& log = slices_[0]->log();
  if (log.entries().empty() || log.head().hash == plan_seen_) return;
  plan_seen_ = log.head().hash;
  // An owner that calls its entry one of a far round would keep every other plan out.
  const uint64_t newest = std::max(round(), log_rounds_.newest()) + UpdatePlans::kAhead;
  plans_.take(log.newest().entry.plan, std::min(log.newest().entry.round, newest));
}

void UpdateGroup::try_end() {
  if (boundary_ || round_.ended() || round_.open() || owner_.jobs() > 0) return;
  bool all = true;
  for (uint32_t i = 0; i < slices_.size(); ++i) all = all && outlook_.resolved(i, sick_);
  if (!all && !round_.wait().second_over()) return;
  round_.end();
  tables_.end();
  uint32_t entries = 0;
  for (uint32_t i = 0; i < slices_.size(); ++i) {
    if (slices_[i]->has_entry_of(round_.members().group, round())) {
      ++entries;
    } else if (owner_.owns(i) && send_to_those_behind(i)) {
      continue;  // it lacks nothing that they have
    } else if (messages_.patience() < kPatient) {
      messages_.ask_anyone(i);
    }
  }
  reports_.note_end(slice_count(), entries, sick_);
}

// Who handed in to this owner from a log that lacks its newest entry made what is void here, so there was no entry.
// Members hear what others hold from what these hand in to them, and an owner hands in to nobody: the entry would reach
// them one by one, as they ask members at random.
bool UpdateGroup::send_to_those_behind(uint32_t slice) {
  bool sent = false;
  for (const PeerId& id : round_.members().ids) {
    const LogHead* head = id == options_.self ? nullptr : slices_[slice]->inbox().head_of(id, round());
    if (head != nullptr && messages_.send_after(slice, id, *head)) sent = true;
  }
  return sent;
}

// ---- time, and how it stands ----

void UpdateGroup::ask_for_overdue() {
  overdue_.asked(round_.wait(), messages_.patience());
  for (uint32_t i = 0; i < slices_.size(); ++i) {
    const bool here = slices_[i]->has_entry_of(round_.members().group, round()) || slices_[i]->checking();
    if (!owner_.owns(i) && !here) messages_.ask_anyone(i);
  }
}

bool UpdateGroup::has_news() const {
  return drop_ || std::any_of(slices_.begin(), slices_.end(), [](const auto& slice) { return slice->has_backlog(); });
}

bool UpdateGroup::agreed() const {
  return drained_ && !has_news() && std::all_of(slices_.begin(), slices_.end(), [&](const auto& slice) {
           return slice->log().counts_nothing_of(round_.members().ids);
         });
}

uint64_t UpdateGroup::behind() const {
  uint64_t most = 0;
  for (const auto& slice : slices_) most = std::max(most, slice->claims().behind(slice->log().head()));
  return most;
}

bool UpdateGroup::heard() const {
  return std::all_of(slices_.begin(), slices_.end(), [](const auto& slice) { return slice->entry_round() > 0; });
}

void UpdateGroup::ask_for_ends() {
  for (uint32_t i = 0; i < slices_.size(); ++i) {
    if (!messages_.ends_as_others(i) && slices_[i]->collecting() == nullptr) messages_.ask_anyone(i);
  }
}

bool UpdateGroup::ends_as_others() const {
  for (uint32_t i = 0; i < slices_.size(); ++i) {
    if (!messages_.ends_as_others(i)) return false;
  }
  return true;
}

void UpdateGroup::tick() {
  messages_.tick();
  if (boundary_ || round_.ended()) return;
  if (round_.open()) return round_.tick_credits();
  if (tables_.wait_ends()) {
    for (uint32_t i = 0; i < slices_.size(); ++i) advance(i);
  }
  RoundWait& wait = round_.wait();
  if (wait.first_ends()) {
    wait.pass_first(round_.streams().nothing_came(0));
    for (uint32_t i = 0; i < slices_.size(); ++i) advance(i);
  }
  if (!round_.ended() && overdue_.due()) ask_for_overdue();
  if (!round_.ended() && wait.second_ends()) {
    wait.pass_second(round_.streams().nothing_came(1));
    try_end();
  }
  round_.tick_credits();
}

TimePoint UpdateGroup::next_deadline() const {
  if (boundary_) return messages_.next_deadline();  // its end wakes this member
  const TimePoint ask_at = round_.ended() || round_.open() ? TimePoint::max() : overdue_.next();
  return std::min({round_.next_deadline(), tables_.next_deadline(), messages_.next_deadline(), ask_at});
}

void UpdateGroup::forget(const PeerId& peer) {
  numbers_.forget(peer);
  round_.forget(peer);
  for (uint32_t i = 0; i < slices_.size(); ++i) {
    slices_[i]->claims().forget(peer);
    advance(i);
  }
}

void UpdateGroup::lost(const PeerId& peer) {
  round_.lost(peer);
  for (uint32_t i = 0; i < slices_.size(); ++i) advance(i);
}

UpdateMemory UpdateGroup::memory() const {
  STARLING_CHECK(!boundary_);
  UpdateMemory memory;
  HeldBytes held;
  for (const SliceReplica& replica : replicas_.all()) {
    for (const SentPayload& sent : replica.sent().all()) {
      memory.sent += held.add(sent.bytes);
      if (sent.settled) memory.sent += held.add(sent.settled->entry);
    }
  }
  for (const auto& slice : slices_) slice->add_memory(held, &memory);
  memory.states += messages_.bytes_for_others();
  return memory;
}

UpdateTally UpdateGroup::tally() const {
  UpdateTally tally;
  for (const auto& slice : slices_) tally.states_adopted += slice->states_adopted();
  tally.entries_made = entries_made_;
  tally.refused = refusals_;
  tally.handed_in_early = handed_in_early_;
  tally.audits_failed = messages_.tally().audits_failed;
  tally.injected = messages_.tally().injected;
  tally.ignored_messages = messages_.tally().ignored;
  tally.pulls_sent = messages_.pulls_sent();
  return tally;
}

}  // namespace starling
