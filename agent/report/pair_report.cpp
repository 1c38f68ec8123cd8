#include "agent/report/pair_report.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace starling {
namespace {

using Json = nlohmann::ordered_json;

uint64_t decided(const PairwiseCounters& counters) { return counters.done + counters.late; }
uint64_t queued_in_steps(const PairwiseCounters& counters) {
  return counters.queued - counters.queued_turn - counters.queued_asking;
}
Json number(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }
std::string print_number(const std::optional<double>& value, int digits) {
  return value ? fmt::format("{:.{}f}", *value, digits) : "-";
}

std::optional<double> ratio(uint64_t part, uint64_t whole) {
  return whole == 0 ? std::nullopt : std::optional(static_cast<double>(part) / static_cast<double>(whole));
}

}  // namespace

std::optional<double> PairReport::exchanges_a_step() const { return ratio(decided(counters), steps); }
std::optional<double> PairReport::gain() const { return ratio(counters.gain_permille, 1000 * decided(counters)); }
std::optional<double> PairReport::ms_a_step(uint64_t us) const { return ratio(us, 1000 * steps); }

Json print_pairs(const PairReport& pairs) {
  const PairwiseCounters& counters = pairs.counters;
  return {{"a_step", number(pairs.exchanges_a_step())},
          {"gain", number(pairs.gain())},
          {"drift", number(pairs.drift)},
          {"ms_a_step",
           {{"asking", number(pairs.ms_a_step(counters.asking_us))},
            {"own", number(pairs.ms_a_step(counters.own_us))},
            {"serving", number(pairs.ms_a_step(counters.serving_us))}}},
          {"waited_here",
           {{"steps", queued_in_steps(counters)},
            {"turn", counters.queued_turn},
            {"asking", counters.queued_asking},
            {"in_vain", counters.expired}}},
          {"refused",
           {{"there", counters.busy_received},
            {"here", counters.busy_sent},
            {"deadlocks_avoided", counters.rings},
            {"over_share", counters.over_share}}},
          {"unanswered", counters.unanswered},
          {"undecided", counters.undecided},
          {"crossed", counters.crossed},
          {"rollbacks", counters.taken_back}};
}

FactTable pair_facts(const std::vector<PairReport>& agents) {
  std::vector<const PairReport*> took_part;
  FactTable table;
  for (const PairReport& one : agents) {
    if (!one.any()) continue;
    took_part.push_back(&one);
    table.agents.push_back(one.name);
  }
  const auto add = [&](const char* name, const auto& value) {
    std::vector<std::string> values;
    for (const PairReport* one : took_part) values.push_back(value(*one));
    table.add(name, std::move(values));
  };
  const auto count = [&](const char* name, const auto& value) {
    add(name, [&](const PairReport& one) { return std::to_string(value(one.counters)); });
  };
  const auto time = [&](const char* name, uint64_t PairwiseCounters::* us) {
    add(name, [&](const PairReport& one) { return print_number(one.ms_a_step(one.counters.*us), 0); });
  };
  using Of = PairwiseCounters;
  add("exchanges per local step", [](const PairReport& one) { return print_number(one.exchanges_a_step(), 2); });
  add("mean mixing weight, at most 1", [](const PairReport& one) { return print_number(one.gain(), 2); });
  add("expected drift, in local steps", [](const PairReport& one) { return print_number(one.drift, 2); });
  time("ms per step waiting for an answer", &Of::asking_us);
  time("ms per step in own exchanges", &Of::own_us);
  time("ms per step in exchanges of peers", &Of::serving_us);
  count("proposals waiting for a step", queued_in_steps);
  count("proposals waiting for an exchange", [](const Of& of) { return of.queued_turn; });
  count("proposals waiting for an answer", [](const Of& of) { return of.queued_asking; });
  count("proposals expired while waiting", [](const Of& of) { return of.expired; });
  count("own proposals refused: peer busy", [](const Of& of) { return of.busy_received; });
  count("proposals refused", [](const Of& of) { return of.busy_sent; });
  count("proposals refused: deadlock risk", [](const Of& of) { return of.rings; });
  count("proposals refused: above fair share", [](const Of& of) { return of.over_share; });
  count("proposals without an answer", [](const Of& of) { return of.unanswered; });
  count("exchanges timed out undecided", [](const Of& of) { return of.undecided; });
  count("proposals merged with a peer's", [](const Of& of) { return of.crossed; });
  count("exchanges rolled back", [](const Of& of) { return of.taken_back; });
  return table;
}

std::string print_pairs_line(const PairReport& lately, const PairwiseCounters& all) {
  const PairwiseCounters& of = lately.counters;
  const auto ms = [&](uint64_t us) { return print_number(lately.ms_a_step(us), 0); };
  const bool waits = of.asking_us + of.own_us + of.serving_us > 0;
  const std::string drift = lately.drift ? fmt::format(", drift {:.2f}", *lately.drift) : "";
  const std::string waited =
      waits ? fmt::format(", ms per step {} waiting for an answer, {} in own exchanges, {} in those of peers",
                          ms(of.asking_us), ms(of.own_us), ms(of.serving_us))
            : "";
  return fmt::format(
      "{} per step, mixing weight {}{}{}; {} proposals waited here, {} found a peer busy, {} unanswered, {} rolled "
      "back",
      print_number(lately.exchanges_a_step(), 1), print_number(lately.gain(), 2), drift, waited, all.queued,
      all.busy_received, all.unanswered, all.taken_back);
}

}  // namespace starling
