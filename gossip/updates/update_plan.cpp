#include "gossip/updates/update_plan.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "gossip/net/hash.h"
#include "kernels/check.h"

namespace starling {
namespace {

constexpr uint8_t kVersion = 1;
constexpr size_t kFixedBytes = 1 + 1 + 8 + 8 + 4;
static_assert(kFixedBytes + kUpdateSlicesMax <= kUpdatePlanBytesMax);

template <typename T>
void put(std::vector<uint8_t>& bytes, T value) {  // little end first on every machine: wire.cpp refuses others
  const auto* begin = reinterpret_cast<const uint8_t*>(&value);
  bytes.insert(bytes.end(), begin, begin + sizeof value);
}

template <typename T>
T take_from(std::span<const uint8_t>& bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes = bytes.subspan(sizeof value);
  return value;
}

uint32_t seal_of(std::span<const uint8_t> bytes) { return static_cast<uint32_t>(xxh3_64(std::as_bytes(bytes))); }

bool are_ends(const std::vector<uint32_t>& ends, size_t slice_count) {
  uint32_t before = 0;
  for (const uint32_t end : ends) {
    if (end <= before) return false;
    before = end;
  }
  return before == slice_count;
}

}  // namespace

std::vector<uint8_t> encode_plan(const UpdatePlan& plan, uint64_t model) {
  STARLING_CHECK(plan.ends.size() <= kUpdateSlicesMax);
  std::vector<uint8_t> bytes = {kVersion, static_cast<uint8_t>(plan.ends.size())};
  put(bytes, model);
  put(bytes, plan.since);
  for (const uint32_t end : plan.ends) bytes.push_back(static_cast<uint8_t>(end));
  put(bytes, seal_of(bytes));
  return bytes;
}

std::string decode_plan(std::span<const uint8_t> bytes, uint64_t model, size_t slice_count, UpdatePlan* plan) {
  if (bytes.size() < kFixedBytes || bytes.size() != kFixedBytes + bytes[1]) return "of a wrong size";
  const size_t sealed = bytes.size() - sizeof(uint32_t);
  std::span<const uint8_t> seal = bytes.subspan(sealed);
  if (take_from<uint32_t>(seal) != seal_of(bytes.first(sealed))) return "damaged";
  std::span<const uint8_t> rest = bytes.first(sealed);
  if (take_from<uint8_t>(rest) != kVersion) return "of another version";
  rest = rest.subspan(1);
  if (take_from<uint64_t>(rest) != model) return "for another model";
  UpdatePlan decoded;
  decoded.since = take_from<uint64_t>(rest);
  decoded.ends.assign(rest.begin(), rest.end());
  if (!are_ends(decoded.ends, slice_count)) return "of buckets that overlap or leave slices out";
  *plan = std::move(decoded);
  return {};
}

UpdatePlans::UpdatePlans(bool on, std::span<const size_t> slice_sizes) : on_(on), slice_count_(slice_sizes.size()) {
  std::vector<uint8_t> sizes;
  for (const size_t size : slice_sizes) put(sizes, static_cast<uint64_t>(size));
  model_ = xxh3_64(std::as_bytes(std::span(sizes)));
  for (uint32_t end = 1; end <= slice_count_; ++end) alone_.push_back(end);
}

void UpdatePlans::take(std::span<const uint8_t> bytes, uint64_t round) {
  if (bytes.empty() || std::ranges::equal(bytes, bytes_)) return;
  UpdatePlan plan;
  std::string fault = judge(bytes, round, &plan);
  if (!fault.empty()) {
    ++refused_;
    fault_ = std::move(fault);
    return;
  }
  if (may_follow(plan.since)) {
    before_ = std::move(newest_);
  } else {
    gave_way_ = round;
  }
  newest_ = std::move(plan);
  bytes_.assign(bytes.begin(), bytes.end());
  if (newest_.ends == proposed_) proposed_.clear();
}

// An owner that changes the plan in each of its rounds would keep all members from ever sending by one plan. One that
// dates it back would, too.
std::string UpdatePlans::judge(std::span<const uint8_t> bytes, uint64_t round, UpdatePlan* plan) const {
  if (!on_) return "in a swarm that merges nothing (update.merge: off)";
  std::string fault = decode_plan(bytes, model_, slice_count_, plan);
  if (!fault.empty()) return fault;
  if (plan->since > round + kAhead) return "for rounds that are too far ahead";
  if (may_follow(plan->since) || gives_way_to(*plan, bytes, round)) return {};
  return "less than " + std::to_string(kBetween) + " rounds after the one before";
}

bool UpdatePlans::gives_way_to(const UpdatePlan& plan, std::span<const uint8_t> bytes, uint64_t round) const {
  if (plan.since + kBetween <= newest_.since || (gave_way_ && round < *gave_way_ + kBetween)) return false;
  if (plan.since != newest_.since) return plan.since < newest_.since;
  return std::ranges::lexicographical_compare(bytes, bytes_);
}

const std::vector<uint32_t>& UpdatePlans::ends(uint64_t round) const {
  if (!tried_.empty()) return tried_;
  const UpdatePlan& plan = round >= newest_.since ? newest_ : before_;
  return plan.ends.empty() ? alone_ : plan.ends;
}

std::vector<uint32_t> UpdatePlans::bucket_of_slices(uint64_t round) const {
  std::vector<uint32_t> buckets;
  uint32_t bucket = 0;
  for (const uint32_t end : ends(round)) {
    buckets.resize(end, bucket);
    ++bucket;
  }
  return buckets;
}

std::vector<uint8_t> UpdatePlans::say(uint64_t round) {
  if (!on_ || proposed_.empty() || !may_change(round)) return bytes_;
  STARLING_CHECK(are_ends(proposed_, slice_count_));
  return encode_plan({proposed_, round + kAhead}, model_);
}

}  // namespace starling
