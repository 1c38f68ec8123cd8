#include "agent/observe/site_scores.h"

#include <algorithm>

#include <fmt/format.h>

#include "agent/report/format.h"

namespace starling {
namespace {

std::string print_value(const SiteScores& scores, double value) {
  return scores.by_loss ? fmt::format("{:.3g}", value) : print_percent(value);
}

void add(SiteScores& scores, const PeerRecord& record, double value, bool own) {
  const double sum = scores.mean * static_cast<double>(scores.sites) + value;
  scores.mean = sum / static_cast<double>(++scores.sites);
  if (scores.sites == 1 || (scores.by_loss ? value > scores.worst : value < scores.worst)) {
    scores.worst = value;
    scores.worst_at = record.meta.name.empty() ? record.id.short_name() : record.meta.name;
  }
  if (own) scores.own = value;
}

}  // namespace

std::vector<SiteScores> score_sites(const std::vector<PeerRecord>& records, const PeerId& self, bool by_loss) {
  std::vector<SiteScores> kinds = {{.held_out = true, .by_loss = by_loss}, {.by_loss = by_loss}};
  for (const PeerRecord& record : records) {
    const float value = by_loss ? record.meta.test_loss : record.meta.accuracy;
    if (record.meta.role != Role::kAgent || value < 0) continue;
    add(kinds[record.meta.held_out ? 0 : 1], record, value, record.id == self);
  }
  std::erase_if(kinds, [](const SiteScores& scores) { return scores.sites == 0; });
  std::stable_sort(kinds.begin(), kinds.end(),
                   [](const SiteScores& a, const SiteScores& b) { return a.own.has_value() > b.own.has_value(); });
  return kinds;
}

std::string print_scores(const SiteScores& scores, const std::string& own) {
  std::string text = fmt::format("{} by site, {}: ", scores.by_loss ? "loss" : "accuracy",
                                 scores.held_out ? "each on its own held-out data" : "each on its own test data");
  if (scores.own) text += fmt::format("{} {}, ", own, print_value(scores, *scores.own));
  return text + fmt::format("mean of {} {}, worst {} ({})", scores.sites, print_value(scores, scores.mean),
                            print_value(scores, scores.worst), scores.worst_at);
}

}  // namespace starling
