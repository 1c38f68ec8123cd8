// What a member of a group that shares updates does to memory in a round, and what it holds: the product's own parts on
// one thread, without sockets, for tools/bench. Prints one line of JSON.
//
//   bench_updates passes PARAMS MEMBERS           milliseconds a member and round, by pass over memory
//   bench_updates memory PARAMS MEMBERS CODEC MOMENTUM   bytes a param that a member holds at most, by reason
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "compression/codec.h"
#include "gossip/group/group_average.h"
#include "gossip/net/hash.h"
#include "gossip/rng.h"
#include "gossip/sim/virtual_clock.h"
#include "gossip/updates/update_group.h"
#include "kernels/vector_ops.h"

namespace starling {
namespace {

using std::chrono::milliseconds;

constexpr int kRounds = 12;  // more than a log remembers

std::vector<PeerId> members_of(size_t count) {
  std::vector<PeerId> ids(count);
  for (size_t i = 0; i < count; ++i) ids[i].bytes.fill(static_cast<uint8_t>(i + 1));
  return ids;
}

void draw(std::span<float> values, uint64_t rng_seed) {
  Rng rng(rng_seed);
  for (float& value : values) value = static_cast<float>(rng.uniform() - 0.5);
}

// ---- passes ----

class Passes {
 public:
  template <class Run>
  void time(const std::string& name, const Run& run) {
    const auto begin = std::chrono::steady_clock::now();
    run();
    spent_[name] += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  }
  // The fastest of all rounds by pass: what else the machine does is no part of it.
  void round_ends() {
    for (const auto& [name, ms] : spent_) {
      const auto [at, fresh] = best_.try_emplace(name, ms);
      at->second = std::min(at->second, ms);
    }
    spent_.clear();
  }
  const std::map<std::string, double>& best() const { return best_; }

 private:
  std::map<std::string, double> spent_, best_;
};

class Member {
 public:
  Member(size_t params, size_t members)
      : members_(members),
        ids_(members_of(members)),
        r_(params),
        accumulator_(params),
        x_(params),
        slices_(cut_slices(std::vector<size_t>{params})) {
    draw(x_, 1);
    for (const SliceRange& slice : slices_) {
      const SliceMemory memory{std::span(r_).subspan(slice.offset, slice.count),
                               {},
                               std::span(accumulator_).subspan(slice.offset, slice.count)};
      replicas_.emplace_back(ids_[0], 1, memory, OuterRule{}, codecs_);
      logs_.emplace_back(1e30f, slice.count * sizeof(float));
    }
  }

  void round(Passes& passes) {
    for (float& value : x_) value += 1e-3f;  // local steps
    std::vector<SharedBytes> handed_in(slices_.size());
    for (size_t i = 0; i < slices_.size(); ++i) {
      passes.time("drift into the accumulator", [&] { (void)replicas_[i].add_drift(x_of(i)); });
      passes.time("accumulator into payloads", [&] { handed_in[i] = replicas_[i].submit(*exact_)->bytes; });
    }
    ++round_;
    for (size_t i = 0; i < slices_.size(); ++i) {
      const std::shared_ptr<MergeJob> job = merge_of(i, handed_in[i]);
      if (i % members_ == 0) passes.time("own slices: norms, sum, entry, its norm and hashes", [&] { merge(*job); });
      if (i % members_ != 0) merge(*job);  // another member does
      double norm = 0;
      Digest16 hash{};
      if (i % members_ != 0) {
        passes.time("entries of others: norm", [&] {
          norm = exact_->checked_norm(UpdateRole::kEntry, job->payload.span(), slices_[i].count).value_or(0);
        });
        passes.time("entries of others: hash", [&] { hash = xxh3_128(job->payload.span()); });
      } else {
        norm = job->norm;
        hash = job->payload_hash;
      }
      if (logs_[i].append(job->entry, job->payload, hash, norm) != LogStatus::kOk) std::abort();
    }
    for (size_t i = 0; i < slices_.size(); ++i) {
      passes.time("entries into R, payloads out of the accumulator", [&] { replicas_[i].apply(logs_[i].newest()); });
      const std::span<const float> params = replicas_[i].memory().params;
      passes.time("R into x", [&] { std::copy(params.begin(), params.end(), x_of(i).begin()); });
      passes.time("norm of what is held back",
                  [&] { held_back_ += squared_norm(replicas_[i].memory().accumulator.data(), params.size()); });
    }
  }

