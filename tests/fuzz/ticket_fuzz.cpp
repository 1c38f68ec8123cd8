// Tickets as a person copies them, the routing ids of links, signed records, and revocations: nothing but a sound one
// is taken.
#include <stdexcept>
#include <string_view>

#include "gossip/net/member_keys.h"
#include "gossip/net/revocations.h"
#include "gossip/net/ticket.h"
#include "gossip/net/wire.h"
#include "kernels/check.h"
#include "tests/fuzz/targets.h"

namespace starling {

void fuzz_ticket(std::span<const std::byte> input) {
  const std::string_view text(reinterpret_cast<const char*>(input.data()), input.size());
  const std::string shown = hide_tickets(text);
  STARLING_CHECK(hide_tickets(shown).size() <= shown.size() && shown.size() <= 4 * text.size());
  try {
    const Ticket ticket = parse_ticket(text);
    STARLING_CHECK(parse_ticket(ticket.to_string()) == ticket);
    STARLING_CHECK(shown.find(text.substr(text.find('#') + 1)) == std::string::npos);
  } catch (const std::invalid_argument&) {
  }
}

void fuzz_proof(std::span<const std::byte> input) {
  static const Identity self(KeySeed{2}), swarm(KeySeed{1});
  static const MemberKeys keys(self, swarm);
  const std::string_view proof(reinterpret_cast<const char*>(input.data()), input.size());
  const char* why = nullptr;
  const auto member = keys.judge(proof, &why);
  STARLING_CHECK(member.has_value() == (why == nullptr));
  STARLING_CHECK(!member || proof.size() == kProofOfLinkBytes);
}

// A signed record, as a member passes it on: whatever decodes is passed on as it came.
void fuzz_record(std::span<const std::byte> input) {
  static const Identity self(KeySeed{2}), swarm(KeySeed{1});
  static const MemberKeys keys(self, swarm);
  if (input.empty() || input.size() > 2 * kSealedBytesMax) return;
  PeerRecord sent{self.id(), {}, {"h", 1}, {}};
  sent.sealed.assign(reinterpret_cast<const char*>(input.data()), input.size());
  const FrameHeader header{1, self.id(), 1, {"h", 1}};
  FrameHeader header_out;
  Message message;
  const auto frame = encode_frame_header(header, Gossip{Updates{.alive = {sent}}}, {});
  if (decode_frame(Channel::kControl, frame, {}, &header_out, &message) != DecodeStatus::kOk) return;
  const Updates& updates = message_as<Gossip>(message)->updates;
  STARLING_CHECK(updates.alive.size() + updates.left.size() == 1);
  const PeerRecord& record = updates.alive.empty() ? updates.left[0] : updates.alive[0];
  STARLING_CHECK(record.sealed == sent.sealed && record.sealed.size() <= kSealedBytesMax);
  STARLING_CHECK(record.farewell == updates.alive.empty());
  const std::string again = pack_record(record);
  STARLING_CHECK(kProofBytes + again.size() <= kSealedBytesMax);
  STARLING_CHECK(!keys.is_genuine(record) || again == record.sealed.substr(kProofBytes));
}

void fuzz_revocation(std::span<const std::byte> input) {
  static const Identity swarm(KeySeed{1});
  const std::string_view bytes(reinterpret_cast<const char*>(input.data()), input.size());
  Revocations revoked(swarm.id()), again(swarm.id());
  const size_t count = revoked.take(bytes).size();
  STARLING_CHECK(count == revoked.count() && count * kRevocationBytes <= bytes.size() && count <= kRevocationsMax);
  STARLING_CHECK((count == 0) == (revoked.sum() == 0));
  STARLING_CHECK(again.take(revoked.bytes()).size() == count && again.sum() == revoked.sum());
}

}  // namespace starling
