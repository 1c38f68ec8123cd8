// Agents that hand in updates in one group, over the network of harness.h, and an omniscient observer of their logs.
// All updates are small integers: the codec rounds entries to integers and calls every payload equally large, so every
// sum is exact and nothing is scaled.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "gossip/net/hash.h"
#include "gossip/updates/update_group.h"
#include "tests/gossip/exchange/harness.h"

namespace starling::exchange_test {

// fp32, of which a test changes something.
class UpdateCodecAround : public UpdateCodec {
 public:
  UpdateKind kind() const override { return UpdateKind::kFp32; }
  UpdateResidual residual() const override { return exact_->residual(); }
  size_t bytes_max(UpdateRole role, size_t count) const override { return exact_->bytes_max(role, count); }
  UpdateStatus check(UpdateRole role, Bytes payload, size_t count) const override {
    return exact_->check(role, payload, count);
  }
  void add(float coefficient, Bytes payload, const UpdateSupport& on, std::span<float> target) const override {
    exact_->add(coefficient, payload, on, target);
  }
  void decode_part(Bytes payload, const UpdateSupport& on, size_t begin, std::span<float> out) const override {
    exact_->decode_part(payload, on, begin, out);
  }
  UpdateSupport support(Bytes payload) const override { return exact_->support(payload); }
  double norm(Bytes payload) const override { return exact_->norm(payload); }

 protected:
  const UpdateCodec& inner() const { return *exact_; }

 private:
  std::unique_ptr<UpdateCodec> exact_ = make_update_codec({});
};

class IntegerUpdates final : public UpdateCodecAround {
 public:
  // Behind each payload stand so many bytes that say nothing.
  explicit IntegerUpdates(size_t more_bytes = 0) : more_bytes_(more_bytes) {}

  size_t bytes_max(UpdateRole role, size_t count) const override {
    return inner().bytes_max(role, count) + more_bytes_;
  }
  std::optional<size_t> encode_chosen(UpdateRole role, std::span<const float> x, const UpdateSeeds& seeds,
                                      const UpdateSupport&, MutableBytes out) const override {
    std::vector<float> rounded(x.begin(), x.end());
    for (float& value : rounded) value = role == UpdateRole::kEntry ? std::nearbyint(value) : value;
    const std::optional<size_t> size = inner().encode(role, rounded, seeds, out.first(out.size() - more_bytes_));
    if (!size) return std::nullopt;
    std::fill_n(out.begin() + static_cast<std::ptrdiff_t>(*size), more_bytes_, std::byte{});
    return *size + more_bytes_;
  }
  UpdateStatus check(UpdateRole role, Bytes payload, size_t count) const override {
    return payload.size() < more_bytes_ ? UpdateStatus::kWrongSize : inner().check(role, values(payload), count);
  }
  void add(float coefficient, Bytes payload, const UpdateSupport& on, std::span<float> target) const override {
    inner().add(coefficient, values(payload), on, target);
  }
  void decode_part(Bytes payload, const UpdateSupport& on, size_t begin, std::span<float> out) const override {
    inner().decode_part(values(payload), on, begin, out);
  }
  UpdateSupport support(Bytes payload) const override { return inner().support(values(payload)); }
  double norm(Bytes) const override { return 1; }

 private:
  Bytes values(Bytes payload) const { return payload.first(payload.size() - more_bytes_); }