  // The same model in a round of params, with its own parts.
  void params_round(Passes& passes) {
    const std::unique_ptr<Codec> codec = make_codec(CodecKind::kFp32, MemorySpace::kHost);
    auto snapshot = std::make_shared<Snapshot>();
    snapshot->mass = 1;
    for (size_t i = 0; i < slices_.size(); ++i) {
      passes.time("x into payloads", [&] {
        const UnsetBytes bytes(codec->payload_bytes_max(slices_[i].count));
        const std::span<const float> x = x_of(i);
        (void)codec->encode({x.data(), x.size(), MemorySpace::kHost}, {}, bytes.span());
        snapshot->blocks.push_back(with_checksum(bytes.first(bytes.span().size())));
      });
    }
    for (size_t i = 0; i < slices_.size(); ++i) {
      AverageJob job{.own = snapshot};
      for (size_t rank = 1; rank < members_; ++rank) job.items.push_back({rank, 1, others_[rank - 1][i]});
      const auto average = [&] { run_average(*codec, static_cast<uint32_t>(i), slices_[i].count, job); };
      if (i % members_ == 0) passes.time("own blocks: average and checksum", average);
      if (i % members_ != 0) {
        average();  // another member does
        PairStats stats;
        passes.time("averages of others: distance", [&] {
          (void)codec->pair(snapshot->blocks[i].span(), job.average.span(), slices_[i].count, &stats);
        });
      }
      const std::span<float> x = x_of(i);
      passes.time("averages into x", [&] {
        codec->apply(1, snapshot->blocks[i].span(), job.average.span(), {x.data(), x.size(), MemorySpace::kHost});
      });
    }
  }

 private:
  std::span<float> x_of(size_t i) { return std::span(x_).subspan(slices_[i].offset, slices_[i].count); }
  void merge(MergeJob& job) {
    run_merge(codecs_, *exact_, job);
    if (!job.made) std::abort();
  }
  // The others hand in copies of the own payload, as the network would bring them.
  std::shared_ptr<MergeJob> merge_of(size_t i, const SharedBytes& own) {
    auto job = std::make_shared<MergeJob>();
    others_.resize(members_ - 1, std::vector<SharedBytes>(slices_.size()));
    for (size_t rank = 0; rank < members_; ++rank) {
      if (rank > 0) others_[rank - 1][i] = SharedBytes::copy_of(own.span());
      Contribution message;
      message.seq = round_;
      message.codec = static_cast<uint8_t>(exact_->kind());
      job->items.push_back({ids_[rank], 1, message, rank == 0 ? own : others_[rank - 1][i]});
      job->masses.push_back(1);
    }
    job->draft.group = 1;
    job->draft.round = round_;
    job->draft.slice = static_cast<uint32_t>(i);
    job->draft.divisor = static_cast<double>(members_);
    job->after = logs_[i].head();
    job->counted_min = members_ / 2 + 1;
    job->self = ids_[0];
    job->payload_norm_max = logs_[i].payload_norm_max();
    job->element_count = slices_[i].count;
    return job;
  }

  const size_t members_;
  const std::vector<PeerId> ids_;
  const std::unique_ptr<UpdateCodec> exact_ = make_update_codec({});
  const UpdateCodecs codecs_{exact_.get(), exact_.get()};
  std::vector<float> r_, accumulator_, x_;
  std::vector<SliceRange> slices_;
  std::vector<SliceReplica> replicas_;
  std::vector<UpdateLog> logs_;
  std::vector<std::vector<SharedBytes>> others_;  // by rank less 1 and slice
  uint64_t round_ = 0;
  double held_back_ = 0;
};

nlohmann::json measure_passes(size_t params, size_t members) {
  Member member(params, members);
  Passes updates, averages;
  for (int i = 0; i < kRounds; ++i) {
    member.round(updates);
    updates.round_ends();
    member.params_round(averages);
    averages.round_ends();
  }
  return {{"updates", updates.best()}, {"params", averages.best()}};
}

// ---- memory ----

struct Sent {
  PeerId from, to;
  Message message;
  SharedBytes payload;
};

// A member whose messages wait in a queue.
class Holder final : public Outbox, public PeerSampler {
 public:
  Holder(const PeerId& id, const std::vector<PeerId>& ids, size_t params, const UpdateCodecs& codecs,
         const OuterRule& outer, const Clock& clock, std::deque<Sent>& queue)
      : id_(id),
        ids_(ids),
        queue_(queue),
        r_(params),
        momentum_(outer.has_momentum() ? params : 0),
        accumulator_(params),
        x_(params),
        group_({.self = id,
                .generation = 1,
                .deadline_min = milliseconds(500),
                .deadline_max = milliseconds(1000),
                .outer = outer},
               cut_slices(std::vector<size_t>{params}), {r_, momentum_, accumulator_}, codecs, worker_, clock, *this,
               *this) {}

