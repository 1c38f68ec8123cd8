#include "agent/process/state_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

#include "agent/state/class_names.h"
#include "gossip/net/identity.h"
#include "gossip/net/member_keys.h"
#include "gossip/rng.h"
#include "tests/agent/state/planned_file_ops.h"

namespace starling {
namespace {

namespace fs = std::filesystem;

mode_t mode_of(const std::string& path) {
  struct stat info{};
  EXPECT_EQ(::lstat(path.c_str(), &info), 0) << path;
  return info.st_mode & 07777;
}

TEST(StateFolder, IsItsOwnersAlone) {
  const Folder folder;
  const std::string state = folder.path() + "/state";
  {
    const StatePlace place(state);
    EXPECT_EQ(place.stored_settings(), "");
    place.store_settings("swarm: {}\n");
    EXPECT_EQ(place.stored_settings(), "swarm: {}\n");
  }
  EXPECT_EQ(mode_of(state), 0700u);
  for (const auto& entry : fs::directory_iterator(state)) EXPECT_EQ(mode_of(entry.path()), 0600u) << entry.path();
  ASSERT_EQ(::chmod(state.c_str(), 0755), 0);  // as an earlier version made it
  const StatePlace place(state);
  EXPECT_EQ(mode_of(state), 0700u);
  EXPECT_EQ(place.stored_settings(), "swarm: {}\n");
}

TEST(StateFolder, KnowsWhetherItsNumberIsOfTheClock) {
  const Folder folder;
  const std::string state = folder.path() + "/state";
  {
    const StatePlace place(state);
    EXPECT_TRUE(place.began_by_clock());
    place.exceed(place.generation() + 1);
  }
  uint64_t again = 0;
  {
    const StatePlace place(state, nullptr, true);
    EXPECT_FALSE(place.began_by_clock());
    again = place.generation();
  }
  while (generation_by_clock() <= again) {
  }
  {
    const StatePlace place(state);
    EXPECT_TRUE(place.began_by_clock());
    place.exceed(place.generation() + 1'000'000);
  }
  EXPECT_FALSE(StatePlace(state).began_by_clock()) << "the stored number was ahead";
}

TEST(StateFolder, KeepsTheNamesOfClassesAndRefusesOthers) {
  const Folder folder;
  const std::string state = folder.path() + "/state";
  const std::vector<std::string> names = {"cat", "a \"b\"\n", "\xff"};
  const StatePlace place(state);
  place.store_classes({});
  EXPECT_TRUE(read_class_names(state).empty());
  place.store_classes(names);
  EXPECT_EQ(read_class_names(state), (std::vector<std::string>{"cat", "a \"b\"\n", "\xef\xbf\xbd"}));
  EXPECT_NO_THROW(place.store_classes(names)) << "the same again";
  EXPECT_NO_THROW(place.store_classes({})) << "data without names";
  EXPECT_EQ(read_class_names(state).size(), 3u);
  try {
    place.store_classes({"cat", "dog", "\xff"});
    ADD_FAILURE() << "other classes than the model was trained on";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("class 1 is \"dog\", and \"a \\\"b\\\"\\n\" in the model"),
              std::string::npos)
        << error.what();
  }
  EXPECT_EQ(class_difference({"a"}, {"a", "b"}), "class 1 is none, and \"b\" in the model");
  EXPECT_EQ(class_difference({}, {"a"}), "");
}

// In a certified swarm only the holder of its key signs; in a shared one each member does.
TEST(StateFolder, KeepsTheSignatureOfItsSettingsOrMakesIt) {
  const Folder folder;
  const Identity swarm(KeySeed{1});
  const std::string signature = sign_settings(swarm, "swarm: {}\n");
  const StatePlace member(folder.path() + "/member");
  EXPECT_EQ(member.signature_of("swarm: {}\n"), "") << "of an older program";
  member.store_settings("swarm: {}\n", signature);
  EXPECT_EQ(member.signature_of("swarm: {}\n"), signature);
  EXPECT_EQ(mode_of(member.folder() + "/settings.sig"), 0600u);
  fs::remove(member.folder() + "/settings.sig");
  member.mend();
  EXPECT_EQ(member.signature_of("swarm: {}\n"), signature);
  const StatePlace holder(folder.path() + "/holder");
  holder.keep_swarm_key(swarm);
  EXPECT_EQ(holder.signature_of("swarm: {}\n"), signature);
}

TEST(StateFolder, KnowsWhichPartOfTheDataTheLastStartTook) {
  const Folder folder;
  const StatePlace place(folder.path() + "/state");
  EXPECT_EQ(place.store_shard("--sharding iid --shard 3/3"), "") << "the first start";
  EXPECT_EQ(place.store_shard("--sharding iid --shard 3/3"), "");
  EXPECT_EQ(place.store_shard("--sharding all"), "--sharding iid --shard 3/3");
  EXPECT_EQ(place.store_shard("--sharding all"), "") << "once";
}

TEST(StateFolder, RefusesAFileOfClassesThatIsNone) {
  const Folder folder;
  const std::string state = folder.path() + "/state";
  const StatePlace place(state);
  for (const std::string text : {"", "{}", "[1]", "[\"a\"", "[[[[[[[["}) {
    std::ofstream(state + "/classes") << text;
    EXPECT_THROW((void)read_class_names(state), std::runtime_error) << text;
  }
}

TEST(StateFolder, TellsWhereItsProcessListensWhileThatRuns) {
  const Folder folder;
  const std::string state = folder.path() + "/state";
  EXPECT_THROW((void)stored_address(state), std::runtime_error) << "there is no such folder";
  {
    const StatePlace place(state);
    EXPECT_THROW((void)stored_address(state), std::runtime_error) << "an older program stores none";
    place.store_address({"fd00::1", 7410});
    EXPECT_EQ(stored_address(state), (Endpoint{"fd00::1", 7410}));
    std::ofstream(state + "/address") << std::string(1 << 20, 'a');
    EXPECT_THROW((void)stored_address(state), std::runtime_error);
    place.store_address({"10.0.0.1", 7410});
  }
  EXPECT_THROW((void)stored_address(state), std::runtime_error) << "nobody runs there any more";
}

TEST(StateFolder, KeepsTheKeyOfItsSwarmAndATicket) {
  const Folder folder;
  const std::string state = folder.path() + "/state";
  const Identity key(KeySeed{1});
  PeerId id;
  {
    const StatePlace place(state);
    EXPECT_EQ(place.swarm_key(), nullptr);
    EXPECT_EQ(place.ticket({"a", 1}), "");
    place.keep_swarm_key(key);
    place.store_address({"10.0.0.1", 7400});
    id = place.id();
    EXPECT_THROW(place.keep_swarm_key(Identity(KeySeed{2})), std::runtime_error) << "of another swarm";
    fs::remove(state + "/swarm.key");
    place.mend();
  }
  for (const char* file : {"/swarm.key", "/ticket"}) EXPECT_EQ(mode_of(state + file), 0600u);
  EXPECT_EQ(stored_ticket(state), (Ticket{{"10.0.0.1", 7400}, id, key.seed()}));
  ASSERT_EQ(::chmod((state + "/swarm.key").c_str(), 0644), 0);
  const StatePlace again(state);
  ASSERT_NE(again.swarm_key(), nullptr);
  EXPECT_EQ(again.swarm_key()->id(), key.id());
  EXPECT_EQ(mode_of(state + "/swarm.key"), 0600u);
  std::ofstream(state + "/ticket") << "10.0.0.1:7400#AQ\n";
  EXPECT_THROW(stored_ticket(state), std::runtime_error);
}

TEST(StateFolder, SettingsFollowNoLink) {
  const Folder folder;
  const std::string other = folder.path() + "/other";
  std::ofstream(other) << "precious";
  const StatePlace place(folder.path() + "/state");
  fs::create_symlink(other, place.folder() + "/settings.yaml");
  EXPECT_THROW((void)place.stored_settings(), std::runtime_error);
  fs::remove(place.folder() + "/settings.yaml");
  fs::create_symlink(other, place.folder() + "/settings.yaml.tmp");
  place.store_settings("new");
  EXPECT_EQ(place.stored_settings(), "new");
  EXPECT_EQ(fs::file_size(other), 8u);
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST(StateFolder, EmptySettingsAreRefusedAndStay) {
  const Folder folder;
  const StatePlace place(folder.path() + "/state");
  std::ofstream(place.settings_path()).flush();
  EXPECT_NE(error_of([&] { (void)place.stored_settings(); }).find("settings.yaml is empty"), std::string::npos);
  EXPECT_THROW(place.store_settings("new"), std::runtime_error);
  EXPECT_EQ(fs::file_size(place.settings_path()), 0u);
}

TEST(StateFolder, LinksInItAreNamed) {
  for (const char* name : {"lock", "generation"}) {
    const Folder folder;
    const std::string state = folder.path() + "/state", link = state + "/" + name;
    fs::create_directory(state);
    fs::create_symlink(folder.path() + "/other", link);
    const std::string error = error_of([&] { const StatePlace place(state); });
    EXPECT_NE(error.find("symbolic link"), std::string::npos) << error;
    EXPECT_NE(error.find(name), std::string::npos) << error;
    EXPECT_FALSE(fs::exists(folder.path() + "/other"));
  }
}

// A cleaner of temporary folders, or a person who tidies up while the agent runs.
TEST(StateFolder, IsMadeAgainWithAllThatItHeld) {
  const Folder folder;
  const std::string state = folder.path() + "/state", elsewhere = folder.path() + "/elsewhere";
  const auto place = std::make_unique<StatePlace>(state);
  place->store_settings("swarm: {}\n");
  place->store_address({"10.0.0.1", 7410});
  place->store_raised_stop(300);
  place->keep_swarm_key(Identity(KeySeed{1}), true);
  std::ofstream(state + "/admissions", std::ios::app) << "# by another process\n";
  place->remember_admissions();
  place->keep_revocations("these");
  place->mend();
  const auto expect_whole = [&] {
    EXPECT_EQ(mode_of(state), 0700u);
    for (const auto& entry : fs::directory_iterator(state)) EXPECT_EQ(mode_of(entry.path()), 0600u) << entry.path();
    EXPECT_EQ(place->stored_settings(), "swarm: {}\n");
    EXPECT_EQ(stored_address(state), (Endpoint{"10.0.0.1", 7410}));
    EXPECT_EQ(place->raised_stop(), 300u);
    EXPECT_EQ(kept_revocations(state), "these");
    std::ifstream admissions(state + "/admissions");
    EXPECT_NE(std::string(std::istreambuf_iterator<char>(admissions), {}).find("another process"), std::string::npos);
    EXPECT_NE(error_of([&] { const StatePlace second(state); }).find("another agent"), std::string::npos);
  };
  expect_whole();
  fs::remove_all(state);
  place->mend();
  expect_whole();
  fs::rename(state, elsewhere);
  place->mend();
  expect_whole();
  EXPECT_NE(error_of([&] { const StatePlace second(elsewhere); }).find("another agent"), std::string::npos);
  fs::remove(state + "/identity.key");
  place->mend();
  expect_whole();
  fs::remove_all(state);
  std::ofstream(state) << "something else";
  EXPECT_NE(error_of([&] { place->mend(); }).find("--state"), std::string::npos);
  fs::remove(state);
  const StatePlace taken(state);  // by another agent
  EXPECT_NE(error_of([&] { place->mend(); }).find("another agent"), std::string::npos);
}

TEST(StateFolder, AnIdentityOutlivesItsFolder) {
  const Folder folder;
  const std::string state = folder.path() + "/state";
  PeerId id;
  uint64_t generation = 0;
  {
    const StatePlace place(state);
    id = place.id();
    generation = place.generation();
    fs::remove_all(state);
    place.mend();
  }
  const StatePlace place(state);
  EXPECT_EQ(place.id(), id);
  EXPECT_GT(place.generation(), generation);
}

// With the wait that it forbids this test would not end; the alarm ends the program then.
TEST(StateFolder, SettingsWaitForNoFifo) {
  const Folder folder;
  const StatePlace place(folder.path() + "/state");
  ASSERT_EQ(::mkfifo((place.folder() + "/settings.yaml").c_str(), 0600), 0);
  ::alarm(20);
  EXPECT_THROW((void)place.stored_settings(), std::runtime_error);
  EXPECT_THROW(place.store_settings("new"), std::runtime_error);
  ::alarm(0);
}

TEST(OwnRngSeed, AgentsOfOneMillisecondAndLivesOfOneAgentChooseForThemselves) {
  PeerId one, other;
  one.bytes.fill(1);
  other.bytes.fill(1);
  other.bytes[31] = 2;  // ids that begin alike
  constexpr uint64_t kGeneration = 1'800'000'000'000;
  EXPECT_EQ(own_rng_seed(one, kGeneration), own_rng_seed(one, kGeneration));
  EXPECT_NE(own_rng_seed(one, kGeneration), own_rng_seed(one, kGeneration + 1));
  Rng first(own_rng_seed(one, kGeneration)), second(own_rng_seed(other, kGeneration));
  int alike = 0;
  for (int draw = 0; draw < 100; ++draw) alike += first.below(1000) == second.below(1000);
  EXPECT_LT(alike, 5);
}

}  // namespace
}  // namespace starling
