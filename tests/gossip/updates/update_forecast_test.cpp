// The time of a round whose slices are sent while backward goes on, against the forecast of a plan that is played: real
// groups of updates, their frames on links with a rate and a delay, on virtual time.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "compression/plan/plan_judge.h"
#include "gossip/updates/update_bundles.h"
#include "tests/gossip/updates/update_harness.h"

namespace starling::exchange_test {
namespace {

constexpr size_t kMembers = 4, kElements = 20'000;
constexpr Duration kForward = milliseconds(20);

struct Setting {
  double bytes_per_s = 1e7;
  Duration latency = milliseconds(2);
  std::vector<Duration> backward = std::vector<Duration>(8, milliseconds(10));  // of each slice, the last one first

  size_t slices() const { return backward.size(); }
};

const UpdateCodec& exact() {
  static const std::unique_ptr<UpdateCodec> codec = make_update_codec({});
  return *codec;
}

UpdateAgentOptions agent_options(const Setting& setting) {
  return {.slices = setting.slices(),
          .elements = kElements,
          .deadline_min = std::chrono::seconds(10),
          .deadline_max = std::chrono::seconds(20),
          .codec = &exact(),
          .last_first = true,
          .merge = true};
}

// All members begin their steps together, and each round ends before the next begins.
class Rounds {
 public:
  explicit Rounds(const Setting& setting) : setting_(setting), swarm_(kMembers, agent_options(setting)) {
    NetworkOptions& links = swarm_.network.options;
    links.control_min = links.control_max = links.bulk_min = links.bulk_max = setting.latency;
    swarm_.network.set_node_rate(setting.bytes_per_s);
    swarm_.network.watch = [this](const Flight& flight) {
      const Frame frame = TestNetwork::encode(flight);
      frames_ += message_is<Contribution, LogEntry, UpdateBundle>(flight.message);
      if (message_is<Contribution>(flight.message)) headers_.contribution = static_cast<double>(frame.header.size());
      if (message_is<LogEntry>(flight.message)) headers_.entry = static_cast<double>(frame.header.size());
    };
  }

  // Seconds from the begin of backward until every member has all entries. `ends`: of slices, as UpdatePlan.
  double round_s(const std::vector<uint32_t>& ends) {
    for (auto& [id, agent] : swarm_.agents) {
      agent->exchange().plans().try_out(ends);
      agent->x = agent->params;
      for (float& value : agent->x) value += 1;
    }
    const TimePoint began = swarm_.clock.now() + kForward;
    TimePoint at = began;
    for (auto slice = static_cast<uint32_t>(setting_.slices()); slice-- > 0;) {
      at += setting_.backward[setting_.slices() - 1 - slice];
      run_until(at);
      for (auto& [id, agent] : swarm_.agents) submit(*agent, slice);
    }
    for (auto& [id, agent] : swarm_.agents) {
      EXPECT_TRUE(agent->exchange().begin(agent->x, 1, 1, [] {}, false));
      agent->complete();
    }
    while (under_way()) run_until(std::min(swarm_.network.next_at(), next_deadline()));
    const TimePoint ended = swarm_.clock.now();
    for (auto& [id, agent] : swarm_.agents) {
      for (const UpdateReport& report : agent->exchange().take_reports()) EXPECT_EQ(report.entries, setting_.slices());
      agent->exchange().catch_up(agent->x, [] {});
      agent->complete();
    }
    run_until(ended + std::chrono::seconds(1));
    return seconds(ended - began);
  }

  const HeaderBytes& headers() const { return headers_; }  // of the frames that held one slice
  size_t take_frames() { return std::exchange(frames_, 0); }

 private:
  void submit(UpdateAgent& agent, uint32_t slice) {
    const std::vector<uint32_t> buckets = agent.exchange().buckets();
    if (slice > 0 && buckets[slice - 1] == buckets[slice]) return;
    std::vector<uint32_t> slices;
    for (auto i = static_cast<uint32_t>(setting_.slices()); i-- > 0;) {
      if (buckets[i] == buckets[slice]) slices.push_back(i);
    }
    EXPECT_TRUE(agent.exchange().submit(slices, agent.x, 1, 1, [] {}));
    agent.complete();
  }
  bool under_way() const {
    return std::any_of(swarm_.agents.begin(), swarm_.agents.end(),
                       [](const auto& entry) { return entry.second->exchange().under_way(); });
  }
  TimePoint next_deadline() {
    TimePoint next = TimePoint::max();
    for (auto& [id, agent] : swarm_.agents) next = std::min(next, agent->exchange().next_deadline());
    return std::max(next, swarm_.clock.now() + Duration(1));
  }
  void run_until(TimePoint until) {
    while (true) {
      const TimePoint next = std::min(swarm_.network.next_at(), until);
      swarm_.clock.advance_to(std::max(next, swarm_.clock.now()));
      while (swarm_.network.next_at() <= swarm_.clock.now()) swarm_.network.deliver_due();
      for (auto& [id, agent] : swarm_.agents) {
        agent->receive();
        agent->tick();
      }
      if (next >= until && swarm_.network.next_at() > until) return;
    }
  }

