// An entry of a slice's log, and the state of a slice, from a stranger. The lower bits of the first byte say what to
// seal, so that the input passes the envelope and the hashes, the others which codec an entry's log runs with and
// whether its slice is longer; two bytes give the size of the header, the rest is the payload. What a log takes follows
// from what it held; what it refuses changes nothing.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include "gossip/net/hash.h"
#include "gossip/net/wire.h"
#include "gossip/updates/update_slice.h"
#include "kernels/check.h"
#include "tests/fuzz/sealed.h"
#include "tests/fuzz/targets.h"

namespace starling {
namespace {

constexpr size_t kElements = 3, kMoreElements = 700;  // of these int8 and int4 have a block that is not full

PeerId peer(uint8_t tag) {
  PeerId id;
  id.bytes.fill(tag);
  return id;
}

struct Input {
  uint8_t seal = 0;
  Message message;
  SharedBytes payload;
};

std::optional<Input> decoded(std::span<const std::byte> input) {
  if (input.size() < 3) return std::nullopt;
  const size_t size = std::to_integer<size_t>(input[1]) | std::to_integer<size_t>(input[2]) << 8;
  if (size > input.size() - 3) return std::nullopt;
  Input made{std::to_integer<uint8_t>(input[0]), {}, {}};
  const std::span<const std::byte> payload = input.subspan(3 + size);
  FrameHeader header;
  const DecodeStatus status =
      decode_frame(Channel::kBulk, sealed(input.subspan(3, size)), payload, &header, &made.message);
  if (status != DecodeStatus::kOk) return std::nullopt;
  made.payload = SharedBytes::take({payload.begin(), payload.end()});
  return made;
}

// A slice whose log counts two members.
struct Target {
  explicit Target(UpdateKind kind = UpdateKind::kTopk, size_t element_count = kElements)
      : elements(element_count), running(make_update_codec({.kind = kind, .density = 0.5, .reply = 1})) {
    slice.restore({0, {9, 16, {7}}, {{peer(1), 1, 8, 0x7f, 9}, {peer(2), 1, 8, 0x7f, 9}}, {{{7}, 1, 1}}, {}, 0});
    slice.begin_round(1);
  }
  const size_t elements;
  std::unique_ptr<UpdateCodec> exact = make_update_codec({});
  std::unique_ptr<UpdateCodec> running;
  const UpdateCodecs codecs{running.get(), exact.get()};
  InlineWorker worker;
  UpdateRefusals refusals;
  UpdateSlice slice{{0, elements, elements}, 1e30f, codecs, worker, refusals, [] {}};
};

}  // namespace

void fuzz_entry(std::span<const std::byte> input) { (void)entry_is_taken(input); }

bool entry_is_taken(std::span<const std::byte> input) {
  std::optional<Input> made = decoded(input);
  auto* entry = made ? message_as<LogEntry>(made->message) : nullptr;
  if (entry == nullptr) return false;
  Target target(update_names()[(made->seal >> 3 & 15) % update_names().size()].kind,
                made->seal < 128 ? kElements : kMoreElements);
  const UpdateCodec* codec = target.codecs.of(entry->codec);
  const LogHead before = target.slice.log().head();
  if ((made->seal & 1) != 0) {
    entry->previous = before.hash;
    entry->head.length = before.length + 1;
    entry->head.weight = before.weight + entry->counted.size();
    entry->part = 0, entry->parts = 1;
  }
  if ((made->seal & 2) != 0) entry->head.hash = entry_hash(*entry, xxh3_128(made->payload.span()));
  if (codec == nullptr || !PartBuffer::fits(entry->part, entry->parts, made->payload.size,
                                            codec->bytes_max(UpdateRole::kEntry, target.elements))) {
    return false;
  }
  target.slice.receive(peer(3), *entry, made->payload);
  target.worker.run_completions();
  const UpdateLog& log = target.slice.log();
  if (log.head() == before) return false;
  STARLING_CHECK(log.head() == entry->head && entry->previous == before.hash);
  STARLING_CHECK(log.head().length == before.length + 1 && log.head().weight == before.weight + entry->counted.size());
  STARLING_CHECK(log.head().hash == entry_hash(*entry, xxh3_128(made->payload.span())));
  STARLING_CHECK(codec->check(UpdateRole::kEntry, made->payload.span(), target.elements) == UpdateStatus::kOk);
  for (const CountedPayload& counted : entry->counted) {
    STARLING_CHECK(log.table().counting(counted.peer, counted.generation, counted.seq) == Counting::kCounted);
    STARLING_CHECK(!log.table().may_count(counted.peer, counted.generation, counted.seq));
  }
  return true;
}

void fuzz_state(std::span<const std::byte> input) {
  std::optional<Input> made = decoded(input);
  auto* state = made ? message_as<SliceState>(made->message) : nullptr;
  if (state == nullptr) return;
  Target target;
  const LogHead before = target.slice.log().head();
  if ((made->seal & 1) != 0) state->hashes.resize(1), state->block = 0;
  if ((made->seal & 2) != 0 && !state->hashes.empty()) state->hashes[state->block] = xxh3_128(made->payload.span());
  if ((made->seal & 4) != 0) state->head.weight += before.weight;
  (void)target.slice.receive(peer(3), *state, made->payload);
  const UpdateLog& log = target.slice.log();
  if (log.head() == before) {
    STARLING_CHECK(!target.slice.has_backlog() && log.table().rows().size() == 2);
    return;
  }
  STARLING_CHECK(log.head() == state->head && greater(log.head(), before));
  STARLING_CHECK(log.table().rows() == state->table && state->hashes.size() == 1);
  const Backlog backlog = target.slice.take_backlog();
  const std::vector<float>& values = backlog.adopted.value().values;
  STARLING_CHECK(std::memcmp(values.data(), made->payload.data, made->payload.size) == 0);
  STARLING_CHECK(values.size() == kElements &&
                 std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); }));
  // The next payload of each counts, and none before it.
  for (const CountedRow& row : log.table().rows()) {
    STARLING_CHECK(log.table().counting(row.peer, row.generation, row.newest) == Counting::kCounted);
    STARLING_CHECK(!log.table().may_count(row.peer, row.generation, row.newest));
  }
}

}  // namespace starling
