// The identity of this agent, kept in its folder: an Ed25519 key (its public half is the PeerId) and the generation
// counter; and the key of a swarm with tickets, an Ed25519 key as well. The only file with libsodium, so the BLAKE2b
// functions of hash.h are implemented here too.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gossip/peer.h"

namespace starling {

using Signature = std::array<uint8_t, 64>;
using KeySeed = std::array<uint8_t, 32>;
using CurveKey = std::array<uint8_t, 32>;  // X25519, half of a pair

class Identity {
 public:
  explicit Identity(const KeySeed& key_seed);  // the secret: 32 random bytes
  ~Identity();                                 // wipes it
  Identity(Identity&&) noexcept;
  Identity& operator=(Identity&&) = delete;

  const PeerId& id() const { return id_; }
  Signature sign(std::span<const std::byte> message) const;
  KeySeed seed() const;           // the secret itself
  CurveKey curve_secret() const;  // the same key for encryption

 private:
  PeerId id_;
  std::array<uint8_t, 64> secret_{};
};

[[nodiscard]] bool verify(const PeerId& signer, std::span<const std::byte> message, const Signature& signature);

// The key of that owner for encryption. The ids A and -A share it, so no proof may rest on it alone. nullopt: no point
// of the curve, or one of small order.
std::optional<CurveKey> curve_public(const PeerId& id);

struct CurvePair { CurveKey open{}, secret{}; };
CurvePair curve_pair(const KeySeed& seed);

KeySeed random_seed();
// base64url without padding. from_base64(): empty where the text is none.
std::string to_base64(std::span<const uint8_t> bytes);
std::vector<uint8_t> from_base64(std::string_view text);

void wipe(std::span<uint8_t> secret);

// The key in `dir`/identity.key; made on first use, with `dir` itself. The file must be a regular one and ours. Where
// others may read it, it is closed to them, and `remark`, where given, says so for people. Throws std::runtime_error
// with the remedy.
Identity load_or_create_identity(const std::filesystem::path& dir, std::string* remark = nullptr);

// Keeps this key there, where there is none yet. Throws likewise.
void store_identity(const std::filesystem::path& dir, const KeySeed& key_seed);

// The key of the swarm in `dir`/swarm.key, likewise; nullopt: there is none. One that is stored stays: it throws where
// another one is there.
std::optional<Identity> load_swarm_key(const std::filesystem::path& dir, std::string* remark = nullptr);
void store_swarm_key(const std::filesystem::path& dir, const Identity& key);

// What a start by the wall clock has now: milliseconds since 1970, at least 1.
uint64_t generation_by_clock();

// A number greater than every one returned for this folder before. It is on disk before it is returned, so a restarted
// agent is never taken for its earlier process. It follows the wall clock, so it still grows if the file was lost.
// Without `by_clock` it is the stored one plus 1. Throws std::runtime_error.
uint64_t next_generation(const std::filesystem::path& dir, bool by_clock = true);

// The next one is greater than `generation` too. Likewise.
void store_generation(const std::filesystem::path& dir, uint64_t generation);

}  // namespace starling
