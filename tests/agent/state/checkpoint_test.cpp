#include "agent/state/checkpoint.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "agent/state/checkpoint_format.h"
#include "gossip/net/hash.h"
#include "gossip/rng.h"
#include "tests/agent/state/planned_file_ops.h"

namespace starling {
namespace {

namespace fs = std::filesystem;

// Owns what a CheckpointContent borrows.
struct State {
  std::vector<float> params, momentum;
  std::vector<std::byte> trainer, codec;
  CheckpointMeta meta;

  CheckpointContent content() const { return {meta, params, momentum, trainer, codec}; }
};

State make_state(uint64_t rng_seed, size_t params) {
  Rng rng(rng_seed);
  State state;
  for (size_t i = 0; i < params; ++i) state.params.push_back(static_cast<float>(rng.uniform() - 0.5));
  for (size_t i = 0; i < params / 2; ++i) state.momentum.push_back(static_cast<float>(rng.uniform() - 0.5));
  for (int i = 0; i < 37; ++i) state.trainer.push_back(static_cast<std::byte>(rng.below(256)));
  for (int i = 0; i < 5; ++i) state.codec.push_back(static_cast<std::byte>(rng.below(256)));
  state.meta = {7, 10 * rng_seed, 100 * rng_seed, 6400 * rng_seed, 3};
  return state;
}

template <typename T>
std::vector<T> copy(std::span<const T> values) {
  return {values.begin(), values.end()};
}

void expect_equal(const CheckpointContent& loaded, const State& state) {
  EXPECT_EQ(loaded.meta, state.meta);
  EXPECT_EQ(copy(loaded.params), state.params);
  EXPECT_EQ(copy(loaded.momentum), state.momentum);
  EXPECT_EQ(copy(loaded.trainer_state), state.trainer);
  EXPECT_EQ(copy(loaded.codec_states), state.codec);
}

std::vector<char> read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_all(const std::string& path, const std::vector<char>& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

TEST(Checkpoint, HoldsWhatWasSaved) {
  const Folder folder;
  CheckpointStore store(folder.path(), 3);
  const State state = make_state(1, 1000);
  const SaveResult saved = store.save(state.content());
  ASSERT_TRUE(saved.ok()) << saved.error;
  struct stat info;
  ASSERT_EQ(::stat(saved.path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  const auto loaded = store.load_newest(7, {});
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->path, saved.path);
  expect_equal(loaded->content, state);
}

TEST(Checkpoint, HoldsEmptyParts) {
  const Folder folder;
  CheckpointStore store(folder.path(), 1);
  State state;
  ASSERT_TRUE(store.save(state.content()).ok());
  const auto loaded = store.load_newest(std::nullopt, {});
  ASSERT_TRUE(loaded);
  expect_equal(loaded->content, state);
  std::string problem;
  const auto served = open_model_file(loaded->path, &problem);
  ASSERT_TRUE(served) << problem;
  EXPECT_TRUE(served->hashes().empty());
}

TEST(Checkpoint, ServesItsParamsInHashedBlocks) {
  const Folder folder;
  CheckpointStore store(folder.path(), 3);
  const State state = make_state(2, kTransferBlockBytes / 4 * 2 + 300);
  const SaveResult saved = store.save(state.content());
  ASSERT_TRUE(saved.ok()) << saved.error;
  std::string problem;
  const std::shared_ptr<const ModelFile> model = open_model_file(saved.path, &problem);
  ASSERT_TRUE(model) << problem;
  fs::remove(saved.path);  // a donor may still be serving it when it is the fourth
  EXPECT_EQ(model->steps(), 200u);
  EXPECT_EQ(model->round(), 20u);
  EXPECT_NE(model->snapshot(), 0u);
  ASSERT_EQ(model->total_bytes(), state.params.size() * 4);
  ASSERT_EQ(model->hashes().size(), 3u);
  std::vector<std::byte> received;
  for (uint32_t i = 0; i < 3; ++i) {
    const SharedBytes block = model->block(i);
    EXPECT_EQ(block.size, i < 2 ? kTransferBlockBytes : 1200);
    EXPECT_EQ(xxh3_128(block.span()), model->hashes()[i]);
    received.insert(received.end(), block.data, block.data + block.size);
  }
  EXPECT_EQ(std::memcmp(received.data(), state.params.data(), received.size()), 0);
  EXPECT_EQ(model->root(), blake2b_256(std::as_bytes(std::span(model->hashes()))));
}

// Somebody copies an older file over it, cuts it short, or the disk is damaged.
TEST(Checkpoint, ServesNothingOfAFileThatWasChangedMeanwhile) {
  for (const bool cut : {true, false}) {
    const Folder folder;
    CheckpointStore store(folder.path(), 3);
    const SaveResult saved = store.save(make_state(2, kTransferBlockBytes / 4 * 2 + 300).content());
    std::string problem;
    const auto model = open_model_file(saved.path, &problem);
    ASSERT_TRUE(model) << problem;
    EXPECT_FALSE(model->block(1).empty());
    if (cut) {
      ASSERT_EQ(::truncate(saved.path.c_str(), 4096 + kTransferBlockBytes), 0);
    } else {
      std::fstream file(saved.path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(static_cast<std::streamoff>(4096 + kTransferBlockBytes + 10));
      file.put('x').put('y');
    }
    EXPECT_FALSE(model->block(0).empty());
    EXPECT_TRUE(model->block(1).empty());
  }
}

TEST(Checkpoint, MakesARemovedFolderAgain) {
  const Folder folder;
  CheckpointStore store(folder.path() + "/state/checkpoints", 3);
  ASSERT_TRUE(store.save(make_state(1, 100).content()).ok());
  fs::remove_all(folder.path() + "/state");
  const SaveResult again = store.save(make_state(2, 100).content());
  ASSERT_TRUE(again.ok()) << again.error;
  EXPECT_EQ(store.load_newest(7, {})->path, again.path);
}

TEST(Checkpoint, AnotherStateIsAnotherSnapshot) {
  const Folder folder;
  CheckpointStore store(folder.path(), 3);
  State state = make_state(1, 100);
  std::string problem;
  const auto first = read_checkpoint(store.save(state.content()).path, &problem);
  ++state.meta.round;  // the same params
  const auto second = read_checkpoint(store.save(state.content()).path, &problem);
  ASSERT_TRUE(first && second) << problem;
  EXPECT_NE(first->snapshot, second->snapshot);
}

TEST(Checkpoint, KeepsTheLastThree) {
  const Folder folder;
  CheckpointStore store(folder.path(), 3);
  // Falling step counts: the newest is the one written last, as after a restart with another swarm.
  for (uint64_t i = 9; i >= 1; --i) ASSERT_TRUE(store.save(make_state(i, 10).content()).ok());
  EXPECT_EQ(folder.files().size(), 3u);
  EXPECT_EQ(store.load_newest(7, {})->content.meta.steps, 100u);
  CheckpointStore reopened(folder.path(), 3);
  ASSERT_TRUE(reopened.save(make_state(20, 10).content()).ok());
  EXPECT_EQ(folder.files().size(), 3u);
  EXPECT_EQ(reopened.load_newest(7, {})->content.meta.steps, 2000u);
}

// An agent alone trains on its own data only, so what it learned from the others is in the last one made together.
TEST(Checkpoint, KeepsTheLastOneMadeTogetherWhileItsAgentIsAlone) {
  const Folder folder;
  const auto saved = [&](CheckpointStore& store, uint64_t number, bool alone) {
    State state = make_state(number, 10);
    state.meta.alone = alone;
    return store.save(state.content()).path;
  };
  CheckpointStore store(folder.path(), 2);
  saved(store, 1, false);
  const std::string together = saved(store, 2, false);
  for (uint64_t i = 3; i < 9; ++i) saved(store, i, true);
  EXPECT_TRUE(fs::exists(together));
  EXPECT_EQ(folder.files().size(), 3u) << "it, and the last two";
  CheckpointStore reopened(folder.path(), 2);
  saved(reopened, 9, true);
  EXPECT_TRUE(fs::exists(together)) << "after a restart too";
  EXPECT_EQ(reopened.load_newest(7, {})->content.meta.steps, 900u);
  EXPECT_TRUE(reopened.load_newest(7, {})->content.meta.alone);
  saved(reopened, 10, false);
  EXPECT_FALSE(fs::exists(together)) << "a newer one was made together";
  EXPECT_EQ(folder.files().size(), 2u);
}

TEST(Checkpoint, RefusesTheStateOfAnotherSwarm) {
  const Folder folder;
  CheckpointStore store(folder.path(), 3);
  ASSERT_TRUE(store.save(make_state(1, 10).content()).ok());
  State other = make_state(2, 10);
  other.meta.swarm_id = 8;
  ASSERT_TRUE(store.save(other.content()).ok());
  std::vector<std::string> skipped;
  const auto loaded = store.load_newest(7, [&](const std::string& line) { skipped.push_back(line); });
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->content.meta.steps, 100u);
  ASSERT_EQ(skipped.size(), 1u);
  EXPECT_NE(skipped[0].find("of another swarm (id 0000000000000008, this one is 0000000000000007)"), std::string::npos)
      << skipped[0];
  EXPECT_FALSE(store.load_newest(9, {}));
}

TEST(Checkpoint, RemovesNothingOfAnotherSwarm) {
  const Folder folder;
  CheckpointStore store(folder.path() + "/checkpoints", 2);
  State other = make_state(1, 10);
  other.meta.swarm_id = 8;
  std::vector<std::string> others;
  for (int i = 0; i < 2; ++i) others.push_back(store.save(other.content()).path);
  EXPECT_FALSE(holds_only_other_swarms(folder.path() + "/checkpoints", 8));
  EXPECT_TRUE(holds_only_other_swarms(folder.path() + "/checkpoints", 7));
  for (uint64_t i = 1; i <= 4; ++i) ASSERT_TRUE(store.save(make_state(i, 10).content()).ok());
  EXPECT_FALSE(holds_only_other_swarms(folder.path() + "/checkpoints", 7));
  for (const std::string& path : others) EXPECT_TRUE(fs::exists(path)) << path;
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path() + "/checkpoints"), {}), 4);
}

TEST(Checkpoint, ItsFolderIsTheOwnersAlone) {
  const Folder folder;
  const CheckpointStore store(folder.path() + "/state/checkpoints", 1);
  struct stat info;
  ASSERT_EQ(::stat((folder.path() + "/state/checkpoints").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  EXPECT_FALSE(holds_only_other_swarms(folder.path() + "/nowhere", 7));
}

TEST(Checkpoint, FallsBackFromDamagedFilesAndSaysSo) {
  const Folder folder;
  CheckpointStore store(folder.path(), 3);
  std::vector<std::string> paths;
  for (uint64_t i = 1; i <= 3; ++i) paths.push_back(store.save(make_state(i, 10).content()).path);
  std::vector<char> bytes = read_all(paths[2]);
  bytes[4100] ^= 1;
  write_all(paths[2], bytes);
  fs::resize_file(paths[1], 5);
  std::vector<std::string> skipped;
  const auto loaded = store.load_newest(7, [&](const std::string& line) { skipped.push_back(line); });
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->content.meta.steps, 100u);
  ASSERT_EQ(skipped.size(), 2u);
  EXPECT_NE(skipped[0].find(paths[2] + ": damaged: its checksum"), std::string::npos) << skipped[0];
  EXPECT_NE(skipped[1].find(paths[1] + ": cut short: 5 bytes"), std::string::npos) << skipped[1];
}

// As a command does beside an agent that writes and prunes.
TEST(Checkpoint, ReadingTheNewestChangesNothing) {
  const Folder folder;
  CheckpointStore store(folder.path(), 1);
  ASSERT_TRUE(store.save(make_state(1, 10).content()).ok());
  const std::string unfinished = folder.path() + "/checkpoint-00000002-step-200.ckpt.tmp";
  std::ofstream(unfinished) << "half";
  EXPECT_EQ(load_newest_checkpoint(folder.path(), 7, {})->content.meta.steps, 100u);
  EXPECT_TRUE(fs::exists(unfinished));
  EXPECT_FALSE(load_newest_checkpoint(folder.path() + "/none", 7, {}));
  EXPECT_FALSE(fs::exists(folder.path() + "/none"));
}

TEST(Checkpoint, ReadersFindAFileWhileOthersArePruned) {
  const Folder folder;
  CheckpointStore store(folder.path(), 1);
  const State state = make_state(1, 1000);
  ASSERT_TRUE(store.save(state.content()).ok());
  std::atomic<bool> enough = false;
  std::thread writer([&] {
    while (!enough) EXPECT_TRUE(store.save(state.content()).ok());
  });
  size_t damaged = 0;
  for (int i = 0; i < 200; ++i) {
    const auto loaded = load_newest_checkpoint(
        folder.path(), 7, [](const std::string& skipped) { ADD_FAILURE() << skipped; }, &damaged);
    ASSERT_TRUE(loaded) << i;
  }
  enough = true;
  writer.join();
  EXPECT_EQ(damaged, 0u);
}

TEST(Checkpoint, NoticesEveryFlippedBit) {
  const Folder folder;
  CheckpointStore store(folder.path(), 1);
  const std::string path = store.save(make_state(1, 16).content()).path;
  const std::vector<char> good = read_all(path);
  std::vector<char> bytes = good;
  std::string problem;
  int unnoticed = 0;
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    bytes[bit / 8] = static_cast<char>(good[bit / 8] ^ (1 << bit % 8));
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(bit / 8)).put(bytes[bit / 8]).flush();
    unnoticed += read_checkpoint(path, &problem).has_value();
    file.seekp(static_cast<std::streamoff>(bit / 8)).put(good[bit / 8]).flush();
  }
  EXPECT_EQ(unnoticed, 0);
  EXPECT_TRUE(read_checkpoint(path, &problem)) << problem;
}