  const Setting setting_;
  UpdateSwarm swarm_;
  HeaderBytes headers_;
  size_t frames_ = 0;  // of contributions and entries
};

// Ends of slices, which are numbered against the order of backward.
std::vector<uint32_t> slice_ends(const MergePlan& plan) {
  std::vector<uint32_t> ends;
  for (size_t i = plan.ends.size() - 1; i-- > 0;) ends.push_back(plan.ends.back() - plan.ends[i]);
  ends.push_back(plan.ends.back());
  return ends;
}

Setting draw_setting(Rng& rng) {
  Setting setting{.bytes_per_s = 1e6 * std::pow(10, 3 * rng.uniform()),
                  .latency = Duration(static_cast<int64_t>(rng.below(10'000'000))),
                  .backward = std::vector<Duration>(2 + rng.below(11))};
  for (Duration& one : setting.backward) one = Duration(static_cast<int64_t>(rng.below(20'000'000)));
  return setting;
}

MergePlan draw_plan(Rng& rng, size_t slices) {
  MergePlan plan;
  for (uint32_t end = 1; end < slices; ++end) {
    if (rng.chance(0.5)) plan.ends.push_back(end);
  }
  plan.ends.push_back(static_cast<uint32_t>(slices));
  return plan;
}

// Rounds of a setting, and the plans for it. Headers are measured in a first round.
struct Forecast {
  explicit Forecast(const Setting& setting)
      : count(setting.slices()),
        rounds(setting),
        measured_s(rounds.round_s(slice_ends(plan_per_section(count)))),
        judge(sections_of(setting), options_of(setting, rounds.headers())) {}

  static std::vector<PlanSection> sections_of(const Setting& setting) {
    std::vector<PlanSection> sections;
    for (const Duration one : setting.backward) sections.push_back({"s", kElements, seconds(one)});
    return sections;
  }
  static StepOptions options_of(const Setting& setting, const HeaderBytes& headers) {
    StepOptions options{.members = kMembers, .codec = {.kind = UpdateKind::kFp32}};
    options.link = {.latency_s = seconds(setting.latency), .s_per_byte = 1 / setting.bytes_per_s};
    options.headers = headers;
    return options;
  }

  // The plan is played in doubles and rounds are made in nanoseconds. Where slices of a bucket share an owner their
  // frame has one header, which the forecast does not leave out: such rounds are earlier by what the others would take.
  void expect_as_played(const MergePlan& plan) {
    constexpr double kTick = 1e-6;
    SCOPED_TRACE(std::to_string(plan.ends.size()) + " buckets");
    (void)rounds.take_frames();
    const double took_s = rounds.round_s(slice_ends(plan)), forecast_s = judge.played_end_s(plan);
    const bool shared = rounds.take_frames() < count * 2 * (kMembers - 1);
    EXPECT_LT(took_s, forecast_s + kTick);
    EXPECT_GT(took_s, shared ? 0.998 * forecast_s : forecast_s - kTick);
  }

  size_t count;
  Rounds rounds;
  double measured_s;
  PlanJudge judge;
};

TEST(UpdateForecast, ARoundTakesAsLongAsItsPlanWhenPlayed) {
  Rng rng(5);
  for (int i = 0; i < 40; ++i) {
    SCOPED_TRACE(i);
    Forecast forecast(draw_setting(rng));
    for (const MergePlan& plan : {plan_per_section(forecast.count), forecast.judge.choose(),
                                  plan_one_bucket(forecast.count), draw_plan(rng, forecast.count)}) {
      forecast.expect_as_played(plan);
    }
  }
}

// Eleven of twelve slices are parts of one embedding, so they are complete together: last, or first where it is also
// the output layer. Every slice has its entry in the round.
TEST(UpdateForecast, ALayerLargerThanAllElseTakesAsLongAsItsPlan) {
  for (const bool first : {false, true}) {
    for (const double bytes_per_s : {1e6, 1e7, 1e8}) {
      SCOPED_TRACE(bytes_per_s);
      std::vector<Duration> backward(12);
      backward[0] = milliseconds(first ? 2 : 30);
      backward[first ? 11 : 1] = milliseconds(first ? 30 : 2);
      Forecast forecast({.bytes_per_s = bytes_per_s, .latency = milliseconds(1), .backward = backward});
      const MergePlan plan = forecast.judge.choose();
      forecast.expect_as_played(plan);
      for (const MergePlan& naive : {plan_per_section(12), plan_one_bucket(12)}) {
        EXPECT_LE(forecast.judge.played_end_s(plan), forecast.judge.played_end_s(naive));
      }
      EXPECT_TRUE(!first || plan.ends.size() > 1) << "it travels while the rest of backward is computed";
    }
  }
}

}  // namespace
}  // namespace starling::exchange_test
