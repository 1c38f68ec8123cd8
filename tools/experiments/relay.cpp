#include "tools/experiments/relay.h"

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <sstream>
#include <utility>

namespace {

constexpr Nanos kNever = INT64_MAX;
constexpr size_t kPacketMax = 65536 + sizeof(VirtioHeader);
constexpr int kBurst = 32;  // packets of one node before the next node has its turn
constexpr double kLossMax = 0.9;

// With the headers that the segments of a large packet would have.
size_t wire_bytes(std::string_view bytes) {
  VirtioHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  const size_t size = bytes.size() - sizeof header;
  if (header.gso_type == 0 || header.gso_size == 0 || size <= header.hdr_len) return size;
  const size_t segments = (size - header.hdr_len + header.gso_size - 1) / header.gso_size;
  return size + (segments - 1) * header.hdr_len;
}

// 0 to count - 1; nothing where `word` is no number of a node.
std::optional<size_t> node_number(const std::string& word, size_t count) {
  char* end = nullptr;
  const unsigned long number = std::strtoul(word.c_str(), &end, 10);
  if (word.empty() || word[0] < '0' || word[0] > '9' || *end != '\0' || number >= count) return std::nullopt;
  return number;
}

// The link after a command; nothing where it is none.
std::optional<Link> changed(Link link, const std::string& what, const std::string& value) {
  if ((what == "cut" || what == "heal") && value.empty()) {
    link.cut = what == "cut";
    return link;
  }
  char* end = nullptr;
  const double number = std::strtod(value.c_str(), &end);
  if (value.empty() || *end != '\0' || !(number >= 0 && number < 1e9)) return std::nullopt;
  if (what == "rate") {
    link.rate_mbit = number;
  } else if (what == "delay") {
    link.delay_ms = number;
  } else if (what == "loss" && number <= kLossMax) {
    link.loss = number;
  } else if (what == "side" && (number == 0 || number == 1)) {
    link.side = static_cast<int>(number);
  } else {
    return std::nullopt;
  }
  return link;
}

bool apart(const Link& a, const Link& b) { return a.cut || b.cut || a.side != b.side; }

}  // namespace

Relay::Relay(double queue_ms, std::vector<Node>& nodes) : queue_ms_(queue_ms), nodes_(nodes) {
  for (const Node& node : nodes) polled_.push_back({node.tun, POLLIN, 0});
}

void Relay::run(int signals, int commands) {
  polled_.push_back({signals, POLLIN, 0});
  polled_.push_back({commands, POLLIN, 0});
  for (;;) {
    const Nanos next = deliver();
    timespec wait{};
    if (next != kNever) {
      const Nanos left = std::max<Nanos>(next - now(), 0);
      wait = {static_cast<time_t>(left / 1'000'000'000), static_cast<long>(left % 1'000'000'000)};
    }
    if (ppoll(polled_.data(), polled_.size(), next == kNever ? nullptr : &wait, nullptr) < 0 && errno != EINTR) {
      fail_system("poll", "this is a fault of the program");
    }
    if (polled_[nodes_.size()].revents != 0) return;
    if (polled_[nodes_.size() + 1].revents != 0 && !read_commands(commands)) return;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (polled_[i].revents != 0) take_in(static_cast<int>(i));
    }
  }
}

// False: no more commands.
bool Relay::read_commands(int commands) {
  char text[256];
  const ssize_t got = read(commands, text, sizeof text);
  if (got <= 0) return false;
  unread_.append(text, static_cast<size_t>(got));
  for (size_t end; (end = unread_.find('\n')) != std::string::npos;) {
    obey(unread_.substr(0, end));
    unread_.erase(0, end + 1);
  }
  return true;
}

