// A peer's identity and addresses.
#pragma once

#include <array>
#include <bit>
#include <compare>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace starling {

// The agent's Ed25519 public key: the only name a peer has.
struct PeerId {
  std::array<uint8_t, 32> bytes{};
  bool operator==(const PeerId&) const = default;
  // By bytes. The first that differ decide, and are nearly always among the first eight.
  std::strong_ordering operator<=>(const PeerId& other) const {
    uint64_t mine, theirs;
    std::memcpy(&mine, bytes.data(), sizeof mine);
    std::memcpy(&theirs, other.bytes.data(), sizeof theirs);
    if (mine == theirs) return bytes <=> other.bytes;
    if constexpr (std::endian::native == std::endian::little) {
      mine = __builtin_bswap64(mine);
      theirs = __builtin_bswap64(theirs);
    }
    return mine <=> theirs;
  }
  bool is_zero() const { return *this == PeerId{}; }
  std::string hex() const;         // 64 digits
  std::string short_name() const;  // the first 8 digits, for people
  static std::optional<PeerId> parse(std::string_view hex);
};

// Where a peer's control port is bound; the bulk port is the next one.
struct Endpoint {
  std::string host;  // name, IPv4 or IPv6 address without brackets
  uint16_t port = 0;
  auto operator<=>(const Endpoint&) const = default;
  std::string to_string() const;                                // "host:port", "[v6]:port"
  static std::optional<Endpoint> parse(std::string_view text);  // port 0 passes: "any" when listening
  // A name, an IPv4 or an IPv6 address by its characters; nothing is looked up.
  static bool is_valid_host(std::string_view host);
};

// An address and the peer there. `id` zero: the one that is known to be there, as by a ticket.
struct PeerAddress {
  Endpoint endpoint;
  PeerId id{};
};

// generation: one per process start, persisted, growing. incarnation: one per refutation or change of the record.
struct Version {
  uint64_t generation = 0;
  uint32_t incarnation = 0;
  auto operator<=>(const Version&) const = default;
};

enum class Role : uint8_t { kAgent = 0, kBootstrap = 1 };  // on the wire: never renumber
enum class Phase : uint8_t { kJoining = 0, kTraining = 1, kSettling = 2, kFinished = 3, kSick = 4 };
// Of a member that trains, on a loop of its own that has taken no step for long. kHoldsFinal: the run has ended
// meanwhile, and it holds the model that the others ended with.
enum class Pause : uint8_t { kNone = 0, kPaused = 1, kHoldsFinal = 2 };

// What a member says of itself; rides in its record, so any agent can show the whole swarm.
struct MemberMeta {
  Role role = Role::kAgent;
  Phase phase = Phase::kJoining;
  Pause pause = Pause::kNone;
  uint64_t round = 0;
  uint64_t steps = 0;
  uint64_t samples = 0;
  double mass = 1;  // weight of its model in the swarm's mean; > 0, finite
  float steps_per_s = 0;
  float loss = 0;
  float accuracy = -1;  // of 1; negative: not measured
  float distance = -1;  // rms distance to the last partner's params over rms params; negative: not measured
  std::string name;     // for people, <= 32 bytes, printable; never an identity
  // Of its params (kernels/projection.h), kProjectionBuckets finite numbers; empty: not measured, or of older programs.
  std::vector<float> projection{};
  uint32_t program = 0;           // its version, as in wire.capnp; 0: an older one, which says none of these three
  uint32_t done = 0, failed = 0;  // exchanges of this process
  uint64_t stop_after = 0;        // the step that the run was raised to; 0: as its settings say
  float test_loss = -1;           // of what `accuracy` is of; negative: not measured, or it is an older program
  bool held_out = false;          // both are of samples that this member holds out of its own data
  uint64_t classes_hash = 0;      // of the class names of its data, in order; 0: they have none, or it is older
  uint64_t labels_hash = 0;       // of how its samples divide among labels (wire.capnp); 0: not known, or it is older
  bool unsaved = false;           // its last checkpoint could not be written
  bool operator==(const MemberMeta&) const = default;
};

struct PeerRecord {
  PeerId id;
  Version version;
  Endpoint endpoint;
  MemberMeta meta;
  bool farewell = false;  // its owner has left; of signed ones alone
  std::string sealed{};   // these fields as their owner signed them (net/member_keys.h); empty: the swarm is open
};

}  // namespace starling

template <>
struct std::hash<starling::PeerId> {
  size_t operator()(const starling::PeerId& id) const noexcept {
    size_t h;  // a public key is uniform already
    std::memcpy(&h, id.bytes.data(), sizeof h);
    return h;
  }
};
