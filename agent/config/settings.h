// The text of settings that the members of a swarm agree on. Its hash is the swarm's id, so a text that was stored or
// adopted is kept byte for byte and never printed anew; another program reads it years later.
//
// The first agent of a swarm prints the text. For programs of different versions to print the same text for the same
// meaning, and to find the same meaning in it:
//  - A key of version 0.1.0 stands in every text. Its default may change: no text depends on it.
//  - A later key stands in a text only with another value than `unwritten` of its row, which is what Starling did
//    before it had the key. The default may change, `unwritten` may not.
//  - A text with later keys begins with the version that knows them all, such as "starling: 0.3.0", so that an older
//    program can say what it needs.
//  - A row never leaves the table or its place among the others, and never refuses a value that it once took: either
//    would end the swarms that have it in their settings. A retired row takes its neutral value only.
#pragma once

#include <string>

#include "agent/config/config.h"

namespace starling {

// `deadline_max: auto` of a config. A text of settings holds a time, so that all members, also older ones, agree on it.
inline constexpr Duration kDeadlineAuto = Duration::zero();
inline constexpr Duration kDeadlineLongest = std::chrono::hours(1);

// An upper bound on the bytes that a member sends in an exchange, or in each direction of a round of updates. Not for
// attached models that no loop has brought yet: their size is 0.
double exchange_bytes(const SwarmConfig& swarm);

// The time for it: four times what the bytes that a member sends in an exchange take at 10 Mb/s. It is at least
// 2 s, for links across the world, and deadline_min; at most kDeadlineLongest. Another value stays.
Duration longest_deadline(const SwarmConfig& swarm);

// The `swarm` half, without the hash of the genesis and with a time for `auto`.
std::string print_swarm_settings(const SwarmConfig& swarm);

// Reads it. The text is foreign, and `where` names its source in errors. Throws ConfigError: too large or deep, no
// UTF-8, a key twice, a key of version 0.1.0 missing, a value out of range, a combination that cannot work, any key
// that this program does not know.
SwarmConfig parse_swarm_settings(const std::string& text, const std::string& where = "the swarm's settings");

// Whether the two mean the same, however their texts were written. Two values of wait_for do: only the agent that
// begins a swarm needs one. So do trust: auto and any other, and two of trust: ticket where one has no key yet.
bool same_settings(const SwarmConfig& a, const SwarmConfig& b);

// For people, with the remedy: why an agent of this trust does not take a text with that one, and with this signature
// of the swarm's key. Empty: it does; `auto` takes all.
std::string problem_of_trust(const TrustConfig& own, const TrustConfig& theirs, const std::string& text,
                             const std::string& signature);

struct AgreedSettings {
  SwarmConfig swarm;
  std::string genesis_hash_hex;  // of the first params that these settings produce
};

// The whole text: the `swarm` half and, last, the hash.
std::string agreed_settings(const SwarmConfig& swarm, const std::string& genesis_hash_hex);

// As parse_swarm_settings.
AgreedSettings parse_agreed_settings(const std::string& text, const std::string& where = "the swarm's settings");

// Lines that differ between two whole texts, for a refusal: "exchange.codec: modulo8 here, fp32 there"; at most a
// dozen, whatever the texts are. Empty exactly when both mean the same, so that their holders belong to one swarm.
std::string describe_difference(const std::string& ours, const std::string& theirs);

}  // namespace starling
