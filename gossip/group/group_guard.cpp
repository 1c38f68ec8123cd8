#include "gossip/group/group_guard.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace starling {
namespace {

constexpr double kOutdated = 30;  // times what was usual

double square(double x) { return x * x; }

size_t most_left_out(size_t member_count) { return std::max<size_t>(1, member_count / 8); }

// The largest but for so many, of which one stays however few there are; 0: there are fewer than two.
double largest_but(size_t most, std::vector<double> values) {
  if (values.size() < 2) return 0;
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(std::min(most, values.size() - 1));
  std::nth_element(values.begin(), at, values.end(), std::greater<>());
  return *at;
}

std::vector<double> known_of(const std::vector<std::optional<double>>& values) {
  std::vector<double> known;
  for (const std::optional<double>& one : values) {
    if (one) known.push_back(*one);
  }
  return known;
}

// What was usual says nothing if it is not known, or most of these are far beyond it, as when a learning rate rises at
// once. Then one part of the model may differ from another as much as it will, and only what is grossly far is left
// out. Not where most are a few times as far as usual, as after the four rounds in which a liar owned a block.
double factor_beside(const std::vector<double>& values, double factor, double usual) {
  const bool many = values.size() >= GroupGuard::kOwnersToCompare;
  const bool outdated = usual == 0 || (many && lower_median(values) > square(kOutdated) * usual);
  return outdated ? GroupGuard::kFarAtFirst : factor;
}

}  // namespace

std::vector<bool> far_ones(const FarRule& rule, const std::vector<Contributed>& contributions) {
  std::vector<bool> far(contributions.size());
  std::vector<double> values;
  for (const Contributed& one : contributions) values.push_back(one.squares / square(one.pace));
  const double usual = std::max(rule.usual_squares, largest_but(rule.most, values));
  if (rule.factor == 0 || usual == 0) return far;
  const double allowed = square(factor_beside(values, rule.factor, rule.usual_squares)) * usual;
  for (size_t i = 0; i < values.size(); ++i) far[i] = values[i] > allowed;
  return far;
}

GroupGuard::GroupGuard(const Layout& layout, double far)
    : layout_(layout), far_(far), usual_(layout.sections.size()), past_(layout.blocks.size()) {}

// Of three members, the smaller of two distances says little; of two members, there is but one.
double GroupGuard::factor(uint32_t section, size_t member_count) const {
  if (far_ == 0 || member_count < 3) return 0;
  return member_count == 3 || section > 0 ? std::max(far_, kFarOfFew) : far_;
}

FarRule GroupGuard::rule(uint32_t block, size_t member_count, double drift) const {
  const uint32_t section = layout_.blocks[block].section;
  const double factor = this->factor(section, member_count);
  const auto& usual = usual_[section];
  if (factor == 0) return {};
  // Two members lie apart by twice the squares that each lies from their average.
  return {factor, usual.size() == 0 ? 0 : 2 * growth(drift) * usual.median(), most_left_out(member_count)};
}

double GroupGuard::squares_in_steps(uint32_t block, double squares) const {
  return squares / square(1.0 + past_[block].missed);
}

std::vector<uint32_t> GroupGuard::refused(const GroupMembers& members, uint64_t round,
                                          const std::vector<std::optional<double>>& squares, double drift) {
  std::vector<bool> refused(squares.size());
  const double growth = this->growth(drift);
  if (drift > 0) steps_.add(square(drift));
  for (uint32_t section = 0; section < usual_.size(); ++section) {
    const std::vector<std::optional<double>> by_owner = squares_of_owners(section, members, round, squares);
    const bool few = known_of(by_owner).size() < kOwnersToCompare;
    bool outdated = false;
    for (size_t owner : far_owners(section, members, by_owner, growth)) {
      for (uint32_t block : members.blocks_of(owner, squares.size(), round)) {
        if (layout_.blocks[block].section != section || !squares[block]) continue;
        refused[block] = may_refuse(block, members, owner);
        outdated = outdated || (few && !refused[block]);
      }
    }
    if (outdated) usual_[section] = {};  // two owners say so, and the past alone would refuse the next ones too
    learn(section, squares, refused);
  }
  std::vector<uint32_t> indices;
  for (uint32_t block = 0; block < squares.size(); ++block) {
    PastBlock& past = past_[block];
    if (refused[block]) {
      indices.push_back(block);
      past.refused_of.insert(members.ids[members.owner(block, round)]);
    } else if (squares[block]) {
      past = {};
    } else {
      past.missed = std::min(past.missed + 1, kMissedMax);
    }
  }
  return indices;
}

bool GroupGuard::may_refuse(uint32_t block, const GroupMembers& members, size_t owner) const {
  const std::set<PeerId>& before = past_[block].refused_of;
  return before.size() < most_left_out(members.count()) || before.contains(members.ids[owner]);
}

// How many times the usual the squares of the own steps are. When a model leaves a plateau all take tens of times
// larger ones from one round to the next.
double GroupGuard::growth(double drift) const {
  if (steps_.size() < kSamplesMin || drift == 0) return 1;
  return std::max(1.0, square(drift) / steps_.median());
}

std::vector<std::optional<double>> GroupGuard::squares_of_owners(
    uint32_t section, const GroupMembers& members, uint64_t round,
    const std::vector<std::optional<double>>& squares) const {
  std::vector<std::optional<double>> by_owner(members.count());
  for (uint32_t block = 0; block < squares.size(); ++block) {
    if (layout_.blocks[block].section != section || !squares[block]) continue;
    std::optional<double>& of_owner = by_owner[members.owner(block, round)];
    of_owner = of_owner.value_or(0) + squares_in_steps(block, *squares[block]);
  }
  return by_owner;
}

std::vector<size_t> GroupGuard::far_owners(uint32_t section, const GroupMembers& members,
                                           const std::vector<std::optional<double>>& by_owner, double growth) const {
  const double factor = this->factor(section, members.count());
  if (factor == 0) return {};
  const std::vector<double> known = known_of(by_owner);
  const double before = usual_[section].size() >= kSamplesMin ? growth * usual_[section].median() : 0;
  const double usual = std::max(before, largest_but(most_left_out(members.count()), known));
  if (usual == 0) return {};
  const double allowed = square(factor_beside(known, factor, before)) * usual;
  std::vector<size_t> far;
  for (size_t owner = 0; owner < members.count(); ++owner) {
    if (owner != members.self && by_owner[owner].value_or(0) > allowed) far.push_back(owner);  // own: judged
  }
  return far;
}

// Rounds in which nothing moved say nothing of what is usual while members train.
void GroupGuard::learn(uint32_t section, const std::vector<std::optional<double>>& squares,
                       const std::vector<bool>& refused) {
  double sum = 0;
  size_t elements = 0;
  for (uint32_t block = 0; block < squares.size(); ++block) {
    if (layout_.blocks[block].section != section || !squares[block] || refused[block]) continue;
    sum += squares_in_steps(block, *squares[block]);
    elements += layout_.blocks[block].element_count;
  }
  if (sum == 0) return;
  usual_[section].add(sum * static_cast<double>(layout_.sections[section].element_count) /
                      static_cast<double>(elements));
}

}  // namespace starling
