#include "agent/state/known_members.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <string>

#include "gossip/rng.h"
#include "tests/agent/state/planned_file_ops.h"

namespace starling {
namespace {

KnownMember member(Rng& rng, const std::string& host) {
  KnownMember made;
  for (uint8_t& byte : made.id.bytes) byte = static_cast<uint8_t>(rng.below(256));
  made.address = {host, static_cast<uint16_t>(1 + rng.below(65535))};
  return made;
}

void put(const Folder& folder, const std::string& text) {
  const std::string path = folder.path() + "/members";
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
}

TEST(KnownMembers, AreThereInTheNextLife) {
  const Folder folder;
  EXPECT_EQ(read_known_members(folder.path()), KnownMembers());
  Rng rng(testing::UnitTest::GetInstance()->random_seed() + 1);
  const auto disk = make_file_ops();
  for (int trial = 0; trial < 20; ++trial) {
    KnownMembers known;
    const size_t count = rng.below(kKnownMembersMax + 1);
    for (size_t i = 0; i < count; ++i) {
      const char* hosts[] = {"10.1.2.3", "fe80::1", "gpu-7.example.org"};
      known.members.push_back(member(rng, hosts[rng.below(3)]));
    }
    known.together = rng.below(static_cast<uint32_t>(count) + 1);
    known.behind = rng.next_u64();
    known.finished = rng.below(2) == 1;
    known.finished_at = known.finished ? rng.next_u64() : 0;
    write_known_members(folder.path(), known, *disk);
    EXPECT_EQ(read_known_members(folder.path()), known);
  }
}

TEST(KnownMembers, OfAFileThatWasCutOrEditedWhatMakesSenseCounts) {
  const Folder folder;
  Rng rng(7);
  const KnownMember good = member(rng, "10.1.2.3");
  const std::string line = good.address.to_string() + " " + good.id.hex();
  for (const std::string& other :
       {std::string("# a remark"), std::string("10.1.2.3:7400"), std::string("10.1.2.3:0 ") + good.id.hex(),
        std::string("no address ") + good.id.hex(), std::string("behind many"), std::string(1000, 'x'),
        line.substr(0, line.size() - 1), std::string("\0\xff\x01", 3)}) {
    put(folder, other + "\n" + line + "\n" + other);
    const KnownMembers known = read_known_members(folder.path());
    EXPECT_EQ(known.members, std::vector{good}) << other;
    EXPECT_FALSE(known.finished);
  }
  std::string many;
  for (size_t i = 0; i < 2 * kKnownMembersMax; ++i) many += line + "\n";
  put(folder, many);
  EXPECT_EQ(read_known_members(folder.path()).members.size(), kKnownMembersMax);
}

}  // namespace
}  // namespace starling
