#include "gossip/net/ticket.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

#include "gossip/net/hash.h"

namespace starling {
namespace {

constexpr std::string_view kTicketDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
constexpr std::string_view kSumOf = "starling ticket";
constexpr uint8_t kTicketVersion = 1;
constexpr size_t kSumBytes = 4, kTicketBytes = 1 + 32 + 32 + kSumBytes, kTicketCharacters = kTicketBytes / 3 * 4;
static_assert(kTicketBytes % 3 == 0);

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

void refuse_length(size_t size) {
  if (size == kTicketCharacters) return;
  const std::string found =
      std::to_string(size) + " characters, and " + std::to_string(kTicketCharacters) + " are needed";
  refuse_ticket((size < kTicketCharacters ? "the ticket is cut off: it has " : "the ticket is too long: it has ") +
                found + kCopyAgain);
}

Ticket parse_key(std::string_view key) {
  refuse_strange_characters(key);
  TicketBytes bytes = from_base64(key);
  const bool sound = has_ticket_sum(bytes);
  if (sound && bytes[0] != kTicketVersion) {
    refuse_ticket("the ticket is of version " + std::to_string(bytes[0]) +
                  ", of a newer Starling, and this program knows version 1; upgrade it");
  }
  refuse_length(key.size());
  if (!sound) refuse_ticket(std::string("the ticket has a wrong character") + kCopyAgain);
  Ticket ticket;
  std::memcpy(ticket.seed.data(), bytes.data() + 1, ticket.seed.size());
  std::memcpy(ticket.id.bytes.data(), bytes.data() + 33, ticket.id.bytes.size());
  wipe(bytes);
  return ticket;
}

}  // namespace

std::string Ticket::to_string() const {
  TicketBytes bytes = {kTicketVersion};
  bytes.insert(bytes.end(), seed.begin(), seed.end());
  bytes.insert(bytes.end(), id.bytes.begin(), id.bytes.end());
  const TicketBytes sum = ticket_sum(bytes);
  bytes.insert(bytes.end(), sum.begin(), sum.end());
  std::string text = at.to_string() + "#" + to_base64(bytes);
  wipe(bytes);
  return text;
}

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
