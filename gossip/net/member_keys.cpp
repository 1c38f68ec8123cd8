#include "gossip/net/member_keys.h"

#include <cstring>
#include <span>

#include "gossip/net/hash.h"

namespace starling {
namespace {

constexpr std::string_view kMembership = "starling membership 1", kLink = "starling link 1", kDoor = "starling door 1";
constexpr char kMembershipVersion = 1;
constexpr size_t kNonceBytes = 16, kSignatureBytes = sizeof(Signature);

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

std::string text_of_membership(const PeerId& swarm, std::string_view unsigned_part) {
  return std::string(kMembership) + std::string(raw_bytes(swarm.bytes)) + std::string(unsigned_part);
}

std::string text_of_link(const PeerId& reader, std::string_view unsigned_part) {
  return std::string(kLink) + std::string(raw_bytes(reader.bytes)) + std::string(unsigned_part);
}

// Whether the last bytes are the signer's signature over `text`.
bool is_signed(std::string_view bytes, const PeerId& signer, const std::string& text) {
  Signature signature;
  std::memcpy(signature.data(), bytes.data() + bytes.size() - kSignatureBytes, kSignatureBytes);
  return verify(signer, signed_bytes(text), signature);
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
  bytes += raw_bytes(swarm.sign(signed_bytes(text_of_membership(swarm.id(), bytes))));
  return bytes;
}

MemberKeys::MemberKeys(const Identity& self, const Identity& swarm)
    : self_(self.seed()),
      swarm_(swarm.id()),
      port_secret_(self.curve_secret()),
      door_(curve_pair(door_seed(swarm))),
      membership_(sign_membership(swarm, {.id = self.id()})) {}

MemberKeys::~MemberKeys() {
  wipe(port_secret_);
  wipe(door_.secret);
}

std::string MemberKeys::proof_for(const PeerId& reader) const {
  const KeySeed nonce = random_seed();
  std::string proof = membership_ + std::string(raw_bytes(nonce).substr(0, kNonceBytes));
  const Signature signature = self_.sign(signed_bytes(text_of_link(reader, proof)));
  return proof.append(raw_bytes(signature));
}

std::optional<PeerId> MemberKeys::judge(std::string_view proof, uint64_t now_unix_s, const char** why) const {
  const auto refuse = [why](const char* text) {
    *why = text;
    return std::optional<PeerId>();
  };
  if (proof.size() != kProofOfLinkBytes || proof[0] != kMembershipVersion) return refuse("no proof of membership");
  const std::string_view membership = proof.substr(0, kMembershipBytes);
  const std::string_view told = membership.substr(0, kMembershipBytes - kSignatureBytes);
  PeerId id;
  std::memcpy(id.bytes.data(), told.data() + 1, id.bytes.size());
  if (!is_signed(membership, swarm_, text_of_membership(swarm_, told))) {
    return refuse("a membership that the swarm's key has not signed");
  }
  if (!is_signed(proof, id, text_of_link(self(), proof.substr(0, proof.size() - kSignatureBytes)))) {
    return refuse("a proof that its member has not signed for this reader");
  }
  const uint64_t not_after = little_endian_at(told.substr(33, 8));
  if (not_after != 0 && now_unix_s > not_after) return refuse("a membership that has expired");
  return id;
}

}  // namespace starling
