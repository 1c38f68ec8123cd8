#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "agent/observe/metrics.h"
#include "tests/agent/state/planned_file_ops.h"

namespace starling {
namespace {

namespace fs = std::filesystem;

std::string error_of(const std::string& path) {
  try {
    const MetricsFile metrics(path);
    return "";
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

TEST(MetricsFile, IsMadeForItsOwnerOnly) {
  const Folder folder;
  const std::string path = folder.path() + "/metrics.jsonl";
  EXPECT_EQ(error_of(path), "");
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  EXPECT_EQ(error_of(path), "");   // a restart appends
}

TEST(MetricsFile, FollowsNoLink) {
  const Folder folder;
  std::ofstream(folder.path() + "/other") << "precious";
  fs::create_symlink(folder.path() + "/other", folder.path() + "/link");
  const std::string error = error_of(folder.path() + "/link");
  EXPECT_NE(error.find("symbolic link"), std::string::npos) << error;
  EXPECT_NE(error.find("--metrics"), std::string::npos) << error;
  fs::create_symlink(folder.path() + "/new", folder.path() + "/dangling");
  EXPECT_NE(error_of(folder.path() + "/dangling"), "");
  EXPECT_FALSE(fs::exists(folder.path() + "/new"));
}

// With the wait that it forbids this test would not end; the alarm ends the program then.
TEST(MetricsFile, WaitsForNoReaderOfAFifo) {
  const Folder folder;
  const std::string path = folder.path() + "/fifo";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  ::alarm(20);
  EXPECT_NE(error_of(path).find("no regular file"), std::string::npos) << error_of(path);
  ::alarm(0);
  EXPECT_NE(error_of(folder.path()), "");
}

// Lines to a removed file reach nobody.
TEST(MetricsFile, CountsTheLinesAfterItsFileWasRemoved) {
  const Folder folder;
  const std::string path = folder.path() + "/metrics.jsonl";
  MetricsFile metrics(path);
  metrics.on(Evaluated{});
  EXPECT_EQ(metrics.failed_writes(), 0u);
  ASSERT_TRUE(fs::remove(path));
  metrics.on(Evaluated{});
  EXPECT_EQ(metrics.failed_writes(), 1u);
}

}  // namespace
}  // namespace starling
