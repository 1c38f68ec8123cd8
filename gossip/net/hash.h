// Digests. BLAKE2b-256 identifies content (settings, models). XXH3 only detects accidental damage in transit: it has no
// key and is no protection against forgery.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace starling {

std::array<uint8_t, 32> blake2b_256(std::span<const std::byte> bytes);
std::array<uint8_t, 16> blake2b_128(std::span<const std::byte> bytes);  // not the first half of the other

// The same digest over bytes that arrive in pieces.
class Blake2b256 {
 public:
  Blake2b256();
  void update(std::span<const std::byte> bytes);
  std::array<uint8_t, 32> finish();  // once; the object must not be used afterwards

 private:
  alignas(64) std::array<std::byte, 384> state_;  // libsodium's own; identity.cpp checks that it fits
};

std::array<uint8_t, 16> xxh3_128(std::span<const std::byte> bytes);  // canonical form: big end first
uint64_t xxh3_64(std::span<const std::byte> bytes);

// The first 8 bytes of BLAKE2b-256 over both; never 0. Without the secret nobody can foretell such a number. Nobody can
// find the secret or another number from known ones.
uint64_t secret_number(uint64_t secret, std::span<const std::byte> about);
uint64_t secret_number(uint64_t secret, uint64_t about);

}  // namespace starling
