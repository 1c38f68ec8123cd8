// What an agent that shares updates saves of its part of the swarm, to the bit, and what of it another process takes.
#include "agent/share/update_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "agent/state/file_keeper.h"
#include "agent/train/quadratic_trainer.h"
#include "gossip/clock.h"
#include "gossip/rng.h"
#include "tests/agent/state/planned_file_ops.h"
#include "tests/support/fake_clock.h"

namespace starling {
namespace {

constexpr size_t kElements = 70'000;  // two slices
constexpr uint64_t kSwarmId = 77, kGeneration = 5;

ExchangeConfig diloco() {
  ExchangeConfig exchange;
  exchange.kind = ExchangeKind::kGroup;
  exchange.source = SourceKind::kUpdates;
  exchange.outer_momentum = 0.9;
  exchange.outer_rate = 0.7;
  return exchange;
}

PeerId id_of(uint8_t number) {
  PeerId id;
  id.bytes[0] = number;
  return id;
}

// Bit patterns of finite floats, zeros of both signs and denormals among them.
void fill(std::span<float> values, uint64_t seed) {
  Rng rng(seed);
  for (float& value : values) {
    const auto bits = static_cast<uint32_t>(rng.next_u64());
    std::memcpy(&value, &bits, sizeof value);
    if (!std::isfinite(value)) value = -0.0f;
  }
  values[0] = std::numeric_limits<float>::denorm_min();
}

template <typename Values>
std::vector<std::byte> bits_of(const Values& values) {
  const auto bytes = std::as_bytes(std::span(values.data(), values.size()));
  return {bytes.begin(), bytes.end()};
}

std::vector<SliceState> some_logs() {
  std::vector<SliceState> states;
  for (uint32_t slice = 0; slice < 2; ++slice) {
    SliceState state;
    state.slice = slice;
    state.head = {100 + slice, 300 + slice, {9, 8, static_cast<uint8_t>(slice)}};
    state.table = {{id_of(1), kGeneration, 12, 0x401, 90}, {id_of(2), 3, 900, ~0ull, 100, 700, 20, 0x402}};
    state.recent = {{{1, 2}, 1.5f, 3}, {state.head.hash, 1.25f, 2}};
    states.push_back(state);
  }
  return states;
}

// A process: its trainer, its model, and the replicas that a group would keep.
struct Process {
  explicit Process(const ExchangeConfig& exchange = diloco(), size_t elements = kElements)
      : trainer({.dimension = elements}, 1, 2, clock), model(trainer, exchange) {}

  // As a group does it: from where the model says the logs stand.
  void make_replicas() {
    replicas.emplace(id_of(1), kGeneration, model.slices(), model.memory(), model.outer(), model.codecs());
    if (!model.restored().empty()) replicas->restore(model.restored());
    model.follow(*replicas);
  }
  // It has trained: R and m are anything, x is R again, and work of its own waits.
  void train() {
    make_replicas();
    replicas->restore(some_logs());
    fill(model.memory().params, 3);
    if (!model.memory().momentum.empty()) fill(model.memory().momentum, 4);
    fill(model.memory().accumulator, 5);
    model.replica_to_trainer();
  }
  std::vector<std::byte> params() { return bits_of(std::span(trainer.params().data, trainer.params().count)); }

