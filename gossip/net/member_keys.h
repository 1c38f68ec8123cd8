// How a member of a swarm with tickets proves that it is one, and what it needs to open links.
//
// A port's CURVE key is its owner's id in another form (identity.h): to know the id is to know that key. A peer that
// opens a link shows the door key in the handshake, the only thing that ZeroMQ asks about there; it follows from the
// swarm's key, which does not follow from it. Then the link's routing id says which member it is: the *proof*, of
// kProofOfLinkBytes.
//
//   membership   version 1 (1 byte), id (32), not after (8, seconds since 1970; 0: for ever), serial (8), and the
//                signature of the swarm's key (64) over "starling membership 1", the swarm's key and all before
//   nonce        16 random bytes, so that nobody else can name this link
//   signature    the member's (64), over "starling link 1", the reader's id and all before
//
// Numbers are little-endian. The reader's id keeps a reader from showing the proof to others.
//
// In a shared swarm each member holds the swarm's key and signs its own membership. In a certified one the key stays
// with its holder, and a member has an *admission*. Its holder ends one by a revocation (revocations.h):
//
//   revocation   version 1 (1), id (32), serial (8), and the signature of the swarm's key (64) over "starling
//                revocation 1", the swarm's key and all before
//
// Members pass on what others say of themselves, so each signs its record and its farewell; wire.capnp has the form. A
// holder of the swarm's key signs the settings: 64 bytes over "starling settings 1", the swarm's key and the text.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gossip/net/identity.h"
#include "gossip/peer.h"

namespace starling {

inline constexpr size_t kMembershipBytes = 1 + 32 + 8 + 8 + 64;
inline constexpr size_t kProofOfLinkBytes = kMembershipBytes + 16 + 64;
inline constexpr size_t kRevocationBytes = 1 + 32 + 8 + 64;

struct SignedMembership {
  PeerId id;
  uint64_t not_after = 0;  // seconds since 1970; 0: for ever
  uint64_t serial = 0;     // of what the holder of the key has signed; 0 where each member signs its own
};

std::string sign_membership(const Identity& swarm, const SignedMembership& membership);
// nullopt: nothing that the swarm's key has signed. Foreign bytes.
std::optional<SignedMembership> read_membership(const PeerId& swarm, std::string_view bytes);

inline bool has_expired(uint64_t not_after, uint64_t now_unix_s) { return not_after != 0 && now_unix_s > not_after; }

// What one member needs to join. Secret: the door opens the ports of all members, though not to speak.
struct Admission {
  PeerId swarm;                       // the public half of the swarm's key
  KeySeed door{};                     // seed of the door key
  std::string membership;             // kMembershipBytes
  std::optional<KeySeed> identity{};  // the member's own, where the holder of the swarm's key made it
  bool operator==(const Admission&) const = default;
};

Admission admit(const Identity& swarm, const SignedMembership& membership);

// `serial`: of what the holder of the key has signed.
std::string sign_revocation(const Identity& swarm, const PeerId& id, uint64_t serial);
// The id. nullopt: nothing that the swarm's key has signed. Foreign bytes.
std::optional<PeerId> read_revocation(const PeerId& swarm, std::string_view bytes);

// kProofBytes, of the text of an agreed swarm.
std::string sign_settings(const Identity& swarm, std::string_view settings);
[[nodiscard]] bool is_signed_settings(const PeerId& swarm, std::string_view settings, std::string_view signature);

// What a process of a swarm with tickets holds. Constant, so any thread may read it.
class MemberKeys {
 public:
  MemberKeys(const Identity& self, const Identity& swarm);  // signs the own membership
  // Throws std::invalid_argument, with the remedy: the admission is of another id, or not signed by its swarm.
  MemberKeys(const Identity& self, const Admission& admission);
  ~MemberKeys();
  MemberKeys(const MemberKeys&) = delete;
  MemberKeys& operator=(const MemberKeys&) = delete;

  const PeerId& self() const { return self_.id(); }
  const PeerId& swarm() const { return swarm_; }                // the public half of the swarm's key
  const CurveKey& port_secret() const { return port_secret_; }  // of the own ports
  const CurvePair& door() const { return door_; }

  // For a new link to `reader`.
  std::string proof_for(const PeerId& reader) const;

  // Signs this process's own record as it is now: sets `sealed`.
  void seal(PeerRecord& record) const;
  // Whether its owner signed it, for this swarm. REQUIRES: it was decoded, so its fields are those that were signed.
  [[nodiscard]] bool is_genuine(const PeerRecord& record) const;

  const SignedMembership& membership() const { return membership_; }

  // The member that opened a link to this process with this routing id; its time may be over. Foreign bytes. nullopt:
  // none; `why` says it.
  std::optional<SignedMembership> judge(std::string_view proof, const char** why) const;

 private:
  const Identity self_;
  const PeerId swarm_;
  CurveKey port_secret_;
  CurvePair door_;
  const std::string signed_;
  SignedMembership membership_;
};

}  // namespace starling