  const size_t more_bytes_;
};

struct UpdateAgentOptions {
  size_t slices = 2, elements = 3;  // of each slice
  Duration deadline_min = milliseconds(20), deadline_max = milliseconds(100);
  Duration compute = milliseconds(30);  // between the end of a round and the next boundary
  OuterRule outer{};
  const UpdateCodec* codec = nullptr;  // null: IntegerUpdates
  size_t more_bytes = 0;               // of each payload of IntegerUpdates
  bool masses = false;                 // of 1, 2, 4 ... by tag; else all 1
  bool last_first = false;             // the last slice is handed in first
  bool merge = false;                  // plans are taken
};

class UpdateAgent final : public PeerSampler {
 public:
  UpdateAgent(uint8_t tag, uint64_t process, const UpdateAgentOptions& options, const Clock& clock,
              TestNetwork& network)
      : id(test_peer(tag)),
        generation(process),
        mass(options.masses ? static_cast<double>(1 << tag % 3) : 1),
        options_(options),
        integers_(options.more_bytes),
        params(count()),
        momentum(options.outer.has_momentum() ? count() : 0),
        accumulator(count()),
        velocity(codec().velocity().used ? count() : 0),
        x(count()),
        drifts(count()),
        corrections(count()),
        port(network, id, process),
        rng_(1000 * process + tag) {
    std::vector<SliceRange> slices;
    for (size_t i = 0; i < options.slices; ++i) slices.push_back({i * options.elements, options.elements});
    const UpdateGroupOptions own{.self = id,
                                 .generation = process,
                                 .deadline_min = options.deadline_min,
                                 .deadline_max = options.deadline_max,
                                 .outer = options.outer,
                                 .last_first = options.last_first,
                                 .merge = options.merge,
                                 .rng_seed = tag};
    const UpdateCodecs codecs{&codec(), options.codec != nullptr ? exact_.get() : &codec()};
    const SliceMemory memory{params, momentum, accumulator, velocity};
    group_ = std::make_unique<UpdateGroup>(own, slices, memory, codecs, worker, clock, port, *this);
  }

  const UpdateCodec& codec() const { return options_.codec != nullptr ? *options_.codec : integers_; }
  size_t count() const { return options_.slices * options_.elements; }
  std::span<const float> slice(std::span<const float> all, size_t i) const {
    return all.subspan(i * options_.elements, options_.elements);
  }
  UpdateGroup& exchange() { return *group_; }
  const SliceReplica& replica(size_t i) const { return group_->replicas().all()[i]; }

  std::optional<PeerId> choose(const std::vector<PeerId>&) override { return std::nullopt; }
  void met(const PeerId&) override {}
  uint64_t last_met(const PeerId&) override { return 0; }
  std::vector<PeerId> candidates() override { return {}; }
  std::vector<Participant> neighbors(uint64_t) override { return {}; }
  std::vector<Participant> group() override {
    std::vector<Participant> sorted;
    for (const auto& [peer, weight] : view) sorted.push_back({peer, weight});
    return sorted;
  }

  void receive() {
    port.receive(
        [this](const PeerId& from, uint64_t process, const ExchangeMessage& message, const SharedBytes& payload) {
          group_->handle(from, process, message, payload);
          if (!worker_holds) complete();
        });
  }
  void tick() {
    group_->tick();
    if (!worker_holds) complete();
  }
  void complete() {
    while (worker.has_completions()) worker.run_completions();
  }
  // Local steps, then a boundary. False: this agent is in no group.
  bool boundary() {
    x = params;
    // Half of the members: what is conserved does not depend on where steps begin.
    if (id.bytes[0] % 2 == 1 && options_.codec == nullptr) {
      (void)group_->resume_with_residual(x, [] {});
      complete();
    }
    const std::vector<float> began = x;
    params_before = params;
    unsettled.clear();
    for (size_t i = 0; i < options_.slices; ++i) {
      for (const SentPayload& sent : replica(i).sent().all()) {
        if (!sent.settled && !sent.retired) unsettled.insert({i, sent.seq});
      }
    }
    if (local_steps) local_steps(x);
    for (size_t i = 0; i < x.size() && !still && !local_steps; ++i) {
      const float step = static_cast<float>(rng_.below(21)) - 10;
      x[i] += step;
      drifts[i] += static_cast<double>(step);
    }
    bool trainable = false;
    const bool begun = group_->begin(x, mass, first_round, [&] { trainable = true; }, true, may_miss);
    complete();
    EXPECT_EQ(trainable, begun);
    if (!begun) {
      for (size_t i = 0; i < x.size(); ++i) drifts[i] -= static_cast<double>(x[i] - began[i]);
      return false;
    }
    EXPECT_EQ(x, params);
    ++boundaries;
    roster = view;
    for (size_t i = 0; i < options_.slices && options_.codec == nullptr; ++i) {
      const std::vector<SentPayload>& sent = replica(i).sent().all();
      for (auto newest = sent.rbegin(); newest != sent.rend(); ++newest) {
        std::vector<float>& values = handed_in[{i, newest->seq}];
        if (!values.empty()) break;
        values.resize(options_.elements);
        codec().decode(newest->bytes.span(), values);
      }
    }
    return true;
  }

