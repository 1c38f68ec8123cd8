#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "agent/observe/metrics.h"
#include "tests/agent/state/planned_file_ops.h"

namespace starling {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kLong{20};

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
  struct stat info{};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  EXPECT_EQ(error_of(path), "");  // a restart appends
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

TEST(MetricsFile, IsBounded) {
  const Folder folder;
  const std::string path = folder.path() + "/metrics.jsonl";
  MetricsFile metrics(path, 1000);
  for (uint64_t i = 0; i < 200; ++i) metrics.on(BecameSick{i, "because"});
  metrics.flush(kLong);
  for (const char* end : {"", ".1"}) {
    EXPECT_GE(fs::file_size(path + end), 1u) << end;
    EXPECT_LE(fs::file_size(path + end), 1200u) << end;
  }
  std::ifstream before(path + ".1"), after(path);
  std::string last, first;
  for (std::string line; std::getline(before, line);) last = line;
  std::getline(after, first);
  const auto steps = [](const std::string& line) { return std::stoul(line.substr(line.find("steps\":") + 7)); };
  EXPECT_EQ(steps(first), steps(last) + 1) << "no line is lost between the two";
  EXPECT_EQ(metrics.failed_writes(), 0u);
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

TEST(MetricsFile, IsMadeAgainAfterItWasRemoved) {
  const Folder folder;
  const std::string path = folder.path() + "/metrics.jsonl";
  MetricsFile metrics(path);
  metrics.on(BecameSick{1, "because"});
  metrics.flush(kLong);
  ASSERT_TRUE(fs::remove(path));
  metrics.on(BecameSick{2, "because"});
  metrics.flush(kLong);
  EXPECT_EQ(metrics.failed_writes(), 0u);
  std::ifstream file(path);
  std::string line;
  ASSERT_TRUE(std::getline(file, line));
  EXPECT_NE(line.find("steps\":2"), std::string::npos) << line;
  EXPECT_FALSE(std::getline(file, line));
}

// As logrotate(8) does, which makes another one of the name and removes the old one later.
TEST(MetricsFile, FollowsItsNameWhereTheFileGetsAnother) {
  const Folder folder;
  const std::string path = folder.path() + "/metrics.jsonl";
  MetricsFile metrics(path);
  const auto write = [&](uint64_t steps) {
    metrics.on(BecameSick{steps, "because"});
    metrics.flush(kLong);
  };
  const auto expect_only = [](const std::string& name, uint64_t steps) {
    std::ifstream file(name);
    std::string line;
    ASSERT_TRUE(std::getline(file, line));
    EXPECT_NE(line.find("steps\":" + std::to_string(steps)), std::string::npos) << line;
    EXPECT_FALSE(std::getline(file, line)) << line;
  };
  write(1);
  fs::rename(path, path + ".old");
  write(2);
  expect_only(path + ".old", 1);
  expect_only(path, 2);
  fs::rename(path, path + ".old");
  std::ofstream(path) << "";
  write(3);
  expect_only(path, 3);
  fs::remove(path);
  ASSERT_TRUE(fs::create_directory(path));
  fs::remove(path + ".old");
  write(4);
  EXPECT_EQ(metrics.failed_writes(), 1u) << "there is no such file";
}

// It made room itself: the file that is there then is another one, and the full one has the name of the former.
TEST(MetricsFile, KeepsAFullFileThatGotTheNameOfTheFormerOne) {
  const Folder folder;
  const std::string path = folder.path() + "/metrics.jsonl";
  MetricsFile metrics(path, 100);
  for (uint64_t i = 1; !fs::exists(path) || fs::file_size(path) < 100; ++i) {
    metrics.on(BecameSick{i, "because"});
    metrics.flush(kLong);
  }
  const uintmax_t size = fs::file_size(path);
  fs::rename(path, path + ".1");
  std::ofstream(path) << "";
  metrics.on(BecameSick{1000, "because"});
  metrics.flush(kLong);
  EXPECT_EQ(fs::file_size(path + ".1"), size);
  EXPECT_GT(fs::file_size(path), 0u);
  EXPECT_LT(fs::file_size(path), 100u);
}

// Lines to a removed file reach nobody.
TEST(MetricsFile, CountsTheLinesAfterItsFolderWasRemoved) {
  const Folder folder;
  const std::string inner = folder.path() + "/inner";
  ASSERT_TRUE(fs::create_directory(inner));
  MetricsFile metrics(inner + "/metrics.jsonl");
  metrics.on(Evaluated{});
  metrics.flush(kLong);
  EXPECT_EQ(metrics.failed_writes(), 0u);
  fs::remove_all(inner);
  metrics.on(Evaluated{});
  metrics.flush(kLong);
  EXPECT_EQ(metrics.failed_writes(), 1u);
  EXPECT_NE(metrics.lost_because().find("removed"), std::string::npos) << metrics.lost_because();
  EXPECT_EQ(metrics.lost_because().find("disk"), std::string::npos) << metrics.lost_because();
}

TEST(MetricsFile, AsksWhetherTheDiskIsFullOnlyWhenThereIsNoSpace) {
  EXPECT_EQ(MetricsFile::why_lost(ENOSPC), "No space left on device; is the disk full?");
  EXPECT_EQ(MetricsFile::why_lost(EIO), "Input/output error");
}

// A disk that fills up within a line costs that line, not also the first one after there is room again.
TEST(MetricsFile, BeginsANewLineAfterATornOne) {
  const Folder folder;
  const std::string path = folder.path() + "/metrics.jsonl";
  MetricsFile metrics(path);
  metrics.on(Evaluated{});
  metrics.flush(kLong);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old_limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  const rlimit limit{fs::file_size(path) + 10, old_limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  metrics.on(Evaluated{});
  metrics.on(Evaluated{});
  metrics.flush(kLong);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old_limit), 0);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(metrics.failed_writes(), 2u);
  metrics.on(Evaluated{});
  metrics.flush(kLong);
  std::ifstream file(path);
  std::string line;
  size_t whole = 0, torn = 0;
  while (std::getline(file, line)) {
    const bool ends = line.ends_with("}");
    EXPECT_EQ(line.find("{\"t\"", 1), std::string::npos) << line;
    ++(ends ? whole : torn);
  }
  EXPECT_EQ(whole, 2u);
  EXPECT_EQ(torn, 1u);
}

}  // namespace
}  // namespace starling