void Relay::obey(const std::string& line) {
  std::istringstream words(line);
  std::string what, who, value, more;
  words >> what >> who >> value >> more;
  const auto node = node_number(who, nodes_.size());
  if (!more.empty() || (!node && who != "all") || !changed({}, what, value)) {
    std::fprintf(stderr,
                 "link_relay: do not understand '%s'; write rate|delay|loss NODE|all VALUE, "
                 "side NODE|all 0|1 or cut|heal NODE|all, NODE 0 to %zu\n",
                 line.c_str(), nodes_.size() - 1);
    return;
  }
  for (size_t i = node.value_or(0); i <= node.value_or(nodes_.size() - 1); ++i) {
    nodes_[i].link = *changed(nodes_[i].link, what, value);
  }
  set_offload(nodes_);
}

void Relay::take_in(int from) {
  static char buffer[kPacketMax];
  for (int i = 0; i < kBurst; ++i) {
    const ssize_t got = read(nodes_[static_cast<size_t>(from)].tun, buffer, sizeof buffer);
    if (got < static_cast<ssize_t>(sizeof(VirtioHeader) + 20)) return;
    const char* ip = buffer + sizeof(VirtioHeader);
    in_addr to{}, network{};
    std::memcpy(&to, ip + 16, 4);
    inet_pton(AF_INET, "10.77.0.0", &network);
    const uint32_t host = ntohl(to.s_addr) - ntohl(network.s_addr);
    if ((static_cast<unsigned char>(ip[0]) >> 4) != 4 || host < 1 || host > nodes_.size()) continue;
    send_off(from, static_cast<int>(host) - 1, {buffer, static_cast<size_t>(got)});
  }
}

void Relay::send_off(int from, int to, std::string_view bytes) {
  Node& node = nodes_[static_cast<size_t>(from)];
  const Link &own = node.link, &other = nodes_[static_cast<size_t>(to)].link;
  const double loss = std::max(own.loss, other.loss);
  if (apart(own, other) || (loss > 0 && draw() < loss)) {
    ++node.dropped_lost;
    return;
  }
  const size_t on_wire = wire_bytes(bytes);
  if (node.held + on_wire > own.queue_bytes(queue_ms_)) {
    ++node.dropped_full;
    return;
  }
  node.held += on_wire;
  node.uplink_free = std::max(node.uplink_free, now()) + own.on_wire(on_wire);
  const Nanos due = node.uplink_free + std::max(own.delay(), other.delay());
  // Packets to nearer nodes overtake those to farther ones.
  const auto place = std::upper_bound(node.flying.begin(), node.flying.end(), due,
                                      [](Nanos time, const Packet& packet) { return time < packet.due; });
  node.flying.insert(place, {due, from, to, on_wire, std::string(bytes)});
  ++node.sent;
  node.bytes += on_wire;
}

// A packet has come to the receiver's downlink.
void Relay::arrive(Packet packet) {
  Node& to = nodes_[static_cast<size_t>(packet.to)];
  Node& from = nodes_[static_cast<size_t>(packet.from)];
  if (apart(to.link, from.link)) {  // since it was sent
    ++from.dropped_lost;
    return;
  }
  // Cut-through: its first bit came as it left, so an idle downlink adds nothing.
  to.downlink_free = std::max(packet.due, to.downlink_free + to.link.on_wire(packet.on_wire));
  packet.due = to.downlink_free;
  to.landing.push_back(std::move(packet));
}

// Hands over what is due; returns when the next is.
Nanos Relay::deliver() {
  const Nanos time = now();
  Nanos next = kNever;
  for (Node& node : nodes_) {
    while (!node.flying.empty() && node.flying.front().due <= time) {
      Packet packet = std::move(node.flying.front());
      node.flying.pop_front();
      node.held -= packet.on_wire;
      arrive(std::move(packet));
    }
    if (!node.flying.empty()) next = std::min(next, node.flying.front().due);
  }
  for (Node& node : nodes_) {
    while (!node.landing.empty() && node.landing.front().due <= time) {
      const std::string& bytes = node.landing.front().bytes;
      if (write(node.tun, bytes.data(), bytes.size()) < 0) ++node.dropped_full;
      node.landing.pop_front();
    }
    if (!node.landing.empty()) next = std::min(next, node.landing.front().due);
  }
  return next;
}

double Relay::draw() {  // xorshift: the same losses for the same packets
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  return static_cast<double>(random_ >> 11) * 0x1p-53;
}