  PeerId id;
  uint64_t generation;
  double mass;
  std::map<PeerId, double> view;                        // members and their masses, this agent among them
  std::map<PeerId, double> roster;                      // the view at the last boundary
  bool still = false;                                   // no more local steps
  bool may_miss = false;                                // a round that the others have ended
  bool worker_holds = false;                            // what jobs found is told later, but for boundaries
  std::function<void(std::span<float> x)> local_steps;  // empty: random integers
  uint64_t first_round = 1;
  uint64_t boundaries = 0;
  std::optional<TimePoint> frozen_until, next_boundary;
  TimePoint thawed_at{};

 private:
  UpdateAgentOptions options_;
  IntegerUpdates integers_;
  std::unique_ptr<UpdateCodec> exact_ = make_update_codec({});

 public:
  std::vector<float> params, momentum, accumulator, velocity, x;
  std::vector<double> drifts, corrections;  // corrections: of long splits and of what was under way at a cut
  std::map<std::pair<size_t, uint64_t>, std::vector<float>> handed_in;  // by slice and seq
  std::vector<float> params_before;                                     // the last boundary
  std::set<std::pair<size_t, uint64_t>> unsettled;  // likewise: slice and seq of what may yet leave the accumulator
  InlineWorker worker;
  TestPort port;

 private:
  Rng rng_;
  std::unique_ptr<UpdateGroup> group_;
};

// What must never happen, whatever is lost, late or killed.
enum class Fault { kNotConserved, kCountedTwice, kTwoBitPatterns };

// Sees every entry that is made, and judges what the agents hold.
class LogObserver {
 public:
  // Called once for each fault.
  std::function<void(Fault, const std::string&)> on_fault = [](Fault, const std::string& what) {
    ADD_FAILURE() << what;
  };

  bool may_forge = false;  // entries count what nobody handed in

  void see(const LogEntry& entry) { entries_.try_emplace(entry.head.hash, entry); }
  size_t count() const { return entries_.size(); }

  bool continues(const LogHead& longer, const LogHead& shorter) const {
    bool found = shorter.length == 0 || longer == shorter;
    walk(longer, [&](const LogEntry& entry) { found = found || entry.previous == shorter.hash; });
    return found;
  }

  // Of an agent that is alone nothing is sent, so its log is read: what it still holds, whatever came before.
  void see(const UpdateLog& log) {
    std::vector<LogHead> befores(1);
    for (const RecentEntry& entry : log.recent()) befores.push_back({0, 0, entry.hash});
    for (const LogHead& before : befores) {
      for (const LoggedEntry& logged : log.after(before).value_or(std::vector<LoggedEntry>())) see(logged.entry);
    }
  }

