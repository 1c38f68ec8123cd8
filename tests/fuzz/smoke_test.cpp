// The fuzz targets for a second, from good inputs with random changes. A failure names its rng seed.
#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "compression/update_sketch.h"
#include "gossip/net/member_keys.h"
#include "gossip/net/ticket.h"
#include "gossip/rng.h"
#include "tests/agent/data/archives.h"
#include "tests/agent/data/image_files.h"
#include "tests/fuzz/targets.h"
#include "tests/gossip/net/wire_samples.h"
#include "tests/support/seeds.h"

namespace starling {
namespace {

using Bytes = std::vector<std::byte>;

void change(Bytes& input, Rng& rng) {
  const uint32_t changes = rng.below(6);
  for (uint32_t i = 0; i < changes && !input.empty(); ++i) {
    const size_t at = rng.below(static_cast<uint32_t>(input.size()));
    switch (rng.below(5)) {
      case 0: input[at] ^= std::byte(1 << rng.below(8)); break;
      case 1: input[at] = std::byte(rng.next_u64()); break;
      case 2: input.resize(at); break;
      case 3: input.insert(input.begin() + static_cast<ptrdiff_t>(at), std::byte(rng.next_u64())); break;
      default: input[at] = rng.chance(0.5) ? std::byte{} : std::byte{0xff}; break;
    }
  }
}

void drive(void (*target)(std::span<const std::byte>), const std::vector<Bytes>& corpus, int rounds) {
  for (uint64_t rng_seed = 1; rng_seed <= seed_count(4); ++rng_seed) {
    SCOPED_TRACE(rng_seed);
    Rng rng(rng_seed);
    target({});
    for (int i = 0; i < rounds; ++i) {
      Bytes input = corpus[rng.below(static_cast<uint32_t>(corpus.size()))];
      change(input, rng);
      target(input);
    }
  }
}

TEST(FuzzSmoke, Wire) {
  std::vector<Bytes> corpus;
  for (const Sample& sample : wire_samples()) {
    const Bytes header = encode(sample);
    const bool bulk = channel_of(sample.message) == Channel::kBulk;
    Bytes plain = {bulk ? std::byte{1} : std::byte{0}, std::byte(sample.payload.size())};
    Bytes seal = {plain[0] | std::byte{2}, plain[1]};
    plain.insert(plain.end(), header.begin(), header.end());
    seal.insert(seal.end(), header.begin() + 24, header.end());
    corpus.push_back(plain);
    corpus.push_back(seal);
  }
  drive(fuzz_wire, corpus, 20'000);
}

TEST(FuzzSmoke, Codec) {
  std::vector<Bytes> corpus;
  Rng rng(1);
  for (size_t number = 0; number < codec_names().size(); ++number) {
    const auto codec = make_codec(codec_names()[number].kind, MemorySpace::kHost);
    for (const size_t count : {size_t{1}, size_t{2}, size_t{33}, size_t{256}}) {
      std::vector<float> x(count);
      for (float& value : x) value = static_cast<float>(rng.below(2001)) / 500 - 2;
      Bytes payload(codec->payload_bytes_max(count));
      payload.resize(codec->encode({x.data(), count, MemorySpace::kHost}, {}, payload).value());
      ASSERT_EQ(codec->check(payload, count), PayloadStatus::kOk);
      payload.insert(payload.begin(), {std::byte(number), std::byte(count - 1)});
      corpus.push_back(payload);
    }
  }
  drive(fuzz_codec, corpus, 20'000);
}

// The samples, and both as the log of the target expects them, with and without seals.
std::vector<Bytes> log_corpus(const Message& as_sampled, const Message& as_expected, const Bytes& payload) {
  std::vector<Bytes> corpus;
  for (const Message& message : {as_sampled, as_expected}) {
    const Bytes header = encode({"", message, payload});
    for (uint8_t seal = 0; seal < 8; ++seal) {
      const size_t size = header.size() - 24;
      Bytes input = {std::byte{seal}, std::byte(size % 256), std::byte(size / 256)};
      input.insert(input.end(), header.begin() + 24, header.end());
      input.insert(input.end(), payload.begin(), payload.end());
      corpus.push_back(input);
    }
  }
  return corpus;
}

Bytes three_floats(UpdateRole role) {
  const auto exact = make_update_codec({});
  Bytes payload(exact->bytes_max(role, 3));
  payload.resize(exact->encode(role, std::vector<float>{1, -2, 3}, {}, payload).value());
  return payload;
}

// An entry of every codec, of three elements and of 700, as fuzz_entry() makes the log's own.
TEST(FuzzSmoke, Entry) {
  std::vector<Bytes> corpus;
  Rng rng(1);
  for (size_t number = 0; number < update_names().size(); ++number) {
    for (const size_t count : {size_t{3}, size_t{700}}) {
      const UpdateKind kind = update_names()[number].kind;
      const auto codec = make_update_codec({.kind = kind, .density = 0.5, .reply = 1});
      std::vector<float> x(count);
      for (float& value : x) value = static_cast<float>(rng.below(2001)) - 1000;
      Bytes payload(codec->bytes_max(UpdateRole::kEntry, count));
      payload.resize(codec->encode(UpdateRole::kEntry, x, {}, payload).value());
      LogEntry entry = sample_entry();
      entry.codec = static_cast<uint8_t>(kind);
      const std::vector<Bytes> made = log_corpus(sample_entry(), entry, payload);
      for (Bytes input : made) {
        input[0] |= std::byte(number << 3 | (count == 3 ? 0 : 128));
        corpus.push_back(input);
      }
      EXPECT_TRUE(entry_is_taken(corpus.back())) << update_name(kind) << " of " << count;
    }
  }
  drive(fuzz_entry, corpus, 20'000);
}

TEST(FuzzSmoke, State) {
  drive(fuzz_state, log_corpus(sample_state(), sample_state(), three_floats(UpdateRole::kContribution)), 20'000);
}

TEST(FuzzSmoke, Update) {
  std::vector<Bytes> corpus;
  Rng rng(1);
  const auto floats = [&](size_t count) {
    std::vector<float> x(count);
    for (float& value : x) value = static_cast<float>(rng.below(2001)) - 1000;
    return x;
  };
  const auto add = [&](size_t kind, const UpdateOptions& options, size_t variant, size_t count, size_t number) {
    const auto codec = make_update_codec(options);
    for (const UpdateRole role : {UpdateRole::kContribution, UpdateRole::kEntry}) {
      Bytes payload(codec->bytes_max(role, count));
      payload.resize(codec->encode(role, floats(count), {}, payload).value());
      ASSERT_EQ(codec->check(role, payload, count), UpdateStatus::kOk);
      const Bytes front = {std::byte(kind), std::byte(variant << 2 | (role == UpdateRole::kEntry)),
                           std::byte(number % 256), std::byte(number / 256)};
      payload.insert(payload.begin(), front.begin(), front.end());
      corpus.push_back(payload);
    }
  };
  for (size_t kind = 0; kind < update_names().size(); ++kind) {
    const UpdateKind update = update_names()[kind].kind;
    const auto codec = make_update_codec({.kind = update, .density = 0.1});
    // As update_fuzz.cpp makes them: with coded indices, and dgc while it warms up.
    if (codec->residual().unsent) add(kind, {.kind = update, .density = 0.002}, 0, 66000, 60000 + 66000 - 65536);
    if (update == UpdateKind::kDgc) add(kind, {.kind = update, .density = 0.1, .warmup = 8}, 1, 300, 300);
    for (size_t count : {size_t{0}, size_t{1}, size_t{40}, size_t{300}}) {
      add(kind, {.kind = update, .density = 0.1}, 0, count, count);
      if (codec->tables() == nullptr) continue;
      const std::vector<float> x = floats(count);
      Bytes table(codec->tables()->bytes(count));
      ASSERT_TRUE(codec->tables()->encode(x, {}, table));
      const SketchTerm terms[] = {{1, table}};
      Bytes request = codec->tables()->request(terms, count, 1);
      for (Bytes* bytes : {&table, &request}) {
        const Bytes front = {std::byte(kind), std::byte(bytes == &table ? 2 : 3), std::byte(count % 256),
                             std::byte(count / 256)};
        bytes->insert(bytes->begin(), front.begin(), front.end());
        corpus.push_back(*bytes);
      }
    }
  }
  drive(fuzz_update, corpus, 20'000);
}

TEST(FuzzSmoke, Endpoint) {
  std::vector<Bytes> corpus;
  const std::string id(64, 'a');
  for (const std::string_view text :
       {std::string_view("127.0.0.1:7400"), std::string_view("[::1]:7400"), std::string_view("[fe80::1%eth0]:1"),
        std::string_view("node-3.lab:65535"), std::string_view("\xe4\xba\xac\xe9\x83\xbd"), std::string_view(id)}) {
    const auto bytes = std::as_bytes(std::span(text));
    corpus.emplace_back(bytes.begin(), bytes.end());
  }
  drive(fuzz_endpoint, corpus, 20'000);
}

TEST(FuzzSmoke, Ticket) {
  Ticket ticket{{"10.0.0.5", 7400}, PeerId{}, KeySeed{7}};
  std::vector<std::string> texts = {ticket.to_string()};
  ticket.seed = {};
  ticket.admission = admit(Identity(KeySeed{1}), {});
  texts.push_back(ticket.to_string());
  ticket.admission->identity = KeySeed{2};
  texts.push_back(ticket.to_string());
  std::vector<Bytes> corpus;
  for (const std::string& text : texts) {
    const auto bytes = std::as_bytes(std::span(text));
    corpus.emplace_back(bytes.begin(), bytes.end());
  }
  drive(fuzz_ticket, corpus, 20'000);
}

TEST(FuzzSmoke, Proof) {
  const Identity swarm(KeySeed{1}), member(KeySeed{3});
  const std::string proof = MemberKeys(member, swarm).proof_for(Identity(KeySeed{2}).id());
  const auto bytes = std::as_bytes(std::span(proof));
  drive(fuzz_proof, {{bytes.begin(), bytes.end()}}, 500);
}

TEST(FuzzSmoke, Record) {
  const Identity self(KeySeed{2});
  const MemberKeys keys(self, Identity(KeySeed{1}));
  std::vector<Bytes> corpus;
  for (const bool farewell : {false, true}) {
    PeerRecord record = sample_record(4);
    record.id = self.id();
    record.farewell = farewell;
    keys.seal(record);
    const auto bytes = std::as_bytes(std::span(record.sealed));
    corpus.emplace_back(bytes.begin(), bytes.end());
  }
  // A whole record, and behind it a damaged rest.
  corpus.emplace_back(kProofBytes, std::byte{1});
  for (const int byte : {0x13, 0x07, 0x00, 0x10, 0x10, 0x11, 0x10, 0x10, 0x10, 0x10,
                         0x10, 0x10, 0x0a, 0x00, 0x00, 0x00, 0x10, 0x0a, 0x00, 0x00}) {
    corpus.back().push_back(std::byte(byte));
  }
  drive(fuzz_record, corpus, 5'000);
}

TEST(FuzzSmoke, Revocation) {
  const Identity swarm(KeySeed{1});
  std::string two;
  for (uint8_t i = 2; i < 4; ++i) two += sign_revocation(swarm, Identity(KeySeed{i}).id(), i);
  const auto bytes = std::as_bytes(std::span(two));
  drive(fuzz_revocation, {{bytes.begin(), bytes.end()}}, 500);
}

// A sound file of each format.
TEST(FuzzSmoke, Data) {
  const auto pixels = [](size_t count) { return random_bytes(count, 1); };
  const std::vector<ByteVector> files = {
      tar_of({{"b/readme.html", {1}}, {"b/data_batch_2.bin", cifar_records({7})}}),
      zip_of({{"x.npy", npy_of("|u1", "3, 2, 2", pixels(12))}, {"y.npy", npy_of("<i4", "3,", ByteVector(12))}}),
      cifar_pickle_of({3}, pixels(3072)),
      joined(idx_header({2, 3, 5}), pixels(30)),
      png_of(pixels(24), PNG_FORMAT_GRAY),
      jpeg_of(pixels(72), 3)};
  std::vector<Bytes> corpus;
  for (size_t i = 0; i < files.size(); ++i) {
    const auto bytes = std::as_bytes(std::span(files[i]));
    corpus.emplace_back(1, std::byte(std::min<size_t>(i, 4)));
    corpus.back().insert(corpus.back().end(), bytes.begin(), bytes.end());
    EXPECT_TRUE(data_is_taken(corpus.back())) << i;
  }
  drive(fuzz_data, corpus, 2'000);
}

}  // namespace
}  // namespace starling
