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
            {"rings", counters.rings},
            {"over_share", counters.over_share}}},
          {"unanswered", counters.unanswered},
          {"undecided", counters.undecided},
          {"crossed", counters.crossed},
          {"taken_back", counters.taken_back}};
}

std::string print_pairs_table(const std::vector<PairReport>& agents) {
  if (std::none_of(agents.begin(), agents.end(), [](const PairReport& one) { return one.any(); })) return "";
  constexpr const char* kRow = "{:<8} {:>6} {:>5} {:>5} {:>10} {:>13} {:>12} {:>7} {:>6}\n";   // 80
  std::string text = fmt::format(kRow, "pairs", "a step", "gain", "drift", "ms a step", "waited here", "told busy",
                                 "in vain", "undone");
  for (const PairReport& one : agents) {
    if (!one.any()) continue;
    const PairwiseCounters& of = one.counters;
    const auto ms = [&](uint64_t us) { return print_number(one.ms_a_step(us), 0); };
    text += fmt::format(kRow, one.name, print_number(one.exchanges_a_step(), 2), print_number(one.gain(), 2),
                        print_number(one.drift, 2),
                        fmt::format("{}/{}/{}", ms(of.asking_us), ms(of.own_us), ms(of.serving_us)),
                        fmt::format("{}/{}/{}", queued_in_steps(of), of.queued_turn, of.queued_asking),
                        fmt::format("{}/{}/{}", of.busy_received, of.rings, of.over_share),
                        fmt::format("{}/{}", of.unanswered, of.undecided), of.taken_back);
  }
  return text + "(exchanges a step, whoever began them, those of settling included; gain: 1 moved\n"
                "both to the middle; drift: of agents whose gradients always differ alike, in own\n"
                "steps, for partners by chance; ms a step without training: own proposal not\n"
                "answered / own exchange / another's; proposals that waited here: for the end of\n"
                "a step / of an exchange / for the answer to the own one; told busy: there /\n"
                "here, as it might have closed a ring / here, as it had had its share; in vain:\n"
                "proposals not answered / turns that ran out; undone: what was taken back)\n";
}

std::string print_pairs_line(const PairReport& lately, const PairwiseCounters& all) {
  const PairwiseCounters& of = lately.counters;
  const auto ms = [&](uint64_t us) { return print_number(lately.ms_a_step(us), 0); };
  const bool waits = of.asking_us + of.own_us + of.serving_us > 0;
  const std::string drift = lately.drift ? fmt::format(", drift {:.2f}", *lately.drift) : "";
  return fmt::format("{} a step at gain {}{}{}; {} waited here, {} times others were busy, {} unanswered, {} taken "
                     "back", print_number(lately.exchanges_a_step(), 1), print_number(lately.gain(), 2), drift,
                     waits ? fmt::format(", ms a step {} asking {} own {} serving", ms(of.asking_us), ms(of.own_us),
                                         ms(of.serving_us))
                           : "",
                     all.queued, all.busy_received, all.unanswered, all.taken_back);
}

}  // namespace starling
