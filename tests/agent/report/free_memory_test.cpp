#include "agent/report/free_memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <stdexcept>

namespace starling {
namespace {

constexpr uint64_t kMega = 1 << 20;

class FreeMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "starling-memory-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    write("proc/meminfo", "MemTotal:  4096 kB\nMemAvailable:  2048 kB\nSwapFree:  1024 kB\n");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
  }
  uint64_t free_bytes() const { return free_memory(root_).bytes; }

  std::filesystem::path root_;
};

TEST_F(FreeMemoryTest, TheMachineHasWhatIsAvailable) {
  EXPECT_EQ(free_bytes(), 2 * kMega);
  EXPECT_EQ(free_memory(root_).owner, "this machine has");
  write("proc/meminfo", "MemTotal:  4096 kB\n");
  EXPECT_EQ(free_bytes(), std::numeric_limits<uint64_t>::max()) << "what is not told limits nothing";
}

TEST_F(FreeMemoryTest, ACgroupOfVersion2AllowsItsLimitLessWhatItCannotGiveBack) {
  write("proc/self/cgroup", "0::/a/b\n");
  write("sys/fs/cgroup/a/b/memory.max", "max\n");
  write("sys/fs/cgroup/a/b/memory.current", "700000\n");
  EXPECT_EQ(free_bytes(), 2 * kMega);
  write("sys/fs/cgroup/a/memory.max", "1000000\n");
  write("sys/fs/cgroup/a/memory.current", "900000\n");
  EXPECT_EQ(free_bytes(), 100000u);
  write("sys/fs/cgroup/a/memory.stat", "workingset_inactive_file 9\ninactive_file 300000\n");
  EXPECT_EQ(free_bytes(), 400000u);
  EXPECT_EQ(free_memory(root_).owner, "its cgroup allows");
  write("sys/fs/cgroup/a/memory.current", "1100000\n");
  write("sys/fs/cgroup/a/memory.stat", "inactive_file 5000000\n");
  EXPECT_EQ(free_bytes(), 1000000u);
}

// In a container the path is often the host's, and the files are those of its root.
TEST_F(FreeMemoryTest, ACgroupOfVersion1IsFoundAtTheRootToo) {
  write("proc/self/cgroup", "7:cpu,memory:/docker/x\n3:cpuset:/\nnonsense\n:\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "2000\n");
  EXPECT_EQ(free_bytes(), 2 * kMega);
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "5000\n");
  EXPECT_EQ(free_bytes(), 3000u);
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "6000\n");
  EXPECT_EQ(free_bytes(), 0u);
}

TEST_F(FreeMemoryTest, TheLeastOfTheCgroupsLimitsThreads) {
  write("proc/self/cgroup", "3:cpu,memory:/a/b\n8:pids:/a/b\n0::/c\n");
  EXPECT_FALSE(threads_of_cgroup(root_));
  write("sys/fs/cgroup/memory/a/pids.max", "1\n");
  write("sys/fs/cgroup/pids/a/b/pids.max", "max\n");
  EXPECT_FALSE(threads_of_cgroup(root_)) << "another controller's, and none";
  write("sys/fs/cgroup/pids/a/pids.max", "70\n");
  EXPECT_EQ(threads_of_cgroup(root_), 70u);
  write("sys/fs/cgroup/pids.max", "30\n");
  EXPECT_EQ(threads_of_cgroup(root_), 30u) << "version 2, at the root of a container";
}

TEST(RequireMemory, RefusesWhatIsFreeNowhere) {
  EXPECT_GT(free_memory().bytes, kMega);
  require_memory(kMega, "it takes", "");
  try {
    require_memory(uint64_t{1} << 63, "this takes", "take less");
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(std::string(error.what()).find("this takes about 9223372036.9 GB of memory, and "), 0u) << error.what();
    EXPECT_NE(std::string(error.what()).find(" free; take less"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace starling
