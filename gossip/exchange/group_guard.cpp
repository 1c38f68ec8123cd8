#include "gossip/exchange/group_guard.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace starling {
namespace {

constexpr double kOutdated = 30;   // times what was usual
constexpr double kPaceMax = 8;

double square(double x) { return x * x; }

size_t most_left_out(size_t member_count) { return std::max<size_t>(1, member_count / 8); }

// The largest but for so many, of which one stays however few there are; 0: there are fewer than two.
double largest_but(size_t most, std::vector<double> values) {
  if (values.size() < 2) return 0;
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(std::min(most, values.size() - 1));
  std::nth_element(values.begin(), at, values.end(), std::greater<>());
  return *at;
}

double upper_median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// What was usual says nothing if it is not known, or most of these are far beyond it, as when a learning rate rises at
// once. Then one part of the model may differ from another as much as it will, and only what is grossly far is left
// out. Not where most are a few times as far as usual, as after the four rounds in which a liar owned a block.
double factor_beside(const std::vector<double>& values, double factor, double usual) {
  const bool outdated = usual == 0 || (values.size() >= 3 && lower_median(values) > square(kOutdated) * usual);
  return outdated ? GroupGuard::kFarAtFirst : factor;
}

}  // namespace

std::vector<double> paces_of(const std::vector<double>& masses) {
  std::vector<double> paces;
  const double usual = masses.empty() ? 0 : upper_median(masses);
  for (double mass : masses) paces.push_back(std::clamp(usual / mass, 1.0, kPaceMax));
  return paces;
}

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

FarRule GroupGuard::rule(uint32_t block, size_t member_count) const {
  const uint32_t section = layout_.blocks[block].section;
  const double factor = this->factor(section, member_count);
  const auto& usual = usual_[section];
  if (factor == 0) return {};
  // Two members lie apart by twice the squares that each lies from their average.
  return {factor, usual.size() == 0 ? 0 : 2 * usual.median(), most_left_out(member_count)};
}

double GroupGuard::squares_in_steps(uint32_t block, double squares) const {
  return squares / square(1.0 + past_[block].missed);
}

std::vector<uint32_t> GroupGuard::refused(const GroupMembers& members, uint64_t round,
                                          const std::vector<std::optional<double>>& squares) {
  std::vector<bool> refused(squares.size());
  for (uint32_t section = 0; section < usual_.size(); ++section) {
    for (size_t owner : far_owners(section, members, round, squares)) {
      for (uint32_t block : members.blocks_of(owner, squares.size(), round)) {
        const bool of_section = layout_.blocks[block].section == section && squares[block];
        if (of_section) refused[block] = may_refuse(block, members, owner);
      }
    }
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

std::vector<size_t> GroupGuard::far_owners(uint32_t section, const GroupMembers& members, uint64_t round,
                                           const std::vector<std::optional<double>>& squares) const {
  const double factor = this->factor(section, members.count());
  if (factor == 0) return {};
  std::vector<double> by_owner(members.count());
  std::vector<bool> owns(members.count());
  for (uint32_t block = 0; block < squares.size(); ++block) {
    if (layout_.blocks[block].section != section || !squares[block]) continue;
    const size_t owner = members.owner(block, round);
    by_owner[owner] += squares_in_steps(block, *squares[block]);
    owns[owner] = true;
  }
  std::vector<double> of_owners;
  for (size_t owner = 0; owner < members.count(); ++owner) {
    if (owns[owner]) of_owners.push_back(by_owner[owner]);
  }
  const double before = usual_[section].size() >= kSamplesMin ? usual_[section].median() : 0;
  const double usual = std::max(before, largest_but(most_left_out(members.count()), of_owners));
  if (usual == 0) return {};
  const double allowed = square(factor_beside(of_owners, factor, before)) * usual;
  std::vector<size_t> far;
  for (size_t owner = 0; owner < members.count(); ++owner) {
    if (owner != members.self && by_owner[owner] > allowed) far.push_back(owner);   // the own is judged already
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
