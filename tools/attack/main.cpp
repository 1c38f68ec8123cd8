// A stranger against real agents. It learns the swarm from one of them, joins where the attack says so, and acts at
// the attack's rate.
//
//   stranger --list                              the attacks, a line each
//   stranger ATTACK HOST:PORT[#TICKET] [--seconds S] [--seed N] [--block-bytes N] [--sink HOST:PORT]
//   stranger sink [HOST:PORT#TICKET]             prints an address, and takes what comes there until it is killed
//
// A ticket, of `starling admit --new` or of a swarm that shares one, makes it a member: all ids are then its own one.
// `--block-bytes`: of each of the model's blocks in fp32; the stranger's params are one such block. `--sink`: every
// frame goes there instead, so the machine carries the attacker and the swarm does not. Prints "ready" when it begins,
// and at the end what it did. Exit status 1: nobody answered, 2: wrong arguments.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "gossip/net/ticket.h"
#include "gossip/net/zmq_transport.h"
#include "tools/attack/attacks.h"

namespace starling {
namespace {

using std::chrono::milliseconds;

constexpr uint64_t kGeneration = 5000;
constexpr Duration kPatience = std::chrono::seconds(20), kAskAgain = milliseconds(200);
constexpr Duration kJoining = std::chrono::seconds(1);
constexpr Duration kBehindMax = milliseconds(100);  // that are made up for if the machine was busy

struct Options {
  std::string attack;
  Ticket target;  // the address alone in an open swarm
  std::optional<Endpoint> sink;
  double seconds = 10;
  uint64_t rng_seed = 1;
  size_t block_bytes = 4000;
};

[[noreturn]] void usage() {
  std::fprintf(stderr,
               "stranger --list | stranger sink [HOST:PORT#TICKET] | stranger ATTACK HOST:PORT[#TICKET] [--seconds S] "
               "[--seed N] [--block-bytes N] [--sink HOST:PORT]\n");
  std::exit(2);
}

Endpoint endpoint_of(const char* text) {
  const std::optional<Endpoint> endpoint = Endpoint::parse(text);
  if (!endpoint) usage();
  return *endpoint;
}

Ticket target_of(const std::string& text) {
  if (text.find('#') == std::string::npos) return {.at = endpoint_of(text.c_str()), .id = {}};
  try {
    return parse_ticket(text);
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "%s\n", error.what());
    usage();
  }
}

// Null: of an open swarm.
std::shared_ptr<const MemberKeys> keys_of(const Ticket& ticket) {
  if (ticket.id.is_zero()) return nullptr;
  if (!ticket.admission) return std::make_shared<MemberKeys>(Identity(random_seed()), Identity(ticket.seed));
  if (ticket.admission->identity) {
    return std::make_shared<MemberKeys>(Identity(*ticket.admission->identity), *ticket.admission);
  }
  std::fprintf(stderr, "the ticket holds no identity: make one with `starling admit --new`\n");
  usage();
}

Options parse(int argc, char** argv) {
  if (argc < 3 || argc % 2 == 0) usage();
  Options options{.attack = argv[1], .target = target_of(argv[2]), .sink = {}};
  for (int i = 3; i < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--seconds") {
      options.seconds = std::strtod(argv[i + 1], nullptr);
    } else if (name == "--seed") {
      options.rng_seed = std::strtoull(argv[i + 1], nullptr, 10);
    } else if (name == "--block-bytes") {
      options.block_bytes = std::strtoull(argv[i + 1], nullptr, 10);
    } else if (name == "--sink") {
      options.sink = endpoint_of(argv[i + 1]);
    } else {
      usage();
    }
  }
  return options;
}

std::vector<SharedBytes> blocks_of(float value, size_t bytes) {
  const std::vector<float> params(bytes / sizeof(float), value);
  return {SharedBytes::copy_of(std::as_bytes(std::span(params)))};
}

// Runs the stranger until then, and at each time it wakes.
template <typename Act>
void run_until(TimePoint end, Transport& transport, const Clock& clock, Stranger& stranger, const Act& act) {
  while (clock.now() < end) {
    const TimePoint next = act();
    stranger.tick();
    transport.wait_until(std::min(end, next));
  }
}