  // After a boundary of this agent: one head, one bit pattern.
  void judge_bits(const UpdateAgent& agent, size_t slice_count) {
    for (size_t s = 0; s < slice_count; ++s) {
      std::vector<std::byte> bytes;
      for (const std::vector<float>* values : {&agent.params, &agent.momentum}) {
        if (values->empty()) continue;
        const auto part = std::as_bytes(agent.slice(*values, s));
        bytes.insert(bytes.end(), part.begin(), part.end());
      }
      const auto [at, fresh] = bits_.try_emplace({s, agent.replica(s).head().hash}, xxh3_64(bytes));
      if (at->second != xxh3_64(bytes)) on_fault(Fault::kTwoBitPatterns, "two bit patterns under one head");
    }
  }
  // And with IntegerUpdates: nothing is counted twice, and its accumulator is exact.
  void judge(UpdateAgent& agent, size_t slice_count) {
    for (size_t s = 0; s < slice_count; ++s) {
      const SliceReplica& replica = agent.replica(s);
      see(agent.exchange().log(static_cast<uint32_t>(s)));
      std::vector<double> expected(agent.slice(agent.params, s).size());
      const size_t first = s * expected.size();
      const std::span<const float> now = agent.slice(agent.params, s);
      replicas_.try_emplace(replica.head().hash, now.begin(), now.end());
      const std::set<uint64_t> counted_before = ledgers_[{agent.id, agent.generation, s}].seqs;
      for (size_t i = 0; i < expected.size(); ++i) expected[i] = agent.drifts[first + i] + agent.corrections[first + i];
      const Ledger& ledger = follow(agent, s);
      for (size_t i = 0; i < expected.size(); ++i) expected[i] -= ledger.sum[i];
      std::vector<double> correction(expected.size());
      for (size_t i = 0; i < expected.size(); ++i) {
        correction[i] = static_cast<double>(agent.accumulator[first + i]) - expected[i];
        agent.corrections[first + i] += correction[i];
      }
      const std::string who = "agent " + std::to_string(agent.id.bytes[0]) + ", slice " + std::to_string(s);
      const Inexact before = std::exchange(inexact_[{agent.id, agent.generation, s}],
                                           {replica.tally().long_splits, replica.tally().lost_payloads});
      // A payload under way when a cut begins may count on both sides; its bytes may be gone when both meet.
      if (replica.tally().lost_payloads > before.lost_payloads) continue;
      if (replica.tally().long_splits > before.long_splits) {
        const bool right = may_forge || is_difference(correction, agent, s, counted_before);
        if (!right) on_fault(Fault::kNotConserved, who + ": a long split made another drift than both logs differ by");
      } else if (std::any_of(correction.begin(), correction.end(), [](double value) { return value != 0; })) {
        on_fault(Fault::kNotConserved, who + ": not what it did and no entry counts");
      }
    }
  }

 private:
  struct Inexact { uint64_t long_splits = 0, lost_payloads = 0; };
  // What the log with this head counts of one agent's slice, and the sum of it.
  struct Ledger {
    LogHead head;
    std::set<uint64_t> seqs;
    std::vector<double> sum;
  };
  // Goes on from the head of the last time, if the log still continues that.
  const Ledger& follow(const UpdateAgent& agent, size_t slice) {
    Ledger& ledger = ledgers_[{agent.id, agent.generation, slice}];
    const LogHead head = agent.replica(slice).head();
    std::vector<uint64_t> seqs;
    const auto take = [&](const LogEntry& entry) {
      for (const CountedPayload& payload : entry.counted) {
        if (payload.peer == agent.id && payload.generation == agent.generation) seqs.push_back(payload.seq);
      }
    };
    if (head.length < ledger.head.length || walk(head, take, ledger.head).hash != ledger.head.hash) {
      seqs.clear();
      ledger = {};
      walk(head, take);
    }
    ledger.head = head;
    ledger.sum.resize(agent.slice(agent.params, slice).size());
    for (const uint64_t seq : seqs) {
      if (!ledger.seqs.insert(seq).second) {
        const bool first = twice_.insert({agent.id, agent.generation, slice, seq}).second;
        if (first) on_fault(Fault::kCountedTwice, "a payload was counted twice");
        continue;
      }
      const auto payload = agent.handed_in.find({slice, seq});
      EXPECT_TRUE(may_forge || payload != agent.handed_in.end()) << "a payload that was never handed in";
      if (payload == agent.handed_in.end()) continue;
      for (size_t i = 0; i < ledger.sum.size(); ++i) ledger.sum[i] += static_cast<double>(payload->second[i]);
    }
    return ledger;
  }