TEST(Checkpoint, NoticesEveryTruncationAndGrowth) {
  const Folder folder;
  CheckpointStore store(folder.path(), 1);
  const std::string path = store.save(make_state(1, 5000).content()).path;
  const std::vector<char> good = read_all(path);
  std::vector<size_t> sizes = {0, 1, 95, 96, good.size() - 48, good.size() - 1, good.size() + 1, good.size() + 4096};
  for (size_t at = 4096; at < good.size(); at += 4096) sizes.insert(sizes.end(), {at - 1, at, at + 1});
  for (const size_t size : sizes) {
    std::vector<char> bytes = good;
    bytes.resize(size);
    write_all(path, bytes);
    std::string problem;
    EXPECT_FALSE(read_checkpoint(path, &problem)) << size;
    EXPECT_FALSE(problem.empty()) << size;
    EXPECT_FALSE(open_model_file(path, &problem)) << size;
    EXPECT_FALSE(read_checkpoint_meta(path)) << size;
  }
}

// A header that lies is caught before it is used, even when nobody checks the digest.
TEST(Checkpoint, SizesInTheHeaderAreNotTrusted) {
  const Folder folder;
  CheckpointStore store(folder.path(), 1);
  const std::string path = store.save(make_state(1, 100).content()).path;
  const std::vector<char> good = read_all(path);
  for (size_t field = 56; field < 96; field += 8) {
    for (const uint64_t value : {uint64_t{1}, uint64_t{1} << 20, uint64_t{1} << 62, ~uint64_t{0}}) {
      std::vector<char> bytes = good;
      uint64_t before;
      std::memcpy(&before, bytes.data() + field, 8);
      if (before == value) continue;  // one transfer block: 1 is the truth there
      std::memcpy(bytes.data() + field, &value, 8);
      write_all(path, bytes);
      std::string problem;
      EXPECT_FALSE(open_model_file(path, &problem)) << field << " " << value;
    }
  }
}

