#include "gossip/net/ticket.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

#include "gossip/net/hash.h"

namespace starling {
namespace {

constexpr std::string_view kTicketDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
constexpr std::string_view kSumOf = "starling ticket";
constexpr size_t kSumBytes = 4, kKeyBytes = 32;
constexpr uint8_t kSharedTicket = 1, kCertifiedTicket = 2, kTicketWithIdentity = 3;

constexpr size_t characters_of(size_t bytes) { return (bytes * 4 + 2) / 3; }

// Of TICKET, by version.
constexpr size_t kCharacters[] = {0, characters_of(1 + 2 * kKeyBytes + kSumBytes),
                                  characters_of(1 + 3 * kKeyBytes + kMembershipBytes + kSumBytes),
                                  characters_of(1 + 4 * kKeyBytes + kMembershipBytes + kSumBytes)};

constexpr const char* kCopyAgain = "; copy the whole line from the file `ticket` in the state folder there";

using TicketBytes = std::vector<uint8_t>;

TicketBytes ticket_sum(std::span<const uint8_t> bytes) {
  TicketBytes text(kSumOf.begin(), kSumOf.end());
  text.insert(text.end(), bytes.begin(), bytes.end());
  const auto hash = blake2b_256(std::as_bytes(std::span(text)));
  wipe(text);
  return {hash.begin(), hash.begin() + kSumBytes};
}

bool has_ticket_sum(const TicketBytes& bytes) {
  if (bytes.size() <= kSumBytes) return false;
  const std::span<const uint8_t> body = std::span(bytes).first(bytes.size() - kSumBytes);
  return std::ranges::equal(ticket_sum(body), std::span(bytes).last(kSumBytes));
}

[[noreturn]] void refuse_ticket(const std::string& what) { throw std::invalid_argument(what); }

void refuse_strange_characters(std::string_view key) {
  if (key.find('%') != std::string_view::npos) {
    refuse_ticket(std::string("the ticket is URL-encoded (%), as a mail or chat program does it") + kCopyAgain);
  }
  const auto is_blank = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; };
  if (std::any_of(key.begin(), key.end(), is_blank)) {
    refuse_ticket(std::string("the ticket has a blank or a line break in it") + kCopyAgain);
  }
  if (key.find_first_not_of(kTicketDigits) != std::string_view::npos) {
    refuse_ticket(std::string("the ticket has a character that no ticket has") + kCopyAgain);
  }
}

// One cut off still has its first characters, and with them its version.
void refuse_length(std::string_view key) {
  if (std::ranges::find(kCharacters, key.size()) != std::end(kCharacters) && !key.empty()) return;
  const TicketBytes begin = from_base64(key.substr(0, 4));
  const bool known = !begin.empty() && begin[0] >= kSharedTicket && begin[0] <= kTicketWithIdentity;
  const size_t version = known ? begin[0] : kSharedTicket;
  const std::string found =
      std::to_string(key.size()) + " characters, and " + std::to_string(kCharacters[version]) + " are needed";
  refuse_ticket(
      (key.size() < kCharacters[version] ? "the ticket is cut off: it has " : "the ticket is too long: it has ") +
      found + kCopyAgain);
}

// REQUIRES: there are so many bytes left.
template <size_t kSize>
void take(std::span<const uint8_t>& bytes, std::array<uint8_t, kSize>& out) {
  std::copy_n(bytes.begin(), kSize, out.begin());
  bytes = bytes.subspan(kSize);
}

Ticket parse_key(std::string_view key) {
  if (key.empty()) {
    refuse_ticket(
        "there is no ticket behind the #; a swarm without tickets, as one that listens on loopback, wants none");
  }
  refuse_strange_characters(key);
  TicketBytes all = from_base64(key);
  const bool sound = has_ticket_sum(all);
  const uint8_t version = sound ? all[0] : 0;
  if (sound && (version < kSharedTicket || version > kTicketWithIdentity)) {
    refuse_ticket("the ticket is of version " + std::to_string(version) +
                  ", of a newer Starling, and this program knows versions 1 to 3; upgrade it");
  }
  refuse_length(key);
  if (!sound || key.size() != kCharacters[version]) {
    refuse_ticket(std::string("the ticket has a wrong character") + kCopyAgain);
  }
  Ticket ticket;
  std::span<const uint8_t> rest = std::span(all).subspan(1);
  if (version == kSharedTicket) {
    take(rest, ticket.seed);
    take(rest, ticket.id.bytes);
  } else {
    Admission& admission = ticket.admission.emplace();
    take(rest, ticket.id.bytes);
    take(rest, admission.swarm.bytes);
    take(rest, admission.door);
    admission.membership.assign(rest.begin(), rest.begin() + kMembershipBytes);
    rest = rest.subspan(kMembershipBytes);
    if (version == kTicketWithIdentity) take(rest, admission.identity.emplace());
  }
  wipe(all);
  return ticket;
}

}  // namespace

std::string Ticket::to_string() const {
  TicketBytes bytes = {!admission ? kSharedTicket : admission->identity ? kTicketWithIdentity : kCertifiedTicket};
  const auto add = [&bytes](const auto& part) { bytes.insert(bytes.end(), part.begin(), part.end()); };
  if (!admission) {
    add(seed);
    add(id.bytes);
  } else {
    add(id.bytes);
    add(admission->swarm.bytes);
    add(admission->door);
    add(admission->membership);
    if (admission->identity) add(*admission->identity);
  }
  add(ticket_sum(bytes));
  std::string text = at.to_string() + "#" + to_base64(bytes);
  wipe(bytes);
  return text;
}

PeerId Ticket::swarm() const { return admission ? admission->swarm : Identity(seed).id(); }

Ticket parse_ticket(std::string_view text) {
  if (text.size() > kTicketTextMax)
    refuse_ticket("a ticket has at most " + std::to_string(kTicketTextMax) + " characters" + kCopyAgain);
  const size_t mark = text.find('#');
  if (mark == std::string_view::npos) {
    refuse_ticket(text.find("%23") != std::string_view::npos
                      ? std::string("the ticket is URL-encoded (%23), as a mail or chat program does it") + kCopyAgain
                      : std::string("there is no # with a ticket after it") + kCopyAgain);
  }
  const std::optional<Endpoint> at = Endpoint::parse(text.substr(0, mark));
  if (!at || at->port == 0 || at->port == 65535) {
    refuse_ticket("no address HOST:PORT stands before the # of the ticket; write one, such as 10.0.0.1:7400");
  }
  Ticket ticket = parse_key(text.substr(mark + 1));
  ticket.at = *at;
  return ticket;
}

// A damaged ticket may have blanks in it, so all after the mark goes.
std::string hide_tickets(std::string_view text) {
  const size_t mark = std::min(text.find('#'), text.find("%23"));
  return std::string(text.substr(0, mark)) + (mark == std::string_view::npos ? "" : "#...");
}

}  // namespace starling
