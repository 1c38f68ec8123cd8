// How good the model is at each site, from members' records: the mean, the worst and one of them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "gossip/peer.h"

namespace starling {

struct SiteScores {
  bool held_out = false;  // each on samples that it holds out of its own data; else on the test data that it names
  bool by_loss = false;   // of text; else by accuracy, of 1
  size_t sites = 0;
  double mean = 0, worst = 0;
  std::string worst_at;
  std::optional<double> own;  // of the member asked for; nullopt: it has none of this kind
};

// Of the agents that have judged their model. What sites hold out and test data are not compared with each other: at
// most one of each, that of `self` first.
std::vector<SiteScores> score_sites(const std::vector<PeerRecord>& records, const PeerId& self, bool by_loss);

// "accuracy by site, each on its own held-out data: this one 91.2 %, mean of 3 90.1 %, worst 84.0 % (carol)". `own`:
// what that member is called.
std::string print_scores(const SiteScores& scores, const std::string& own);

}  // namespace starling