TEST(Checkpoint, AnotherVersionIsNamed) {
  const Folder folder;
  CheckpointStore store(folder.path(), 1);
  const std::string path = store.save(make_state(1, 100).content()).path;
  std::vector<char> bytes = read_all(path);
  bytes[8] = 2;
  write_all(path, bytes);
  std::string problem;
  EXPECT_FALSE(read_checkpoint(path, &problem));
  EXPECT_EQ(problem, "format version 2, this program reads 1");
}

// How many calls one save makes, and in what order.
TEST(Checkpoint, SyncsBeforeItRenames) {
  const Folder folder;
  Plan plan;
  CheckpointStore store(folder.path(), 1, std::make_unique<PlannedFileOps>(plan));
  ASSERT_TRUE(store.save(make_state(1, 100).content()).ok());
  ASSERT_TRUE(store.save(make_state(2, 100).content()).ok());
  EXPECT_EQ(plan.log, (std::vector<std::string>{"open", "write", "sync", "close", "rename", "sync_folder", "open",
                                                "write", "sync", "close", "rename", "sync_folder", "remove"}));
}

// Two good states, then a save that goes wrong at call `at`. Returns whether the plan reached that call.
bool survive(int at, int status, bool tear_writes) {
  const Folder folder;
  const State first = make_state(1, 300), second = make_state(2, 300), third = make_state(3, 300);
  {
    CheckpointStore store(folder.path(), 2);
    EXPECT_TRUE(store.save(first.content()).ok());
    EXPECT_TRUE(store.save(second.content()).ok());
  }
  Plan plan{.at = at, .status = status, .tear_writes = tear_writes};
  bool saved = false;
  {
    CheckpointStore store(folder.path(), 2, std::make_unique<PlannedFileOps>(plan));
    try {
      const SaveResult result = store.save(third.content());
      saved = result.ok();
      // An old file that cannot be removed stays a little longer.
      EXPECT_EQ(saved, plan.failed.empty() || plan.failed == "remove") << plan.failed << ": " << result.error;
      EXPECT_EQ(result.path.empty(), !saved);
      EXPECT_EQ(result.error.find(std::strerror(-status)) == std::string::npos, saved) << result.error;
    } catch (const Crash&) {
      EXPECT_EQ(status, 0);
    }
  }
  CheckpointStore after(folder.path(), 2);
  for (const std::string& name : folder.files()) EXPECT_FALSE(name.ends_with(".tmp")) << name;
  std::vector<std::string> skipped;
  const auto loaded = after.load_newest(7, [&](const std::string& line) { skipped.push_back(line); });
  EXPECT_TRUE(loaded) << "call " << at;
  if (!loaded) return plan.calls > at;
  EXPECT_TRUE(skipped.empty()) << skipped[0];
  const bool is_third = loaded->content.meta == third.meta;
  expect_equal(loaded->content, is_third ? third : second);
  EXPECT_TRUE(is_third || !saved);
  EXPECT_TRUE(after.save(make_state(4, 300).content()).ok());  // and life goes on
  EXPECT_EQ(after.load_newest(7, {})->content.meta.steps, 400u);
  return plan.calls > at;
}

