#include "gossip/net/member_keys.h"

#include <cstring>
#include <span>
#include <stdexcept>

#include "gossip/limits.h"
#include "gossip/net/hash.h"
#include "gossip/net/wire.h"
#include "kernels/check.h"

namespace starling {
namespace {

constexpr std::string_view kMembership = "starling membership 1", kLink = "starling link 1", kDoor = "starling door 1",
                           kRevocation = "starling revocation 1", kRecord = "starling record 1",
                           kSettings = "starling settings 1";
constexpr char kMembershipVersion = 1, kRevocationVersion = 1;
constexpr size_t kNonceBytes = 16, kSignatureBytes = sizeof(Signature);
static_assert(kSignatureBytes == kProofBytes);

std::string_view raw_bytes(const auto& array) { return {reinterpret_cast<const char*>(array.data()), array.size()}; }
std::span<const std::byte> signed_bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string little_endian_of(uint64_t value) {
  std::string bytes;
  for (int shift = 0; shift < 64; shift += 8) bytes += static_cast<char>(value >> shift);
  return bytes;
}

uint64_t little_endian_at(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = 8; i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[i]);
  return value;
}

// What is signed of a kind. `about`: the swarm, or the reader of a link.
std::string text_of(std::string_view kind, const PeerId& about, std::string_view unsigned_part) {
  return std::string(kind) + std::string(raw_bytes(about.bytes)) + std::string(unsigned_part);
}

// REQUIRES: kSignatureBytes.
bool is_signature(std::string_view bytes, const PeerId& signer, const std::string& text) {
  Signature signature;
  std::memcpy(signature.data(), bytes.data(), kSignatureBytes);
  return verify(signer, signed_bytes(text), signature);
}

// Whether the last bytes are the signer's signature over `text`.
bool is_signed(std::string_view bytes, const PeerId& signer, const std::string& text) {
  return is_signature(bytes.substr(bytes.size() - kSignatureBytes), signer, text);
}

// From the swarm's seed, and of no use to find it.
KeySeed door_seed(const Identity& swarm) {
  KeySeed seed = swarm.seed();
  std::string text = std::string(kDoor) + std::string(raw_bytes(seed));
  const KeySeed door = blake2b_256(signed_bytes(text));
  wipe(seed);
  wipe({reinterpret_cast<uint8_t*>(text.data()), text.size()});
  return door;
}

}  // namespace

std::string sign_membership(const Identity& swarm, const SignedMembership& membership) {
  std::string bytes(1, kMembershipVersion);
  bytes += raw_bytes(membership.id.bytes);
  bytes += little_endian_of(membership.not_after) + little_endian_of(membership.serial);
  bytes += raw_bytes(swarm.sign(signed_bytes(text_of(kMembership, swarm.id(), bytes))));
  return bytes;
}

std::optional<SignedMembership> read_membership(const PeerId& swarm, std::string_view bytes) {
  if (bytes.size() != kMembershipBytes || bytes[0] != kMembershipVersion) return std::nullopt;
  const std::string_view told = bytes.substr(0, kMembershipBytes - kSignatureBytes);
  if (!is_signed(bytes, swarm, text_of(kMembership, swarm, told))) return std::nullopt;
  SignedMembership membership{.not_after = little_endian_at(told.substr(33, 8)),
                              .serial = little_endian_at(told.substr(41, 8))};
  std::memcpy(membership.id.bytes.data(), told.data() + 1, membership.id.bytes.size());
  return membership;
}

Admission admit(const Identity& swarm, const SignedMembership& membership) {
  return {swarm.id(), door_seed(swarm), sign_membership(swarm, membership)};
}

std::string sign_revocation(const Identity& swarm, const PeerId& id, uint64_t serial) {
  std::string bytes(1, kRevocationVersion);
  bytes.append(raw_bytes(id.bytes)) += little_endian_of(serial);
  bytes += raw_bytes(swarm.sign(signed_bytes(text_of(kRevocation, swarm.id(), bytes))));
  return bytes;
}

std::optional<PeerId> read_revocation(const PeerId& swarm, std::string_view bytes) {
  if (bytes.size() != kRevocationBytes || bytes[0] != kRevocationVersion) return std::nullopt;
  const std::string_view told = bytes.substr(0, kRevocationBytes - kSignatureBytes);
  if (!is_signed(bytes, swarm, text_of(kRevocation, swarm, told))) return std::nullopt;
  PeerId id;
  std::memcpy(id.bytes.data(), told.data() + 1, id.bytes.size());
  return id;
}

std::string sign_settings(const Identity& swarm, std::string_view settings) {
  return std::string(raw_bytes(swarm.sign(signed_bytes(text_of(kSettings, swarm.id(), settings)))));
}

bool is_signed_settings(const PeerId& swarm, std::string_view settings, std::string_view signature) {
  return signature.size() == kSignatureBytes && is_signature(signature, swarm, text_of(kSettings, swarm, settings));
}

MemberKeys::MemberKeys(const Identity& self, const Identity& swarm)
    : MemberKeys(self, admit(swarm, {.id = self.id()})) {}

MemberKeys::MemberKeys(const Identity& self, const Admission& admission)
    : self_(self.seed()),
      swarm_(admission.swarm),
      port_secret_(self.curve_secret()),
      door_(curve_pair(admission.door)),
      signed_(admission.membership) {
  const std::optional<SignedMembership> membership = read_membership(swarm_, signed_);
  if (!membership) {
    throw std::invalid_argument("the swarm's key has not signed this ticket: ask its holder for another one");
  }
  if (membership->id != self.id()) {
    const std::string own = self.id().hex();
    throw std::invalid_argument("the ticket is for the agent " + membership->id.hex() +
                                ", and this state folder's is " + own + ": take the one of `starling admit " + own +
                                "`, which the holder of the swarm's key makes");
  }
  membership_ = *membership;
}

MemberKeys::~MemberKeys() {
  wipe(port_secret_);
  wipe(door_.secret);
}

std::string MemberKeys::proof_for(const PeerId& reader) const {
  const KeySeed nonce = random_seed();
  std::string proof = signed_ + std::string(raw_bytes(nonce).substr(0, kNonceBytes));
  const Signature signature = self_.sign(signed_bytes(text_of(kLink, reader, proof)));
  return proof.append(raw_bytes(signature));
}

void MemberKeys::seal(PeerRecord& record) const {
  STARLING_CHECK(record.id == self());
  const std::string packed = pack_record(record);
  record.sealed = std::string(raw_bytes(self_.sign(signed_bytes(text_of(kRecord, swarm_, packed))))) + packed;
}

bool MemberKeys::is_genuine(const PeerRecord& record) const {
  const std::string_view sealed = record.sealed;
  return sealed.size() > kSignatureBytes && is_signature(sealed.substr(0, kSignatureBytes), record.id,
                                                         text_of(kRecord, swarm_, sealed.substr(kSignatureBytes)));
}

std::optional<SignedMembership> MemberKeys::judge(std::string_view proof, const char** why) const {
  const auto refuse = [why](const char* text) {
    *why = text;
    return std::optional<SignedMembership>();
  };
  if (proof.size() != kProofOfLinkBytes || proof[0] != kMembershipVersion) return refuse("no proof of membership");
  const std::optional<SignedMembership> member = read_membership(swarm_, proof.substr(0, kMembershipBytes));
  if (!member) return refuse("a membership that the swarm's key has not signed");
  if (!is_signed(proof, member->id, text_of(kLink, self(), proof.substr(0, proof.size() - kSignatureBytes)))) {
    return refuse("a proof that its member has not signed for this reader");
  }
  return member;
}

}  // namespace starling
