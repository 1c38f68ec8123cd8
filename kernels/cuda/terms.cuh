// Payloads that kernels add up: how many a launch takes, and launch after launch for any number of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

namespace starling::cuda {

inline constexpr size_t kTermsOfLaunch = 16;  // a launch's parameters hold them

template <class Term>
struct Terms {
  Term each[kTermsOfLaunch];
  unsigned count = 0;
};

// Calls launch_some(Terms, from_zero) for all terms in their order; the first sum begins at zero, the next ones with
// what the launch before left. REQUIRES: there are terms.
template <class Term, class LaunchSome>
void launch_terms(std::span<const Term> terms, const LaunchSome& launch_some) {
  for (size_t first = 0; first < terms.size(); first += kTermsOfLaunch) {
    const std::span<const Term> next = terms.subspan(first, std::min(kTermsOfLaunch, terms.size() - first));
    Terms<Term> some;
    std::copy(next.begin(), next.end(), some.each);
    some.count = static_cast<unsigned>(next.size());
    launch_some(some, first == 0);
  }
}

}  // namespace starling::cuda
