#include "gossip/net/identity.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <stdexcept>
#include <string>

namespace starling {
namespace {

namespace fs = std::filesystem;

class IdentityTest : public testing::Test {
 protected:
  IdentityTest() {
    std::string name = (fs::temp_directory_path() / "starling-identity-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    root_ = name;
    dir_ = root_ / "state";
  }
  ~IdentityTest() override { fs::remove_all(root_); }

  // What the error says; empty: none.
  std::string load_error() {
    try {
      load_or_create_identity(dir_);
      return "";
    } catch (const std::runtime_error& error) {
      return error.what();
    }
  }
  void write(const char* file, const std::string& text) { std::ofstream(dir_ / file, std::ios::binary) << text; }

  fs::path root_, dir_;
};

std::span<const std::byte> bytes(const std::string& s) { return std::as_bytes(std::span(s)); }

TEST_F(IdentityTest, IsMadeOnceAndKept) {
  const PeerId first = load_or_create_identity(dir_).id();
  EXPECT_FALSE(first.is_zero());
  EXPECT_EQ(load_or_create_identity(dir_).id(), first);
  struct stat info{};
  ASSERT_EQ(::stat((dir_ / "identity.key").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  EXPECT_EQ(info.st_size, 32);
  size_t files = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(dir_)) ++files;
  EXPECT_EQ(files, 1u) << "a draft was left behind";
  dir_ = root_ / "other";
  EXPECT_NE(load_or_create_identity(dir_).id(), first);
}

TEST_F(IdentityTest, SignsForItsKeyOnly) {
  const Identity ours = load_or_create_identity(dir_);
  const Identity theirs = load_or_create_identity(root_ / "other");
  const std::string message = "three wise starlings";
  Signature signature = ours.sign(bytes(message));
  EXPECT_TRUE(verify(ours.id(), bytes(message), signature));
  EXPECT_FALSE(verify(theirs.id(), bytes(message), signature));
  EXPECT_FALSE(verify(ours.id(), bytes(message + "!"), signature));
  EXPECT_FALSE(verify(PeerId{}, bytes(message), signature));
  signature[40] ^= 1;
  EXPECT_FALSE(verify(ours.id(), bytes(message), signature));
}

TEST_F(IdentityTest, ClosesAKeyThatOthersMayOpenAndSaysSo) {
  const fs::path key = dir_ / "identity.key";
  std::string remark;
  const PeerId id = load_or_create_identity(dir_, &remark).id();
  EXPECT_EQ(remark, "");
  for (const int mode : {0640, 0604, 0620, 0601, 0666}) {
    ASSERT_EQ(::chmod(key.c_str(), static_cast<mode_t>(mode)), 0);
    EXPECT_EQ(load_or_create_identity(dir_, &remark).id(), id);
    EXPECT_EQ(remark.find(key.string() + " holds a private key that other users could open"), 0u) << remark;
    struct stat info{};
    ASSERT_EQ(::stat(key.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777, 0600u);
  }
  ASSERT_EQ(::chmod(key.c_str(), 0400), 0);
  EXPECT_EQ(load_or_create_identity(dir_, &remark).id(), id);
  EXPECT_EQ(remark, "");
}

TEST_F(IdentityTest, RefusesAKeyOfAnotherOwner) {
  ASSERT_EQ(load_error(), "");
  if (::chown((dir_ / "identity.key").c_str(), 12345, static_cast<gid_t>(-1)) != 0) {
    GTEST_SKIP() << "only root may give a file away";
  }
  EXPECT_NE(load_error().find("belongs to another user"), std::string::npos) << load_error();
}

TEST_F(IdentityTest, RefusesWhatIsNoKeyFile) {
  fs::create_directories(dir_ / "identity.key");
  EXPECT_NE(load_error().find("no regular file"), std::string::npos) << load_error();
  fs::remove(dir_ / "identity.key");
  ASSERT_EQ(::mkfifo((dir_ / "identity.key").c_str(), 0600), 0);
  EXPECT_NE(load_error().find("no regular file"), std::string::npos) << load_error();
  fs::remove(dir_ / "identity.key");
  fs::create_symlink("/dev/zero", dir_ / "identity.key");
  EXPECT_NE(load_error().find("symbolic link"), std::string::npos) << load_error();
}

TEST_F(IdentityTest, RefusesADamagedKey) {
  fs::create_directories(dir_);
  for (const size_t size : {0, 31, 33, 64}) {
    write("identity.key", std::string(size, 'k'));
    ::chmod((dir_ / "identity.key").c_str(), 0600);
    EXPECT_NE(load_error().find("damaged"), std::string::npos) << size;
  }
}

TEST_F(IdentityTest, SaysWhichFolderCannotBeMade) {
  std::ofstream(root_ / "file") << "x";
  dir_ = root_ / "file" / "state";
  EXPECT_NE(load_error().find(dir_.string()), std::string::npos) << load_error();
  EXPECT_THROW(next_generation(dir_), std::runtime_error);
}

TEST_F(IdentityTest, GenerationsGrow) {
  const uint64_t first = next_generation(dir_);
  EXPECT_GT(first, 1'600'000'000'000u);  // the clock's milliseconds
  uint64_t last = first;
  for (int i = 0; i < 50; ++i) {
    const uint64_t next = next_generation(dir_);
    EXPECT_GT(next, last);
    last = next;
  }
  uint64_t stored = 0;
  std::ifstream(dir_ / "generation") >> stored;
  EXPECT_EQ(stored, last);
  store_generation(dir_, 700);
  EXPECT_EQ(next_generation(dir_, false), 701u);
}

TEST_F(IdentityTest, GenerationsOutrunAClockThatWentBack) {
  fs::create_directories(dir_);
  const uint64_t far = 4'000'000'000'000;  // in the year 2096
  write("generation", std::to_string(far) + "\n");
  EXPECT_EQ(next_generation(dir_), far + 1);
  EXPECT_EQ(next_generation(dir_), far + 2);
  const std::string last = std::to_string(uint64_t{1} << 62) + "\n";  // of a forged record
  write("generation", last);
  try {
    (void)next_generation(dir_);
    FAIL() << "no member takes a larger one";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("Remove it and "), std::string::npos) << error.what();
  }
  std::ifstream kept(dir_ / "generation");
  std::string text;
  std::getline(kept, text);
  EXPECT_EQ(text + "\n", last);
}

TEST_F(IdentityTest, RefusesADamagedGeneration) {
  fs::create_directories(dir_);
  for (const char* text : {"", "\n", "x", "12x", "-4", " 7", "99999999999999999999999", "18446744073709551615",
                           "1234567890123456789012345678901234567890"}) {
    write("generation", text);
    EXPECT_THROW(next_generation(dir_), std::runtime_error) << text;
  }
}

}  // namespace
}  // namespace starling
