// Parsers of foreign bytes: each takes any input and aborts on a broken promise. libFuzzer drives them under
// -Dfuzz=true; a seeded smoke test drives them in every build.
#pragma once

#include <cstddef>
#include <span>

namespace starling {

void fuzz_wire(std::span<const std::byte> input);
void fuzz_codec(std::span<const std::byte> input);
void fuzz_endpoint(std::span<const std::byte> input);
void fuzz_ticket(std::span<const std::byte> input);
void fuzz_proof(std::span<const std::byte> input);
void fuzz_record(std::span<const std::byte> input);
void fuzz_revocation(std::span<const std::byte> input);
void fuzz_update(std::span<const std::byte> input);
void fuzz_entry(std::span<const std::byte> input);
bool entry_is_taken(std::span<const std::byte> input);  // whether fuzz_entry's log goes on with it
void fuzz_state(std::span<const std::byte> input);
void fuzz_data(std::span<const std::byte> input);
bool data_is_taken(std::span<const std::byte> input);  // whether fuzz_data read samples

}  // namespace starling
