// Lets newcomers in without remembering those that only ask. The answer to a Join is a cookie, sent where the record
// says; the newcomer joins again with it. So a Join with forged addresses costs a hash, and nothing is kept. Joins are
// limited for each source address: one host that floods costs the others nothing. A request for the model is answered
// with a cookie too, where its frame says: nothing large goes to an address that somebody else named.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "gossip/clock.h"
#include "gossip/net/hash.h"
#include "gossip/net/message.h"

namespace starling {

// Holds up to `most` tokens, and gains `per_second`.
class TokenBucket {
 public:
  bool take(TimePoint now, double per_second, double most);

 private:
  double spent_ = 0;  // of `most`
  TimePoint at_{};
};

// The secret of a process, which all its numbers that nobody else may foretell follow from: `given`, or where that is 0
// one from its rng seed, so that simulations replay.
inline uint64_t process_secret(uint64_t given, uint64_t rng_seed) { return given ? given : secret_number(rng_seed, 0); }

class JoinGate {
 public:
  // `secret`: nobody else may guess it. `sealed`: records are signed here.
  JoinGate(uint64_t secret, const Clock& clock, bool sealed = false)
      : secret_(secret), clock_(clock), sealed_(sealed) {}

  // kOlder: a newcomer with a program that is too old to get the model here; or, where records are signed, too old to
  // sign its own or, as a reader, to read them.
  enum class Verdict { kOpen, kShowCookie, kTooMany, kOlder };
  Verdict judge(const std::string& source, const Join& join);  // `source`: the host that sent the Join
  // A newcomer that has asked several times for seconds and shows no cookie, nor some seconds later: the answers do not
  // reach it. Each once a minute at most; nullopt: none since the last call.
  struct Unreached {
    PeerRecord record;
    std::string source;  // as of judge()
    uint64_t nonce = 0;  // of its Join
  };
  std::optional<Unreached> take_unreached();
  // Whether to answer a sender that has shown nothing: a proposal of one that is no member, a request for the model
  // without the cookie, a newcomer of another version. At most as often as Joins, all together.
  bool may_answer(const std::string& source);
  // No cookie is ever 0.
  uint64_t cookie(const PeerRecord& record) const { return cookie(record, minute()); }
  // For requests of the model to be answered at this address, by any sender: what a stranger has sent to another's
  // address is that one's own cookie. Minute 0 is no Join's, so neither cookie serves for the other. It lasts as
  // long as this gate, since a transfer may take hours.
  uint64_t model_cookie(const FrameHeader& asks) const { return cookie(PeerId{}, 0, asks.reply_to, 0); }

 private:
  struct Source {
    TokenBucket joins, answers;
    TimePoint last{};
  };
  uint64_t minute() const;  // never 0
  uint64_t cookie(const PeerRecord& record, uint64_t minute) const {
    return cookie(record.id, record.version.generation, record.endpoint, minute);
  }
  uint64_t cookie(const PeerId& id, uint64_t generation, const Endpoint& address, uint64_t minute) const;
  Source& source(const std::string& host);
  void note_unshown(const std::string& host, const Join& join);

  const uint64_t secret_;
  const Clock& clock_;
  const bool sealed_;
  std::map<std::string, Source> sources_;
  struct Unshown {
    TimePoint first;
    uint32_t count = 0;
    bool doubted = false;
    std::optional<Unreached> due;  // once `at` has passed
    TimePoint at{};
  };
  std::map<Endpoint, Unshown> unshown_;  // by where the answers go
};

// For people, with the remedy. `own`: where this agent listens.
std::string describe_unreached(const JoinGate::Unreached& newcomer, const Endpoint& own);

// Whether an agent that sends from the host `source` names itself by an address that only its own machine reaches.
bool claims_loopback(const Endpoint& claimed, const std::string& source, const Endpoint& own);

}  // namespace starling