  void send(const PeerId& to, const Message& message, SharedBytes payload) override {
    queue_.push_back({id_, to, message, std::move(payload)});
  }
  void send(const PeerAddress&, const Message&, SharedBytes) override {}
  std::optional<PeerId> choose(const std::vector<PeerId>&) override { return std::nullopt; }
  void met(const PeerId&) override {}
  uint64_t last_met(const PeerId&) override { return 0; }
  std::vector<PeerId> candidates() override { return {}; }
  std::vector<Participant> neighbors(uint64_t) override { return {}; }
  std::vector<Participant> group() override {
    std::vector<Participant> all;
    for (const PeerId& id : ids_) all.push_back({id, 1});
    return all;
  }

  void boundary(uint64_t round) {
    std::vector<float> steps(x_.size());
    draw(steps, 100 * round + id_.bytes[0]);
    for (size_t i = 0; i < x_.size(); ++i) x_[i] = r_[i] + steps[i];
    if (!group_.begin(x_, 1, 1, [] {})) std::abort();
    complete();
  }
  void catch_up() {
    group_.catch_up(x_, [] {});
    complete();
  }
  void receive(const Sent& sent) {
    const SharedBytes own = sent.payload.empty() ? SharedBytes() : SharedBytes::copy_of(sent.payload.span());
    group_.handle(sent.from, 1, std::get<ExchangeMessage>(sent.message), own);
    look();  // before the worker is done with it
    complete();
  }
  void tick() {
    group_.tick();
    complete();
  }
  bool under_way() const { return group_.under_way(); }
  void look() {
    const UpdateMemory now = group_.memory();
    entries = std::max(entries, now.entries);
    own = std::max(own, now.sent);
    handed_in = std::max(handed_in, now.handed_in);
    arriving = std::max(arriving, now.arriving);
    states = std::max(states, now.states);
    total = std::max(total, now.total());
  }

  size_t entries = 0, own = 0, handed_in = 0, arriving = 0, states = 0, total = 0;  // at most, in bytes

 private:
  void complete() {
    while (worker_.has_completions()) worker_.run_completions();
  }

  const PeerId id_;
  const std::vector<PeerId>& ids_;
  std::deque<Sent>& queue_;
  InlineWorker worker_;
  std::vector<float> r_, momentum_, accumulator_, x_;
  UpdateGroup group_;
};

nlohmann::json measure_memory(size_t params, size_t members, const std::string& codec, float momentum) {
  const std::optional<UpdateKind> kind = parse_update(codec);
  if (!kind) throw std::runtime_error("no update codec is called '" + codec + "'");
  const std::unique_ptr<UpdateCodec> running = make_update_codec({.kind = *kind}), exact = make_update_codec({});
  const std::vector<PeerId> ids = members_of(members);
  VirtualClock clock;
  std::deque<Sent> queue;
  std::vector<std::unique_ptr<Holder>> holders;
  for (const PeerId& id : ids) {
    holders.push_back(std::make_unique<Holder>(id, ids, params, UpdateCodecs{running.get(), exact.get()},
                                               OuterRule{momentum, 1}, clock, queue));
  }
  for (uint64_t round = 1; round <= kRounds; ++round) {
    for (auto& holder : holders) holder->boundary(round);
    const auto waits = [&] {
      return std::any_of(holders.begin(), holders.end(), [](const auto& holder) { return holder->under_way(); });
    };
    while (waits()) {
      for (; !queue.empty(); queue.pop_front()) {
        Holder& to = *holders[static_cast<size_t>(queue.front().to.bytes[0]) - 1];
        to.receive(queue.front());
      }
      clock.advance(milliseconds(1));
      for (auto& holder : holders) holder->tick();
    }
    for (auto& holder : holders) holder->catch_up();
  }
  Holder& any = *holders.front();
  const auto per_param = [&](size_t bytes) { return static_cast<double>(bytes) / static_cast<double>(params); };
  return {{"entries", per_param(any.entries)},     {"sent", per_param(any.own)},
          {"handed_in", per_param(any.handed_in)}, {"arriving", per_param(any.arriving)},
          {"states", per_param(any.states)},       {"total", per_param(any.total)}};
}

}  // namespace
}  // namespace starling

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if ((what != "passes" || argc != 4) && (what != "memory" || argc != 6)) {
    std::fprintf(stderr, "bench_updates passes PARAMS MEMBERS | memory PARAMS MEMBERS CODEC MOMENTUM\n");
    return 2;
  }
  const size_t params = std::strtoull(argv[2], nullptr, 10), members = std::strtoull(argv[3], nullptr, 10);
  if (params == 0 || members < 2 || members > starling::kUpdateMembersMax) {
    std::fprintf(stderr, "bench_updates: PARAMS is 1 or more, MEMBERS 2 to %zu\n", starling::kUpdateMembersMax);
    return 2;
  }
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // as the agent: its heap keeps the memory of payloads
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
  const nlohmann::json found = what == "passes"
                                   ? starling::measure_passes(params, members)
                                   : starling::measure_memory(params, members, argv[4], std::strtof(argv[5], nullptr));
  std::printf("%s\n", found.dump().c_str());
  return 0;
}
