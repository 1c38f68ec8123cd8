#include "agent/state/private_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "agent/state/checkpoint_lock.h"
#include "tests/agent/state/planned_file_ops.h"

namespace starling {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBytesMax = 1000;

// What the call throws; empty: nothing.
template <typename Call>
std::string error_of(const Call& call) {
  try {
    call();
    return "";
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

mode_t mode_of(const std::string& path) {
  struct stat info{};
  EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
  return info.st_mode & 07777;
}

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(PrivateFile, HoldsWhatWasWrittenForItsOwnerOnly) {
  const Folder folder;
  const std::string path = folder.path() + "/settings.yaml";
  const auto disk = make_file_ops();
  EXPECT_EQ(read_private_file(path, kBytesMax), std::nullopt);
  for (const std::string& text : {std::string("a\0b\n", 4), std::string(), std::string(kBytesMax, 'x')}) {
    write_private_file(path, text, *disk);
    EXPECT_EQ(read_private_file(path, kBytesMax), text);
    EXPECT_LE(read_private_file(path, 1 << 24)->capacity(), 2 * kBytesMax) << "however much it might hold";
    EXPECT_EQ(mode_of(path), 0600u);
    EXPECT_EQ(folder.files(), std::vector<std::string>{"settings.yaml"});
  }
  write_private_file(path, std::string(kBytesMax + 1, 'x'), *disk);
  const std::string error = error_of([&] { (void)read_private_file(path, kBytesMax); });
  EXPECT_NE(error.find("more than 1000 bytes"), std::string::npos) << error;
}

TEST(PrivateFile, FollowsNoSymbolicLink) {
  const Folder folder;
  const std::string path = folder.path() + "/settings.yaml", other = folder.path() + "/other";
  std::ofstream(other) << "precious";
  const auto disk = make_file_ops();
  fs::create_symlink(other, path);
  EXPECT_NE(error_of([&] { (void)read_private_file(path, kBytesMax); }).find("symbolic link"), std::string::npos);
  fs::create_symlink(other, path + ".tmp");  // where the new text is written first
  write_private_file(path, "new", *disk);
  EXPECT_EQ(content_of(other), "precious");
  EXPECT_EQ(read_private_file(path, kBytesMax), "new");
  EXPECT_FALSE(fs::is_symlink(path));
}

// With the wait that it forbids this test would not end; the alarm ends the program then.
TEST(PrivateFile, WaitsForNoFifo) {
  const Folder folder;
  const std::string path = folder.path() + "/settings.yaml";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  ASSERT_EQ(::mkfifo((path + ".tmp").c_str(), 0600), 0);
  ::alarm(20);
  EXPECT_NE(error_of([&] { (void)read_private_file(path, kBytesMax); }).find("no regular file"), std::string::npos);
  write_private_file(path, "new", *make_file_ops());
  EXPECT_EQ(read_private_file(path, kBytesMax), "new");
  ::alarm(0);
}

TEST(PrivateFile, SaysWhatCannotBeOpened) {
  const Folder folder;
  fs::create_directory(folder.path() + "/settings.yaml");
  EXPECT_NE(error_of([&] {
              (void)read_private_file(folder.path() + "/settings.yaml", kBytesMax);
            }).find("/settings.yaml is no regular file"),
            std::string::npos);
  const std::string error =
      error_of([&] { write_private_file(folder.path() + "/none/settings.yaml", "x", *make_file_ops()); });
  EXPECT_NE(error.find("/none/settings.yaml cannot be written: creating"), std::string::npos) << error;
  EXPECT_NE(error.find("--state"), std::string::npos) << error;
}

// One write that goes wrong at call `at`. Returns whether it got that far.
bool survive(int at, int status, bool tear_writes) {
  const Folder folder;
  const std::string path = folder.path() + "/settings.yaml";
  const std::string before(3000, 'b'), after(5000, 'a');
  write_private_file(path, before, *make_file_ops());
  Plan plan{.at = at, .status = status, .tear_writes = tear_writes};
  PlannedFileOps files(plan);
  bool written = false;
  try {
    write_private_file(path, after, files);
    written = true;
  } catch (const Crash&) {
    EXPECT_EQ(status, 0);
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find(std::strerror(-status)), std::string::npos) << error.what();
  }
  const auto now = read_private_file(path, 10000);
  EXPECT_TRUE(now == before || now == after) << "call " << at << ": " << plan.failed;
  EXPECT_TRUE(!written || now == after);
  write_private_file(path, "next", *make_file_ops());  // whatever was left behind
  EXPECT_EQ(read_private_file(path, 10000), "next");
  EXPECT_EQ(folder.files(), std::vector<std::string>{"settings.yaml"});
  return plan.calls > at;
}

TEST(PrivateFile, ACrashOrAnErrorAtAnyCallLeavesOneOfTheTwo) {
  for (const int status : {0, -ENOSPC, -EIO}) {
    for (const bool tear_writes : {false, true}) {
      int at = 0;
      while (survive(at, status, tear_writes)) ++at;
      EXPECT_GT(at, 7);
    }
  }
}

TEST(PrivateFile, SyncsTheFileBeforeItsNameAndTheFolderAfter) {
  const Folder folder;
  Plan plan;
  PlannedFileOps files(plan);
  write_private_file(folder.path() + "/settings.yaml", "x", files);
  EXPECT_EQ(plan.log, (std::vector<std::string>{"remove", "open", "write", "sync", "close", "rename", "sync_folder"}));
}

TEST(PrivateFolder, IsMadeForItsOwnerOnly) {
  const Folder folder;
  EXPECT_EQ(make_private_folder(folder.path() + "/a/b/state/"), "");
  EXPECT_EQ(mode_of(folder.path() + "/a/b/state"), 0700u);
  EXPECT_EQ(make_private_folder(folder.path() + "/a/b/state"), "");
}

// An earlier version made its folder with mode 0755.
TEST(PrivateFolder, OneWithAnIdentityIsClosedToOthers) {
  const Folder folder;
  const std::string state = folder.path() + "/state";
  fs::create_directory(state);
  std::ofstream(state + "/identity.key") << "k";
  for (const mode_t mode : {0755, 0777, 0750}) {
    ASSERT_EQ(::chmod(state.c_str(), mode), 0);
    const std::string remark = make_private_folder(state);
    EXPECT_NE(remark.find(state + " was open to other users"), std::string::npos) << remark;
    EXPECT_EQ(mode_of(state), 0700u);
  }
  EXPECT_EQ(make_private_folder(state), "");
}

TEST(PrivateFolder, OneOfOtherThingsKeepsItsModeOrIsRefused) {
  const Folder folder;
  const std::string home = folder.path() + "/home";
  fs::create_directory(home);
  std::ofstream(home + "/letter") << "x";
  ASSERT_EQ(::chmod(home.c_str(), 0755), 0);
  EXPECT_EQ(make_private_folder(home), "");
  EXPECT_EQ(mode_of(home), 0755u);
  ASSERT_EQ(::chmod(home.c_str(), 0775), 0);
  EXPECT_NE(error_of([&] { (void)make_private_folder(home); }).find("chmod 700 " + home), std::string::npos);
  std::ofstream(home + "/identity.key") << "k";
  ASSERT_EQ(::chmod(home.c_str(), 01777), 0);  // as /tmp is: its mode is everybody's
  const std::string error = error_of([&] { (void)make_private_folder(home); });
  EXPECT_NE(error.find(home + "/starling-state"), std::string::npos) << error;
  EXPECT_EQ(error.find("chmod"), std::string::npos) << error;
  EXPECT_EQ(mode_of(home), 01777u);
}

// As a volume that a group shares: this user can change neither its owner nor its mode.
TEST(PrivateFolder, OneOfAnotherOwnerIsRefusedWithARemedyThatThisUserCanCarryOut) {
  const Folder folder;
  const std::string volume = folder.path() + "/volume";
  fs::create_directory(volume);
  ASSERT_EQ(::chmod(volume.c_str(), 02770), 0);
  if (::chown(volume.c_str(), 12345, static_cast<gid_t>(-1)) != 0) GTEST_SKIP() << "only root may give a folder away";
  std::ofstream(volume + "/letter") << "x";  // root may change the mode of an empty one
  const std::string error = error_of([&] { (void)make_private_folder(volume); });
  EXPECT_EQ(error.find("chmod"), std::string::npos) << error;
  EXPECT_NE(error.find(volume + "/starling-state"), std::string::npos) << error;
  EXPECT_EQ(make_private_folder(volume + "/starling-state"), "");
  EXPECT_EQ(mode_of(volume + "/starling-state") & 0777, 0700u);
}

TEST(PrivateFolder, ALinkIsNotFollowed) {
  const Folder folder;
  fs::create_directory(folder.path() + "/target");
  fs::create_symlink(folder.path() + "/target", folder.path() + "/state");
  for (const char* slashes : {"", "/", "//"}) {
    const std::string error = error_of([&] { DirectoryLock lock(folder.path() + "/state" + slashes); });
    EXPECT_NE(error.find("symbolic link"), std::string::npos) << error;
  }
  EXPECT_TRUE(fs::is_empty(folder.path() + "/target"));
}

}  // namespace
}  // namespace starling
