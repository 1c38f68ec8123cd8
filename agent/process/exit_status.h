// How an agent's process ends, beside 0 (finished, or stopped by a signal), 1 (an error), 2 (a usage error) and 130
// (ended at once by a second signal).
#pragma once

namespace starling {

inline constexpr int kNothingShared = 3;  // steps without one exchange, in a swarm that waits for others
inline constexpr int kNotSaved = 4;       // the last checkpoint could not be written

}  // namespace starling