  // Whether a long split at the last boundary made R_mine - R_winner drift, and nothing else. Beside that the ledger of
  // the own payloads is another one: what only the own log counted is in the difference, and so is what only the
  // winner's counts, unless it was still held, and left the accumulator. One of the newest heads is the adopted one.
  bool is_difference(const std::vector<double>& correction, const UpdateAgent& agent, size_t slice,
                     const std::set<uint64_t>& counted_before) {
    LogHead adopted = agent.replica(slice).head();
    for (size_t back = 0; back < kRecentEntries + kRecentEntries && adopted.length > 0; ++back) {
      const auto theirs = replicas_.find(adopted.hash);
      if (theirs != replicas_.end() &&
          correction == difference(agent, slice, counted_before, adopted, theirs->second)) {
        return true;
      }
      const auto entry = entries_.find(adopted.hash);
      if (entry == entries_.end()) return false;
      adopted = {adopted.length - 1, 0, entry->second.previous};
    }
    return false;
  }
  std::vector<double> difference(const UpdateAgent& agent, size_t slice, const std::set<uint64_t>& counted_before,
                                 const LogHead& adopted, const std::vector<float>& theirs) const {
    const std::span<const float> mine = agent.slice(agent.params_before, slice);
    std::vector<double> sum(mine.size());
    for (size_t i = 0; i < sum.size(); ++i) sum[i] = static_cast<double>(mine[i]) - static_cast<double>(theirs[i]);
    const auto add = [&](uint64_t seq, double sign) {
      const std::vector<float>& payload = agent.handed_in.at({slice, seq});
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += sign * static_cast<double>(payload[i]);
    };
    for (const uint64_t seq : counted_before) add(seq, -1);
    walk(adopted, [&](const LogEntry& entry) {
      for (const CountedPayload& counted : entry.counted) {
        if (counted.peer != agent.id || counted.generation != agent.generation) continue;
        if (!agent.unsettled.contains({slice, counted.seq})) add(counted.seq, 1);
      }
    });
    return sum;
  }

  // From the head back to where the log was as long as `until`. Returns the head there.
  template <typename Visit>
  LogHead walk(const LogHead& head, const Visit& visit, const LogHead& until = {}) const {
    LogHead at = head;
    while (at.length > until.length) {
      const auto entry = entries_.find(at.hash);
      EXPECT_NE(entry, entries_.end()) << "an entry that nobody made";
      if (entry == entries_.end()) break;
      visit(entry->second);
      at = {at.length - 1, 0, entry->second.previous};
    }
    return at;
  }

  std::map<Digest16, LogEntry> entries_;
  std::map<std::tuple<PeerId, uint64_t, size_t>, Ledger> ledgers_;
  std::map<std::pair<size_t, Digest16>, uint64_t> bits_;
  std::map<std::tuple<PeerId, uint64_t, size_t>, Inexact> inexact_;
  std::map<Digest16, std::vector<float>> replicas_;  // by head, as members held them after a boundary
  std::set<std::tuple<PeerId, uint64_t, size_t, uint64_t>> twice_;
};

class UpdateSwarm {
 public:
  explicit UpdateSwarm(const UpdateAgentOptions& options, uint64_t rng_seed = 1)
      : network(clock, rng_seed), options_(options) {
    network.measures_in_flight = false;
    network.watch = [this](const Flight& flight) {
      if (const auto* entry = message_as<LogEntry>(flight.message)) observer.see(*entry);
      if (const auto* bundle = message_as<UpdateBundle>(flight.message)) {
        for (const LogEntry& entry : bundle->entries) observer.see(entry);
      }
    };
  }
  UpdateSwarm(size_t n, const UpdateAgentOptions& options, uint64_t rng_seed = 1) : UpdateSwarm(options, rng_seed) {
    for (size_t i = 0; i < n; ++i) add(static_cast<uint8_t>(i + 1));
    share_views();
  }

  UpdateAgent& add(uint8_t tag, uint64_t generation = 1) { return add(tag, generation, options_); }
  UpdateAgent& add(uint8_t tag, uint64_t generation, const UpdateAgentOptions& options) {
    agents.erase(test_peer(tag));
    auto agent = std::make_unique<UpdateAgent>(tag, generation, options, clock, network);
    UpdateAgent& added = *agent;
    added.view[added.id] = added.mass;
    added.next_boundary = clock.now();
    agents[added.id] = std::move(agent);
    return added;
  }
  UpdateAgent& at(uint8_t tag) { return *agents.at(test_peer(tag)); }
  void share_views() {
    for (auto& [id, agent] : agents) {
      agent->view.clear();
      for (auto& [other, member] : agents) agent->view[other] = member->mass;
    }
  }

  // Everybody at its own pace: a boundary `compute` after the end of each round. `on_step` is called when something
  // happened.
  void run_for(Duration duration, const std::function<void()>& on_step = nullptr) {
    const TimePoint until = clock.now() + duration;
    for (;;) {
      TimePoint next = std::min(network.next_at(), wake_at);
      for (auto& [id, agent] : agents) next = std::min(next, next_of(*agent));
      if (next > until) break;
      clock.advance_to(std::max(clock.now(), next));
      while (network.next_at() <= clock.now()) network.deliver_due();
      for (auto& [id, agent] : agents) step(*agent);
      if (on_step) on_step();
    }
    clock.advance_to(until);
  }