TEST(Checkpoint, ACrashAtAnyCallLosesNothing) {
  for (const bool tear_writes : {false, true}) {
    int at = 0;
    while (survive(at, 0, tear_writes)) ++at;
    EXPECT_GT(at, 10);
  }
}

TEST(Checkpoint, AnErrorAtAnyCallLosesNothing) {
  for (const int status : {-ENOSPC, -EIO, -EROFS}) {
    int at = 0;
    while (survive(at, status, true)) ++at;
    EXPECT_GT(at, 10);
  }
}

TEST(Checkpoint, WantsTwiceItsSizeFree) {
  const Folder folder;
  Plan plan;
  CheckpointStore store(folder.path(), 2, std::make_unique<PlannedFileOps>(plan));
  const State state = make_state(1, 100000);
  plan.free_bytes = 1000000;  // it would fit once
  const SaveResult result = store.save(state.content());
  EXPECT_FALSE(result.ok());
  EXPECT_NE(result.error.find("1.0 MB free"), std::string::npos) << result.error;
  EXPECT_NE(result.error.find("--state"), std::string::npos) << result.error;
  EXPECT_TRUE(folder.files().empty());
  plan.free_bytes = 2000000;
  EXPECT_TRUE(store.save(state.content()).ok());
}

TEST(Checkpoint, AFullDiskIsBlamedOnlyWhereItIsFull) {
  const State state = make_state(1, 1000);
  for (const auto& [status, remedy] :
       {std::pair(-ENOSPC, "make room"), {-EDQUOT, "make room"}, {-EMFILE, "ulimit -n"}, {-EIO, "check the disk"}}) {
    const Folder folder;
    Plan plan;
    CheckpointStore store(folder.path(), 2, std::make_unique<PlannedFileOps>(plan));
    plan.at = plan.calls;
    plan.status = status;
    const SaveResult result = store.save(state.content());
    EXPECT_FALSE(result.ok());
    EXPECT_NE(result.error.find(remedy), std::string::npos) << result.error;
    EXPECT_EQ(result.error.find("make room") != std::string::npos, std::string(remedy) == "make room") << result.error;
  }
}