  FakeClock clock;
  QuadraticTrainer trainer;
  UpdateModel model;
  std::optional<UpdateReplicas> replicas;
};

TEST(UpdateModel, GivesBackEveryBitOfRAndMAndWhereTheLogsStand) {
  Process one, next;
  one.train();
  ASSERT_EQ(one.model.slices().size(), 2u);
  const std::vector<std::byte> saved = one.model.save();
  std::copy_n(one.trainer.params().data, kElements, next.trainer.params().data);  // what the checkpoint itself does
  ASSERT_TRUE(next.model.load(saved));
  EXPECT_EQ(bits_of(next.model.memory().params), bits_of(one.model.memory().params));
  EXPECT_EQ(bits_of(next.model.memory().momentum), bits_of(one.model.memory().momentum));
  EXPECT_EQ(std::vector<float>(kElements),
            std::vector<float>(next.model.memory().accumulator.begin(), next.model.memory().accumulator.end()))
      << "what waits may have been counted since";
  next.make_replicas();
  for (size_t i = 0; i < 2; ++i) {
    const SliceReplica &ours = one.replicas->all()[i], &theirs = next.replicas->all()[i];
    EXPECT_EQ(theirs.head(), ours.head());
    EXPECT_EQ(theirs.head(), some_logs()[i].head);
    EXPECT_EQ(theirs.table().rows(), ours.table().rows());
    EXPECT_EQ(theirs.recent(), ours.recent());
  }
  EXPECT_EQ(next.model.save(), saved);
}

// What `torch.load` and a newcomer get of it are the checkpoint's params.
TEST(UpdateModel, TheParamsOfACheckpointAreR) {
  const Folder folder;
  Process one;
  one.train();
  FileKeeper keeper(folder.path(), kSwarmId, kGeneration, 3);
  ASSERT_TRUE(keeper.save({.round = 8, .steps = 400}, one.trainer, one.model.save(), false).ok());
  EXPECT_EQ(one.params(), bits_of(one.model.memory().params));
  const CheckpointStore store(folder.path() + "/checkpoints", 3);
  const auto found = store.load_newest(kSwarmId, [](const std::string&) {});
  ASSERT_TRUE(found);
  EXPECT_EQ(bits_of(found->content.params), bits_of(one.model.memory().params));

  Process next;
  Progress progress;
  std::vector<std::byte> memory;
  ASSERT_TRUE(FileKeeper(folder.path(), kSwarmId, kGeneration + 1, 3).restore(&progress, next.trainer, &memory));
  ASSERT_TRUE(next.model.load(memory));
  EXPECT_EQ(progress.steps, 400u);
  EXPECT_EQ(bits_of(next.model.memory().params), bits_of(one.model.memory().params));
  EXPECT_EQ(bits_of(next.model.memory().momentum), bits_of(one.model.memory().momentum));
}

TEST(UpdateModel, TakesNothingOfWhatDoesNotFit) {
  Process one;
  one.train();
  const std::vector<std::byte> saved = one.model.save();
  const auto refused = [&](const std::vector<std::byte>& bytes, Process& next) {
    const std::vector<std::byte> before = bits_of(next.model.memory().params);
    const bool taken = next.model.load(bytes);
    EXPECT_EQ(bits_of(next.model.memory().params), before);
    EXPECT_TRUE(next.model.restored().empty());
    for (const float value : next.model.memory().momentum) {
      if (value != 0) return false;
    }
    return !taken;
  };
  const auto at_r = [&](Process& next) {
    std::copy_n(one.trainer.params().data, kElements, next.trainer.params().data);
  };
  Process other_params;
  EXPECT_TRUE(refused(saved, other_params)) << "a log that stands elsewhere than the params";
  Process plain({.source = SourceKind::kUpdates, .kind = ExchangeKind::kGroup});
  plain.train();
  const std::vector<std::byte> without_momentum = plain.model.save();
  Process with_momentum;
  at_r(with_momentum);
  EXPECT_TRUE(refused(without_momentum, with_momentum)) << "an m that is missing";
  Process without({.source = SourceKind::kUpdates, .kind = ExchangeKind::kGroup});
  at_r(without);
  EXPECT_TRUE(refused(saved, without)) << "an m too many";
  Process damaged;
  at_r(damaged);
  for (const size_t size : {size_t{0}, size_t{3}, size_t{8}, size_t{40}, size_t{200}, saved.size() - 1}) {
    EXPECT_TRUE(refused({saved.begin(), saved.begin() + static_cast<std::ptrdiff_t>(size)}, damaged)) << size;
  }
  std::vector<std::byte> longer = saved, marked = saved, cut_otherwise = saved;
  longer.push_back({});
  marked[0] = std::byte{0x81};
  cut_otherwise[4] = std::byte{3};
  for (const auto& bytes : {longer, marked, cut_otherwise}) EXPECT_TRUE(refused(bytes, damaged));
  EXPECT_TRUE(damaged.model.load(saved));
}

// It keeps the replica: the log is never rolled back.
TEST(UpdateModel, ASickAgentTakesNothingFromItsCheckpoint) {
  Process one;
  one.train();
  const std::vector<std::byte> saved = one.model.save(), params = bits_of(one.model.memory().params);
  fill(one.model.memory().momentum, 9);
  const std::vector<std::byte> momentum = bits_of(one.model.memory().momentum);
  EXPECT_TRUE(one.model.load_rule(saved));
  EXPECT_EQ(bits_of(one.model.memory().momentum), momentum);
  EXPECT_EQ(bits_of(one.model.memory().params), params);
}

}  // namespace
}  // namespace starling
