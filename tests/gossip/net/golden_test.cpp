// The bytes of protocol version 2, kept in tests/golden: what an older agent sent must still be read, and what this one
// sends must still be what the older one reads. STARLING_WRITE_GOLDEN=1 writes them anew, which is right only together
// with a new protocol version or fields that were appended; the bytes without them are then kept under another name.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/gossip/net/numbered_identity.h"
#include "tests/gossip/net/wire_samples.h"

namespace starling {
namespace {

namespace fs = std::filesystem;

fs::path file_of(const Sample& sample) { return fs::path(GOLDEN_DIR) / (sample.name + "-v2.bin"); }

// u32 size of the header, the header, the payload.
std::string to_file(const Sample& sample) {
  const std::vector<std::byte> header = encode(sample);
  const uint32_t size = static_cast<uint32_t>(header.size());
  std::string text(reinterpret_cast<const char*>(&size), sizeof size);
  text.append(reinterpret_cast<const char*>(header.data()), header.size());
  text.append(reinterpret_cast<const char*>(sample.payload.data()), sample.payload.size());
  return text;
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void expect_decodes(const std::string& golden, Channel channel, FrameHeader* header, Message* message) {
  ASSERT_GT(golden.size(), sizeof(uint32_t)) << "no golden file";
  uint32_t header_bytes = 0;
  std::memcpy(&header_bytes, golden.data(), sizeof header_bytes);
  ASSERT_LE(sizeof header_bytes + header_bytes, golden.size());
  const auto bytes = std::as_bytes(std::span(golden)).subspan(sizeof header_bytes);
  ASSERT_EQ(decode_frame(channel, bytes.first(header_bytes), bytes.subspan(header_bytes), header, message),
            DecodeStatus::kOk);
}

TEST(Golden, FramesAreReadAndWrittenAsEver) {
  const bool write = std::getenv("STARLING_WRITE_GOLDEN") != nullptr;
  for (const Sample& sample : wire_samples()) {
    SCOPED_TRACE(sample.name);
    if (write) std::ofstream(file_of(sample), std::ios::binary) << to_file(sample);
    const std::string golden = read_file(file_of(sample));
    EXPECT_TRUE(golden == to_file(sample)) << "this version writes other bytes";
    FrameHeader header;
    Message message;
    ASSERT_NO_FATAL_FAILURE(expect_decodes(golden, channel_of(sample.message), &header, &message));
    EXPECT_TRUE(same(header, sample_header()));
    EXPECT_TRUE(same(message, sample.message));
  }
}

void forget_sealed(std::vector<PeerRecord>& records) {
  std::erase_if(records, [](const PeerRecord& record) { return !record.sealed.empty(); });
}

// As programs sent it before records were signed.
Message sample_of(const std::string& name) {
  for (Sample& sample : wire_samples()) {
    if (sample.name != name) continue;
    Message& message = sample.message;
    for (Updates* updates : {message_as<Gossip>(message) ? &message_as<Gossip>(message)->updates : nullptr,
                             message_as<PingAck>(message) ? &message_as<PingAck>(message)->updates : nullptr}) {
      if (updates == nullptr) continue;
      forget_sealed(updates->alive);
      forget_sealed(updates->left);
    }
    if (auto* sync = message_as<Sync>(message)) forget_sealed(sync->records);
    if (auto* join = message_as<Join>(message)) join->record.sealed = join->signature = "";
    if (auto* reply = message_as<JoinReply>(message)) forget_sealed(reply->members);
    if (auto* reply = message_as<JoinReply>(message)) reply->signature = "";
    if (auto* refused = message_as<JoinRefused>(message)) refused->held->sealed = "";
    return message;
  }
  ADD_FAILURE() << name;
  return Message(Ping{});
}

void expect_reads(const std::string& file, const Message& expected) {
  FrameHeader header;
  Message message;
  const std::string golden = read_file(fs::path(GOLDEN_DIR) / file);
  ASSERT_NO_FATAL_FAILURE(expect_decodes(golden, channel_of(expected), &header, &message));
  EXPECT_TRUE(same(message, expected)) << file;
}

void forget_tests(PeerRecord& record) {
  record.meta.test_loss = -1;
  record.meta.held_out = false;
  record.meta.classes_hash = 0;
  record.meta.pause = Pause::kNone;
  record.meta.labels_hash = 0;
}

void forget_program(PeerRecord& record) {
  record.meta.program = record.meta.done = record.meta.failed = 0;
  record.meta.stop_after = 0;
  forget_tests(record);
}

Message join_without_reads() {
  Message join = sample_of("join");
  message_as<Join>(join)->reads = 0;
  forget_program(message_as<Join>(join)->record);
  return join;
}

// Of a program from before members signed their records.
TEST(Golden, RecordsAndSettingsWithoutSignaturesAreRead) {
  for (const std::string name : {"gossip", "sync", "join", "join_reply", "join_refused"}) {
    expect_reads(name + "-without-signed.bin", sample_of(name));
  }
}

// What is signed is what members of all versions check, so no byte of it may change.
TEST(Golden, SignaturesAreMadeAndTakenAsEver) {
  const fs::path path = fs::path(GOLDEN_DIR) / "signed.bin";
  const Identity self = identity_of(3), swarm = identity_of(1);
  const MemberKeys keys(self, swarm), other(identity_of(4), swarm);
  PeerRecord record = sample_record(2);
  record.id = self.id();
  std::string made = sign_settings(swarm, "task: digits\n");
  keys.seal(record);
  made += record.sealed;
  if (std::getenv("STARLING_WRITE_GOLDEN") != nullptr) std::ofstream(path, std::ios::binary) << made;
  EXPECT_TRUE(read_file(path) == made) << "this version signs other bytes";
  EXPECT_TRUE(other.is_genuine(record));
  EXPECT_TRUE(is_signed_settings(swarm.id(), "task: digits\n", made.substr(0, kProofBytes)));
}

// Of a program from before there were readers, and records named their program and exchanges.
TEST(Golden, JoinsAndSyncsOfProgramsWithoutReadersAreRead) {
  Message sync = sample_of("sync");
  message_as<Sync>(sync)->nonce = message_as<Sync>(sync)->page = message_as<Sync>(sync)->pages = 0;
  message_as<Sync>(sync)->revoked = 0;
  for (PeerRecord& record : message_as<Sync>(sync)->records) forget_program(record);
  expect_reads("join-without-reads.bin", join_without_reads());
  expect_reads("sync-without-pages.bin", sync);
}

// Of a program from before there were certified swarms.
TEST(Golden, SyncsWithoutRevocationsAreRead) {
  Message sync = sample_of("sync");
  message_as<Sync>(sync)->revoked = 0;
  expect_reads("sync-without-revoked.bin", sync);
}

// Of a program from before records had a projection.
TEST(Golden, RecordsWithoutAProjectionAreRead) {
  Message expected = join_without_reads();
  message_as<Join>(expected)->record.meta.projection.clear();
  message_as<Join>(expected)->revision = 0;
  expect_reads("join-without-projection.bin", expected);
}

// Of a program from before donors asked for a cookie.
TEST(Golden, RequestsForTheModelWithoutACookieAreRead) {
  Message request = sample_of("model_request"), block = sample_of("model_block_request");
  *message_as<ModelRequest>(request) = {2048};
  *message_as<ModelBlockRequest>(block) = {42, 3};
  expect_reads("model_request-without-cookie.bin", request);
  expect_reads("model_block_request-without-cookie.bin", block);
}

// Of a program from before requests for the model had a number that the answers repeat.
TEST(Golden, JoiningWithoutARevisionAndNumbersIsRead) {
  Message join = join_without_reads(), request = sample_of("model_request"), offer = sample_of("model_offer"),
          asked = sample_of("model_block_request"), block = sample_of("model_block"), gone = sample_of("model_gone");
  message_as<Join>(join)->revision = 0;
  message_as<ModelRequest>(request)->nonce = 0;
  message_as<ModelOffer>(offer)->nonce = 0;
  message_as<ModelBlockRequest>(asked)->nonce = 0;
  message_as<ModelBlock>(block)->nonce = 0;
  message_as<ModelGone>(gone)->nonce = 0;
  expect_reads("join-without-revision.bin", join);
  expect_reads("model_request-without-nonce.bin", request);
  expect_reads("model_offer-without-nonce.bin", offer);
  expect_reads("model_block_request-without-nonce.bin", asked);
  expect_reads("model_block-without-nonce.bin", block);
  expect_reads("model_gone-without-nonce.bin", gone);
}

// Of a program from before an identity in use twice was told.
TEST(Golden, AnswersWithoutAProofAndARecordAreRead) {
  Message ack = sample_of("ping_ack"), refused = sample_of("join_refused");
  message_as<PingAck>(ack)->proof.clear();
  Updates& updates = message_as<PingAck>(ack)->updates;
  for (std::vector<PeerRecord>* records : {&updates.alive, &updates.left}) {
    for (PeerRecord& record : *records) forget_tests(record);
  }
  message_as<JoinRefused>(refused)->held.reset();
  expect_reads("ping_ack-without-proof.bin", ack);
  expect_reads("join_refused-without-held.bin", refused);
}

// Of a program from before entries of the log had a plan.
TEST(Golden, EntriesWithoutAPlanAreRead) {
  LogEntry expected = sample_entry();
  expected.slice = 63;
  expected.plan.clear();
  expect_reads("log_entry-without-plan.bin", Message(expected));
}

// Of a program from before tables remembered what was counted before a step far beyond it.
TEST(Golden, TablesWithoutFarStepsAreRead) {
  SliceState expected = sample_state();
  expected.table[1].far = expected.table[1].before_far = expected.table[1].before_window = 0;
  expect_reads("slice_state-without-far.bin", Message(expected));
}

// Of programs from before proposals named a fragment, before they and the answers named a slot, before both said how
// long the steps take, and before proposals said whether their blocks go first.
TEST(Golden, ProposalsWithoutAFragmentASlotAndStepsAreRead) {
  Message propose = sample_of("propose"), accept = sample_of("accept");
  message_as<Propose>(propose)->blocks_first = false;
  expect_reads("propose-without-blocks-first.bin", propose);
  message_as<Propose>(propose)->steps_us = 0;
  expect_reads("propose-without-steps.bin", propose);
  message_as<Accept>(accept)->steps_us = 0;
  expect_reads("accept-without-steps.bin", accept);
  message_as<Propose>(propose)->slot = 0;
  expect_reads("propose-without-slot.bin", propose);
  message_as<Propose>(propose)->fragment = 0;
  expect_reads("propose-without-fragment.bin", propose);
  message_as<Accept>(accept)->slot = 0;
  expect_reads("accept-without-slot.bin", accept);
}

TEST(Golden, EveryFileHasItsSample) {
  std::vector<fs::path> known;
  for (const Sample& sample : wire_samples()) known.push_back(file_of(sample).filename());
  size_t files = 0;
  for (const auto& entry : fs::directory_iterator(GOLDEN_DIR)) {
    if (!entry.path().filename().string().ends_with("-v2.bin")) continue;
    ++files;
    EXPECT_NE(std::find(known.begin(), known.end(), entry.path().filename()), known.end()) << entry.path();
  }
  EXPECT_EQ(files, known.size());
}

}  // namespace
}  // namespace starling