// The real disk refusing bytes in the middle of a file.
TEST(Checkpoint, AFileSizeLimitLeavesTheOldOnes) {
  const Folder folder;
  CheckpointStore store(folder.path(), 2);
  ASSERT_TRUE(store.save(make_state(1, 100).content()).ok());
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 100000;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const SaveResult result = store.save(make_state(2, 100000).content());
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_FALSE(result.ok());
  for (const char* part : {"File too large", "ulimit -f: 100.0 kB", "and 604.", "raise that limit"}) {
    EXPECT_NE(result.error.find(part), std::string::npos) << result.error;
  }
  EXPECT_EQ(folder.files().size(), 1u);
  EXPECT_EQ(store.load_newest(7, {})->content.meta.steps, 100u);
}

TEST(Checkpoint, AFolderThatIsAFileIsRefused) {
  const Folder folder;
  write_all(folder.path() + "/file", {'x'});
  EXPECT_THROW(CheckpointStore(folder.path() + "/file", 3), std::runtime_error);
}

TEST(DirectoryLock, RefusesASecondHolderAndNamesTheFirst) {
  const Folder folder;
  const std::string state = folder.path() + "/a/state";  // made, with its parent
  {
    const DirectoryLock lock(state);
    struct stat info;
    ASSERT_EQ(::stat(state.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0700u);
    try {
      const DirectoryLock second(state);
      FAIL() << "two agents on one state folder";
    } catch (const std::runtime_error& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("process " + std::to_string(::getpid())), std::string::npos) << text;
      EXPECT_NE(text.find(state), std::string::npos) << text;
    }
  }
  EXPECT_NO_THROW(DirectoryLock{state});
}

TEST(DirectoryLock, AFolderThatCannotBeMadeIsNamed) {
  const Folder folder;
  write_all(folder.path() + "/file", {'x'});
  EXPECT_THROW(DirectoryLock{folder.path() + "/file"}, std::runtime_error);
  EXPECT_THROW(DirectoryLock{folder.path() + "/file/state"}, std::runtime_error);
}

}  // namespace
}  // namespace starling