  // Of all that do not lie, like all_drained().
  bool all_heads_equal() const {
    UpdateAgent* first = nullptr;
    for (auto& [id, agent] : agents) {
      if (liars.contains(id)) continue;
      if (first == nullptr) first = agent.get();
      for (size_t s = 0; s < options_.slices; ++s) {
        const auto slice = static_cast<uint32_t>(s);
        if (agent->exchange().log(slice).head() != first->exchange().log(slice).head()) return false;
      }
    }
    return true;
  }
  // Whether all agents are in rounds of all agents.
  bool one_roster() const {
    return std::all_of(agents.begin(), agents.end(), [&](const auto& entry) {
      const auto same = [](const auto& a, const auto& b) { return a.first == b.first; };
      return std::equal(entry.second->roster.begin(), entry.second->roster.end(), agents.begin(), agents.end(), same);
    });
  }
  const UpdateAgentOptions& options() const { return options_; }

  // Everybody stops training. True: soon all hold one log, and everything was handed in and counted.
  bool runs_empty(Duration limit = std::chrono::seconds(5)) {
    for (auto& [id, agent] : agents) agent->still = true;
    for (const TimePoint until = clock.now() + limit; clock.now() < until;) {
      if (all_heads_equal() && all_drained()) return true;
      run_for(milliseconds(5));
    }
    return false;
  }
  bool all_drained() const {
    return std::all_of(agents.begin(), agents.end(), [this](const auto& entry) {
      const std::vector<float>& rest = entry.second->accumulator;
      const bool empty = std::all_of(rest.begin(), rest.end(), [](float value) { return value == 0; });
      return empty || liars.contains(entry.first);
    });
  }

  VirtualClock clock;
  TestNetwork network;
  LogObserver observer;
  std::map<PeerId, std::unique_ptr<UpdateAgent>> agents;
  TimePoint wake_at = TimePoint::max();  // for on_step
  Duration longest{};                    // of the rounds of agents that were not frozen meanwhile
  uint64_t rounds = 0, entries = 0, entries_due = 0;
  bool judge_bits = true;  // off while a test damages a replica
  std::set<PeerId> liars;  // nobody judges them

 private:
  TimePoint next_of(const UpdateAgent& agent) const {
    if (agent.frozen_until) return *agent.frozen_until;
    const TimePoint boundary = agent.next_boundary ? *agent.next_boundary : TimePoint::max();
    auto& group = const_cast<UpdateAgent&>(agent).exchange();
    return std::min(boundary, group.next_deadline());
  }
  void step(UpdateAgent& agent) {
    if (agent.frozen_until) {
      if (*agent.frozen_until > clock.now()) return;
      agent.frozen_until.reset();
      agent.thawed_at = clock.now();
    }
    agent.receive();
    agent.tick();
    take_reports(agent);
    if (agent.exchange().under_way()) return;
    if (!agent.next_boundary) agent.next_boundary = clock.now() + options_.compute;
    if (*agent.next_boundary > clock.now()) return;
    agent.next_boundary.reset();
    const bool begun = agent.boundary();
    const bool lies = liars.contains(agent.id);
    if (begun && options_.codec == nullptr && !lies) observer.judge(agent, options_.slices);
    if (begun && judge_bits && !lies) observer.judge_bits(agent, options_.slices);
    take_reports(agent);
    if (!agent.exchange().under_way()) agent.next_boundary = clock.now() + options_.compute;
  }
  void take_reports(UpdateAgent& agent) {
    for (const UpdateReport& report : agent.exchange().take_reports()) {
      if (liars.contains(agent.id)) continue;
      ++rounds;
      entries += report.entries;
      entries_due += report.slices;
      if (clock.now() - report.duration > agent.thawed_at) longest = std::max(longest, report.duration);
    }
  }

  UpdateAgentOptions options_;
};

}  // namespace starling::exchange_test
