// Groups as round_harness.h drives them.
#pragma once

#include <memory>

#include "gossip/group/group.h"
#include "gossip/group/group_guard.h"
#include "tests/gossip/exchange/round_harness.h"

namespace starling::exchange_test {

template <>
inline std::unique_ptr<Group> make_test_exchange<Group>(const ExchangeParts& p) {
  const GroupOptions own{p.common(), p.options.inject_loss, 7};
  return std::make_unique<Group>(own, p.options.far, p.layout, p.codec, p.worker, p.clock, p.outbox, p.sampler);
}

template <>
struct RoundKind<Group> {
  static constexpr double kFar = GroupGuard::kFar;
  static constexpr bool kReplaces = true;
  static size_t far(const ExchangeReport& report) { return report.left_out.size(); }
};

using GroupAgent = RoundAgent<Group>;
using GroupSwarm = RoundSwarm<Group>;

}  // namespace starling::exchange_test