// `trains`: as which it joins; a member's other ids will be no others.
bool learn(const Options& options, bool trains, uint64_t steps, Transport& transport, const Clock& clock,
           Stranger& stranger) {
  const PeerId look = stranger.new_id();
  const TimePoint end = clock.now() + kPatience;
  while (stranger.members().empty() && clock.now() < end) {
    stranger.join(look, options.target.at, steps, trains ? Phase::kTraining : Phase::kJoining);
    run_until(clock.now() + kAskAgain, transport, clock, stranger, [&] { return clock.now() + milliseconds(10); });
  }
  return !stranger.members().empty();
}

int besiege(const Attack& attack, const Options& options) {
  const std::shared_ptr<const MemberKeys> keys = keys_of(options.target);
  ZmqContext context;
  ZmqTransport transport({"127.0.0.1", 0}, context, keys);
  const SteadyClock clock;
  Stranger stranger(transport, clock, kGeneration + options.rng_seed, options.rng_seed, keys.get());
  transport.expect_at({options.target.at, options.target.id});
  if (!learn(options, keys && attack.joins, attack.steps, transport, clock, stranger)) {
    std::fprintf(stderr, "%s gave no members of a swarm; %s\n", options.target.at.to_string().c_str(),
                 transport.why_closed(options.target.at).c_str());
    return 1;
  }
  for (const auto& [id, member] : stranger.members()) transport.expect_at({member.endpoint, id});
  Siege siege{stranger, stranger.new_ids(keys ? 1 : attack.ids), blocks_of(0, options.block_bytes),
              blocks_of(1e6f, options.block_bytes)};
  if (options.sink) {
    stranger.divert_to(*options.sink);
    if (keys) transport.expect_at({*options.sink, keys->self()});  // a sink of the same ticket
  }
  if (attack.answer) {
    stranger.on_frame = [&](const FrameHeader& from, const Message& message) { attack.answer(siege, from, message); };
  }
  if (attack.joins) {
    for (const auto& [id, member] : stranger.members()) {
      for (const PeerId& own : siege.ids) stranger.join(own, member.endpoint, attack.steps);
    }
    run_until(clock.now() + kJoining, transport, clock, stranger, [&] { return clock.now() + milliseconds(10); });
  }
  std::printf("ready: %zu members, %zu ids\n", stranger.members().size(), siege.ids.size());
  std::fflush(stdout);

  const TimePoint began = clock.now();
  const Duration every = from_seconds(1 / attack.rate);
  TimePoint due = began;
  run_until(began + from_seconds(options.seconds), transport, clock, stranger, [&] {
    due = std::max(due, clock.now() - kBehindMax);
    for (; due <= clock.now(); due += every, ++siege.acts) attack.act(siege);
    return due;
  });
  const double took = seconds(clock.now() - began);
  std::printf("%.1f acts a second of %g, %llu frames\n", static_cast<double>(siege.acts) / took, attack.rate,
              static_cast<unsigned long long>(stranger.frames_sent()));
  return 0;
}

[[noreturn]] void take_all(const std::shared_ptr<const MemberKeys>& keys) {
  ZmqContext context;
  ZmqTransport transport({"127.0.0.1", 0}, context, keys);
  const SteadyClock clock;
  std::printf("ready: %s\n", transport.local().to_string().c_str());
  std::fflush(stdout);
  for (;;) {
    while (transport.poll()) {
    }
    transport.wait_until(clock.now() + std::chrono::seconds(1));
  }
}

}  // namespace
}  // namespace starling

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "sink") starling::take_all(argc > 2 ? starling::keys_of(starling::target_of(argv[2])) : nullptr);
  if (what == "--list") {
    for (const starling::Attack& attack : starling::attacks()) {
      std::printf("%-18s %s, %g acts a second\n", attack.name, attack.does, attack.rate);
    }
    return 0;
  }
  const starling::Options options = starling::parse(argc, argv);
  const starling::Attack* attack = starling::find_attack(options.attack);
  if (attack == nullptr) starling::usage();
  return starling::besiege(*attack, options);
}
