// One frame of every kind with every field set, and equality of decoded messages.
#pragma once

#include <cstring>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "gossip/limits.h"
#include "gossip/net/member_keys.h"
#include "gossip/net/message.h"
#include "gossip/net/wire.h"
#include "kernels/projection.h"

namespace starling {

// Structured bindings: a new field that is not compared here does not compile.
inline auto fields(const MemberMeta& m) {
  const auto& [role, phase, pause, round, steps, samples, mass, rate, loss, accuracy, distance, name, projection,
               program, done, failed, stop, test_loss, held_out, classes, labels, unsaved] = m;
  return std::tuple(role, phase, round, steps, samples, mass, rate, loss, accuracy, distance, name, projection, program,
                    done, failed, stop, test_loss, held_out, classes, pause, labels, unsaved);
}
inline auto fields(const PeerRecord& m) {
  const auto& [id, version, endpoint, meta, farewell, sealed] = m;
  return std::tuple(id, version, endpoint, fields(meta), farewell, sealed);
}
template <typename T>
auto all_fields(const std::vector<T>& items);
inline auto fields(const Suspicion& m) {
  const auto& [a, b, c] = m;
  return std::tuple(a, b, c);
}
inline auto fields(const DigestEntry& m) {
  const auto& [a, b, c] = m;
  return std::tuple(a, b, c);
}
template <typename T>
auto all_fields(const std::vector<T>& items) {
  std::vector<decltype(fields(items[0]))> all;
  for (const T& item : items) all.push_back(fields(item));
  return all;
}
inline auto fields(const Updates& m) {
  const auto& [alive, suspect, left] = m;
  return std::tuple(all_fields(alive), all_fields(suspect), all_fields(left));
}
inline auto fields(const Ping& m) {
  const auto& [a, b, c] = m;
  return std::tuple(a, b, fields(c));
}
inline auto fields(const PingAck& m) {
  const auto& [a, b, c, d] = m;
  return std::tuple(a, fields(b), c, d);
}
inline auto fields(const PingRequest& m) {
  const auto& [a, b, c] = m;
  return std::tuple(a, b, fields(c));
}
inline auto fields(const PingNack& m) {
  const auto& [a] = m;
  return std::tuple(a);
}
inline auto fields(const Gossip& m) {
  const auto& [a] = m;
  return std::tuple(fields(a));
}
inline auto fields(const Sync& m) {
  const auto& [digest, records, reply_wanted, nonce, page, pages, revoked] = m;
  return std::tuple(all_fields(digest), all_fields(records), reply_wanted, nonce, page, pages, revoked);
}
inline auto fields(const Revoked& m) {
  const auto& [a] = m;
  return std::tuple(a);
}
inline auto fields(const Join& m) {
  const auto& [a, b, c, d, e, f, g] = m;
  return std::tuple(fields(a), b, c, d, e, f, g);
}
inline auto fields(const JoinCookie& m) {
  const auto& [a, b] = m;
  return std::tuple(a, b);
}
inline auto fields(const JoinReply& m) {
  const auto& [a, b, c, d, e] = m;
  return std::tuple(a, all_fields(b), c, d, e);
}
inline auto fields(const JoinRefused& m) {
  const auto& [a, b, c, held] = m;
  return std::tuple(a, b, c, held ? std::optional(fields(*held)) : std::nullopt);
}
inline auto fields(const ModelRequest& m) {
  const auto& [a, b, c] = m;
  return std::tuple(a, b, c);
}
inline auto fields(const ModelOffer& m) {
  const auto& [a, b, c, d, e, f, g, h, i] = m;
  return std::tuple(a, b, c, d, e, f, g, h, i);
}
inline auto fields(const ModelBlockRequest& m) {
  const auto& [a, b, c, d] = m;
  return std::tuple(a, b, c, d);
}
inline auto fields(const ModelBlock& m) {
  const auto& [a, b, c] = m;
  return std::tuple(a, b, c);
}
inline auto fields(const ModelGone& m) {
  const auto& [a, b] = m;
  return std::tuple(a, b);
}
inline auto fields(const Propose& m) {
  const auto& [a, b, c, d, e, f, g, h, i, j, k] = m;
  return std::tuple(a, b, c, d, e, f, g, h, i, j, k);
}
inline auto fields(const Accept& m) {
  const auto& [a, b, c, d, e, f, g, h] = m;
  return std::tuple(a, b, c, d, e, f, g, h);
}
inline auto fields(const Busy& m) {
  const auto& [a, b] = m;
  return std::tuple(a, b);
}
inline auto fields(const BlockPayload& m) {
  const auto& [a, b, c] = m;
  return std::tuple(a, b, c);
}
inline auto fields(const Credit& m) {
  const auto& [a, b] = m;
  return std::tuple(a, b);
}
inline auto fields(const Have& m) {
  const auto& [a, b, c] = m;
  return std::tuple(a, b, c);
}
inline auto fields(const Commit& m) {
  const auto& [a, b, c] = m;
  return std::tuple(a, b, c);
}
inline auto fields(const Abort& m) {
  const auto& [a] = m;
  return std::tuple(a);
}
inline auto fields(const CommitAck& m) {
  const auto& [a] = m;
  return std::tuple(a);
}
inline auto fields(const Query& m) {
  const auto& [a] = m;
  return std::tuple(a);
}
inline auto fields(const Missing& m) {
  const auto& [a, b] = m;
  return std::tuple(a, b);
}
inline auto fields(const RoundBlock& m) {
  const auto& [a, b, c, d, e, f] = m;
  return std::tuple(a, b, c, d, e, f);
}
inline auto fields(const RoundCredit& m) {
  const auto& [a, b, c, d] = m;
  return std::tuple(a, b, c, d);
}
inline auto fields(const LogHead& m) {
  const auto& [a, b, c] = m;
  return std::tuple(a, b, c);
}
inline auto fields(const Contribution& m) {
  const auto& [group, round, slice, seq, length, head, mass, codec, part, parts, audit] = m;
  return std::tuple(group, round, slice, seq, length, fields(head), mass, codec, part, parts, audit);
}
inline auto fields(const CountedPayload& m) {
  const auto& [a, b, c, d, e] = m;
  return std::tuple(a, b, c, d, e);
}
inline auto fields(const LogEntry& m) {
  const auto& [group, round, slice, head, previous, divisor, counted, codec, part, parts, plan] = m;
  return std::tuple(group, round, slice, fields(head), previous, divisor, all_fields(counted), codec, part, parts,
                    plan);
}
inline auto fields(const UpdateBundle& m) {
  const auto& [contributions, entries, sizes] = m;
  return std::tuple(all_fields(contributions), all_fields(entries), sizes);
}
inline auto fields(const LogPull& m) {
  const auto& [a, b, c, d, e, f] = m;
  return std::tuple(a, fields(b), c, d, e, f);
}
inline auto fields(const CountedRow& m) {
  const auto& [a, b, c, d, e, f, g, h] = m;
  return std::tuple(a, b, c, d, e, f, g, h);
}
inline auto fields(const RecentEntry& m) {
  const auto& [a, b, c] = m;
  return std::tuple(a, b, c);
}
inline auto fields(const SliceState& m) {
  const auto& [slice, head, table, recent, hashes, block] = m;
  return std::tuple(slice, fields(head), all_fields(table), all_fields(recent), hashes, block);
}
inline auto fields(const SketchTable& m) {
  const auto& [a, b, c, d, e, f] = m;
  return std::tuple(a, b, c, d, e, f);
}
inline auto fields(const SketchRequest& m) {
  const auto& [a, b, c, d, e] = m;
  return std::tuple(a, b, c, d, e);
}
inline auto fields(const FrameHeader& m) {
  const auto& [swarm, sender, generation, reply_to] = m;
  return std::tuple(swarm, sender, generation, reply_to);
}

inline bool same(const FrameHeader& a, const FrameHeader& b) { return fields(a) == fields(b); }
inline bool same(const Message& a, const Message& b) {
  return visit_kind(
      [&b]<typename Kind>(const Kind& message) {
        const Kind* other = message_as<Kind>(b);
        return other && fields(message) == fields(*other);
      },
      a);
}

inline PeerId sample_id(uint8_t n) {
  PeerId id;
  for (size_t i = 0; i < id.bytes.size(); ++i) id.bytes[i] = static_cast<uint8_t>(n + 5 * i);
  return id;
}

inline PeerRecord sample_record(uint8_t n) {
  MemberMeta meta;
  meta.role = n % 2 ? Role::kBootstrap : Role::kAgent;
  meta.phase = static_cast<Phase>(n % 5);
  meta.round = 1000u + n;
  meta.steps = 8 * meta.round;
  meta.samples = 1ull << (32 + n % 16);
  meta.mass = 0.125 * (n + 1);
  meta.steps_per_s = 12.5f;
  meta.loss = 2.25f;
  meta.accuracy = 0.75f;
  meta.distance = 0.0625f;
  meta.name = "peer " + std::to_string(n);
  meta.program = 0x000300u + n;
  meta.done = 100u * n;
  meta.failed = n;
  meta.stop_after = n;
  meta.test_loss = 1.5f;
  meta.held_out = n % 2 == 1;
  meta.classes_hash = 0x9e3779b97f4a7c15u * n;
  meta.pause = static_cast<Pause>(n % 3);
  meta.labels_hash = 0xd1b54a32d192ed03u * n;
  if (n % 2 == 0) {
    for (size_t i = 0; i < kProjectionBuckets; ++i) {
      meta.projection.push_back(static_cast<float>(n) - 0.25f * static_cast<float>(i));
    }
  }
  return {sample_id(n), {0x1234567890ull + n, 7u + n}, {"10.0.0." + std::to_string(n), 7400}, meta};
}

// No key signed it: nothing here checks that.
inline PeerRecord sealed_record(uint8_t n, bool farewell = false) {
  PeerRecord record = sample_record(n);
  record.farewell = farewell;
  record.sealed = std::string(kProofBytes, 's') + pack_record(record);
  return record;
}

inline Updates sample_updates() {
  return {{sample_record(21), sample_record(22), sealed_record(23)},
          {{sample_id(31), {99, 3}, sample_id(32)}},
          {sample_record(41), sealed_record(42, true)}};
}

inline FrameHeader sample_header() { return {0x0123456789abcdef, sample_id(1), 77, {"fd00::17", 7400}}; }

inline Digest16 sample_digest(uint8_t n) {
  Digest16 digest;
  for (size_t i = 0; i < digest.size(); ++i) digest[i] = static_cast<uint8_t>(n + 3 * i);
  return digest;
}
inline LogHead sample_head() { return {1000, 7900, sample_digest(1)}; }

inline LogEntry sample_entry() {
  return {0xabcdef0123456789,
          301,
          0,
          sample_head(),
          sample_digest(2),
          8.5,
          {{sample_id(1), 77, 12, 1, 2.5f}, {sample_id(2), 78, 13, 0.25f, 40}},
          4,
          1,
          3,
          {7, 8, 9}};
}

inline UpdateBundle sample_bundle() {
  const Contribution one{0xabcdef0123456789, 301, 62, 12, 998, sample_head(), 0.75, 3, 0, 1, sample_digest(3)};
  Contribution other = one;
  other.slice = 58;
  LogEntry entry = sample_entry();
  entry.part = 0;
  entry.parts = 1;
  return {{one, other}, {entry}, {50, 20, 30}};
}

inline SliceState sample_state() {
  return {5,
          sample_head(),
          {{sample_id(1), 77, 12, 0x401, 1000}, {sample_id(2), 78, 900, ~0ull, 999, 700, 12, 0x402}},
          {{sample_digest(2), 1.5f, 3}, {sample_digest(1), 1.25f, 2}},
          {sample_digest(7), sample_digest(8), sample_digest(9)},
          2};
}

struct Sample {
  std::string name;
  Message message;
  std::vector<std::byte> payload;
};

inline std::vector<Sample> wire_samples() {
  const ExchangeId ours{sample_id(1), 77, 5}, theirs{sample_id(2), 78, 6};
  const std::string settings = "task: digits\nexchange: pairwise\n", signature(kProofBytes, 'w');
  std::vector<std::byte> payload(100);
  for (size_t i = 0; i < payload.size(); ++i) payload[i] = std::byte(3 * i);
  ModelOffer offer{42, 10, 80, 5'000'000, 1 << 20, {}, 2, {}, 80};
  for (size_t i = 0; i < offer.root.size(); ++i) offer.root[i] = static_cast<uint8_t>(200 + i);
  for (uint8_t i = 0; i < 3; ++i) offer.hashes.push_back({i, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15});
  Sync sync{{}, {sample_record(51), sample_record(52), sealed_record(54)}, true, 86, 2, 5, 88};
  for (uint8_t i = 0; i < 4; ++i) sync.digest.push_back({sample_id(60 + i), {1000u + i, 5u + i}, i});
  return {
      {"ping", Ping{11, sample_id(2), sample_updates()}, {}},
      {"ping_ack", PingAck{11, sample_updates(), std::vector<uint8_t>(64, 9)}, {}},
      {"timed_ping_ack", PingAck{11, sample_updates(), std::vector<uint8_t>(64, 9), 1'700'000'000}, {}},
      {"ping_request", PingRequest{12, sample_id(3), sample_updates()}, {}},
      {"ping_nack", PingNack{12}, {}},
      {"gossip", Gossip{sample_updates()}, {}},
      {"sync", sync, {}},
      {"revoked", Revoked{std::string(2 * kRevocationBytes, '\7')}, {}},
      {"join", Join{sealed_record(1), settings, 71, 74, 7, 87, signature}, {}},
      {"join_reply",
       JoinReply{
           settings, {sample_record(2), sample_record(3), sealed_record(5)}, "beside it: another\n", 72, signature},
       {}},
      {"join_refused", JoinRefused{"codec: yours is fp32,\n\tours is modulo8\n", settings, 73, sealed_record(4)}, {}},
      {"model_request", ModelRequest{2048, 77, 79}, {}},
      {"model_offer", offer, {}},
      {"model_block_request", ModelBlockRequest{42, 3, 78, 81}, {}},
      {"model_block", ModelBlock{42, 3, 82}, payload},
      {"model_gone", ModelGone{42, 83}, {}},
      {"join_cookie", JoinCookie{75, 76}, {}},
      {"propose", Propose{ours, 0.5, 1.5, 10, 250, 64, 31, 3, 85, 41'000, true}, {}},
      {"accept", Accept{theirs, 0.25, 2.5, 12, 65, 32, 93, 160'000}, {}},
      {"busy", Busy{theirs, 120}, {}},
      {"block_payload", BlockPayload{theirs, 9, 1}, payload},
      {"credit", Credit{theirs, 128}, {}},
      {"have", Have{theirs, {0xff, 0x81, 0x03}, 0.5}, {}},
      {"commit", Commit{ours, {0x7f, 0x01}, 0.25}, {}},
      {"abort", Abort{theirs}, {}},
      {"commit_ack", CommitAck{theirs}, {}},
      {"query", Query{theirs}, {}},
      {"missing", Missing{theirs, {0x06, 0x10}}, {}},
      {"round_block", RoundBlock{0xabcdef0123456789, 300, 1, 17, 0.75, 0x1234}, payload},
      {"round_credit", RoundCredit{0, 301, 0, 99}, {}},
      {"contribution",
       Contribution{0xabcdef0123456789, 301, 63, 12, 998, sample_head(), 0.75, 3, 2, 4, sample_digest(3)}, payload},
      {"log_entry", sample_entry(), payload},
      {"log_pull", LogPull{5, sample_head(), sample_digest(4), {0xff, 0x01}, 0xabcdef0123456789, 302}, {}},
      {"slice_state", sample_state(), payload},
      {"sketch_table", SketchTable{0xabcdef0123456789, 301, 63, 0.75, 2, 4}, payload},
      {"sketch_request", SketchRequest{0xabcdef0123456789, 302, 5, 1, 3}, payload},
      {"update_bundle", sample_bundle(), payload},
  };
}

inline std::vector<std::byte> encode(const Sample& sample) {
  return encode_frame_header(sample_header(), sample.message, sample.payload);
}

}  // namespace starling
