// Checkpoints of earlier versions, kept in tests/golden: each must still be read, and today's program must still write
// the newest of them byte for byte. STARLING_WRITE_GOLDEN=1 writes that one anew.
#include "agent/state/file_keeper.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <utility>

#include "agent/train/quadratic_trainer.h"
#include "compression/encoder.h"
#include "tests/support/fake_clock.h"
#include "tests/support/sanitized.h"

namespace starling {
namespace {

namespace fs = std::filesystem;

const fs::path kGolden = GOLDEN_DIR;
const fs::path kBlockStates = kGolden / "checkpoint-v1-block-states.ckpt";  // one byte of codec state a block
const fs::path kCodecMemory = kGolden / "checkpoint-v1-codec-memory.ckpt";  // what Encoder::save() writes

class FileKeeperGolden : public testing::Test {
 protected:
  FileKeeperGolden() {
    std::string name = (fs::temp_directory_path() / "starling_keeper_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    folder_ = name;
  }
  ~FileKeeperGolden() override { fs::remove_all(folder_); }

  static std::string read_all(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  // A keeper whose newest checkpoint is this file.
  std::unique_ptr<FileKeeper> keeper_of(const fs::path& golden) {
    std::string problem;
    const auto loaded = read_checkpoint(golden.string(), &problem);
    if (!loaded) throw std::runtime_error(problem);
    content_ = *loaded;
    const CheckpointMeta& meta = loaded->content.meta;
    fs::create_directories(folder_ / "checkpoints");
    fs::copy_file(golden, folder_ / "checkpoints/checkpoint-00000001-step-3000.ckpt");
    return std::make_unique<FileKeeper>(folder_.string(), meta.swarm_id, meta.generation, 3);
  }

  void expect_restores(FileKeeper& keeper) {
    Progress progress;
    std::vector<std::byte> memory;
    ASSERT_TRUE(keeper.restore(&progress, trainer_, &memory));
    EXPECT_EQ(progress.steps, 3000u);
    const View params = trainer_.params();
    EXPECT_TRUE(std::equal(params.data, params.data + params.count, content_.content.params.begin()));
    ASSERT_TRUE(encoder_.load(memory));
    Encoder expected(make_codec(CodecKind::kModulo8, MemorySpace::kHost), encoder_.layout());
    std::vector<std::byte> exponents;
    for (int exponent : {-9, -9, -10, -6, -6, -6}) exponents.push_back(static_cast<std::byte>(exponent));
    ASSERT_TRUE(expected.load(exponents));
    EXPECT_EQ(encoder_.save(), expected.save());
  }

  fs::path folder_;
  FakeClock clock_;
  QuadraticTrainer trainer_{{.dimension = 150, .momentum = 0.9, .gradient_noise = 0.1}, 1, 1, clock_};
  Encoder encoder_{make_codec(CodecKind::kModulo8, MemorySpace::kHost),
                   Layout::cut({{"params", 150}, {"momentum", 150}}, 64)};
  LoadedCheckpoint content_;
};

TEST_F(FileKeeperGolden, AStateWithOneByteABlockIsRestored) { expect_restores(*keeper_of(kBlockStates)); }

TEST_F(FileKeeperGolden, AStateWithCodecMemoryIsRestored) { expect_restores(*keeper_of(kCodecMemory)); }

// Going on without them would begin anew, and remove them later as the oldest.
TEST_F(FileKeeperGolden, WhereAllAreDamagedNothingBeginsAnewAndAllStay) {
  auto keeper = keeper_of(kCodecMemory);
  const fs::path only = folder_ / "checkpoints/checkpoint-00000001-step-3000.ckpt";
  fs::resize_file(only, fs::file_size(only) - 1);
  Progress progress;
  std::vector<std::byte> memory;
  try {
    (void)keeper->restore(&progress, trainer_, &memory);
    ADD_FAILURE() << "it begins anew";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find((folder_ / "checkpoints").string()), std::string::npos) << error.what();
  }
  EXPECT_TRUE(fs::exists(only));
  fs::remove(only);
  EXPECT_FALSE(keeper->restore(&progress, trainer_, &memory)) << "without any file it is a start like the first";
}

TEST_F(FileKeeperGolden, TheSameStateIsWrittenAsEver) {
  const std::unique_ptr<FileKeeper> keeper = keeper_of(kBlockStates);
  expect_restores(*keeper);
  const CheckpointMeta& meta = content_.content.meta;
  const SaveResult saved = keeper->save({meta.round, meta.steps, meta.samples}, trainer_, encoder_.save(), false);
  ASSERT_EQ(saved.error, "");
  EXPECT_TRUE(std::filesystem::exists(saved.path)) << saved.path;
  const fs::path written = folder_ / "checkpoints/checkpoint-00000002-step-3000.ckpt";
  if (std::getenv("STARLING_WRITE_GOLDEN") != nullptr) {
    fs::copy_file(written, kCodecMemory, fs::copy_options::overwrite_existing);
  }
  EXPECT_TRUE(read_all(written) == read_all(kCodecMemory)) << "this version writes other bytes";
}

// Many links are open, of strangers perhaps.
TEST_F(FileKeeperGolden, AStateIsSavedWhereNoDescriptorIsLeft) {
  const auto keeper = keeper_of(kCodecMemory);
  expect_restores(*keeper);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = 256;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<int> taken;
  const auto take_all = [&] {
    for (int fd; (fd = ::open("/dev/null", O_RDONLY)) >= 0;) taken.push_back(fd);
  };
  for (int save = 0; save < 3; ++save) {
    take_all();
    EXPECT_EQ(errno, EMFILE);
    EXPECT_EQ(keeper->save({1, static_cast<uint64_t>(save), 1}, trainer_, encoder_.save(), false).error, "");
  }
  for (const int fd : taken) ::close(fd);
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

uint64_t resident_bytes() {
  uint64_t size = 0, resident = 0;  // pages
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

// Between two checkpoints an agent holds no copy of what it saved.
TEST_F(FileKeeperGolden, TheCopyGoesBackOnceItIsWritten) {
  if (under_asan() || under_tsan()) GTEST_SKIP() << "a sanitizer keeps freed memory";
  std::function<void()> as_memory_is_looked_at = [] {};
  uint64_t left = std::numeric_limits<uint64_t>::max();
  FileKeeper keeper(
      folder_.string(), 1, 1, 1, [] {}, make_file_ops(),
      [&] {
        as_memory_is_looked_at();
        return left;
      });
  constexpr size_t kFloats = 20'000'000;
  QuadraticTrainer large{{.dimension = kFloats / 2, .momentum = 0.9}, 1, 1, clock_};
  std::vector<std::byte> memory;
  const uint64_t before = resident_bytes(), of_copy = kFloats * sizeof(float);
  const auto holds_a_copy = [&] { return resident_bytes() > before + of_copy / 2; };
  auto write = keeper.copy_to_save({1, 1, 1}, large, memory, false);
  ASSERT_TRUE(write);
  EXPECT_TRUE(holds_a_copy());
  EXPECT_EQ(write().error, "");
  write = nullptr;
  EXPECT_FALSE(holds_a_copy());

  keeper.make_room(kFloats);
  EXPECT_TRUE(holds_a_copy()) << "the pages are not made yet";
  write = keeper.copy_to_save({2, 2, 2}, large, memory, false);
  ASSERT_TRUE(write);
  EXPECT_LT(resident_bytes(), before + of_copy * 3 / 2) << "the room was not used";
  EXPECT_EQ(write().error, "");
  write = nullptr;
  EXPECT_FALSE(holds_a_copy());

  keeper.make_room(kFloats);
  keeper.make_room(0);
  EXPECT_FALSE(holds_a_copy());
  keeper.make_room(kFloats);
  EXPECT_EQ(keeper.save({3, 3, 3}, large, memory, false).error, "");
  EXPECT_FALSE(holds_a_copy()) << "the last save needs none";
  bool once = true;
  as_memory_is_looked_at = [&] {
    if (!std::exchange(once, false)) return;
    EXPECT_EQ(keeper.save({4, 4, 4}, large, memory, false).error, "");
  };
  keeper.make_room(kFloats);
  EXPECT_FALSE(holds_a_copy()) << "it was saved meanwhile";
  left = 0;
  EXPECT_FALSE(keeper.copy_to_save({5, 5, 5}, large, memory, false)) << "the room was kept";
}

}  // namespace
}  // namespace starling
