// How an agent's process ends, beside 0 (finished, or stopped by a signal), 1 (an error), 2 (a usage error) and 130
// (ended at once by a second signal).
#pragma once

namespace starling {

inline constexpr int kNothingShared = 3;  // steps without one exchange, in a swarm that waits for others
inline constexpr int kNotSaved = 4;       // the last checkpoint could not be written
inline constexpr int kApart = 5;          // the run ended, and its members did not all tell that their models agree

}  // namespace starling
