// What the folder of a certified swarm's key says and gives away.
#include "agent/process/admissions.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "agent/process/state_folder.h"
#include "agent/process/trust.h"
#include "gossip/net/member_keys.h"
#include "tests/agent/state/planned_file_ops.h"

namespace starling {
namespace {

class AdmissionsTest : public testing::Test {
 protected:
  std::string error() const {
    try {
      (void)read_admissions(folder_.path());
      return "";
    } catch (const std::runtime_error& error) {
      return error.what();
    }
  }
  const Folder folder_;
  const Identity key_{KeySeed{1}}, member_{KeySeed{2}}, other_{KeySeed{3}};
};

TEST_F(AdmissionsTest, WhatIsSignedIsReadAgain) {
  EXPECT_FALSE(holds_admissions(folder_.path()));
  begin_admissions(folder_.path());
  EXPECT_TRUE(holds_admissions(folder_.path()));
  EXPECT_TRUE(read_admissions(folder_.path()).empty());
  const std::string revocation = sign_revocation(key_, member_.id(), 3);
  {
    AdmissionBook book(folder_.path());
    EXPECT_EQ(book.next_serial(), 1u);
    book.add({book.next_serial(), member_.id(), 1000});
    book.add({book.next_serial(), other_.id()});
    book.add({book.next_serial(), member_.id(), 0, revocation});
    book.store();
  }
  const AdmissionBook again(folder_.path());
  ASSERT_EQ(again.rows().size(), 3u);
  EXPECT_EQ(again.rows()[0].not_after, 1000u);
  EXPECT_EQ(again.rows()[1].id, other_.id());
  EXPECT_EQ(again.next_serial(), 4u);
  EXPECT_TRUE(again.revoked(member_.id()));
  EXPECT_FALSE(again.revoked(other_.id()));
  EXPECT_EQ(revocations_in(folder_.path()), revocation);
  struct stat info{};
  ASSERT_EQ(::stat((folder_.path() + "/admissions").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(AdmissionsTest, ADamagedLineIsNamed) {
  const std::string id = member_.id().hex();
  for (const std::string& line : {std::string("1"), "x " + id + " admitted 0", std::string("1 abc admitted 0"),
                                  "1 " + id + " admitted", "1 " + id + " admitted 5x", "1 " + id + " admitted 5 6",
                                  "1 " + id + " revoked AAAA", "1 " + id + " expelled 0"}) {
    std::ofstream(folder_.path() + "/admissions") << "# a note\n\n" << line << "\n";
    EXPECT_NE(error().find("restore it"), std::string::npos) << line;
  }
}

// A ticket of a shared swarm would give the key away.
TEST_F(AdmissionsTest, NoTicketHoldsTheKeyOfACertifiedSwarm) {
  const std::string state = folder_.path() + "/state";
  for (int life = 0; life < 2; ++life) {
    const StatePlace place(state);
    if (life == 0) place.keep_swarm_key(key_, true);
    EXPECT_TRUE(place.holds_certified_key());
    EXPECT_FALSE(place.admitted());
    place.store_address({"10.0.0.1", 7400});
    EXPECT_EQ(place.ticket({"10.0.0.1", 7400}), "");
    EXPECT_FALSE(std::filesystem::exists(state + "/ticket"));
    EXPECT_NE(how_others_are_admitted(place), "");
  }
}

TEST_F(AdmissionsTest, AMemberKeepsItsTicketWithoutTheIdentityInIt) {
  const std::string state = folder_.path() + "/state";
  const KeySeed seed{2};
  Ticket ticket{.at = {"10.0.0.1", 7400}, .id = other_.id()};
  ticket.admission = admit(key_, {.id = member_.id()});
  ticket.admission->identity = seed;
  const StatePlace place(state, &seed);
  EXPECT_EQ(place.id(), member_.id());
  place.keep_ticket(ticket);
  place.store_address({"10.0.0.2", 7400});  // its own, of which there is no ticket
  EXPECT_TRUE(place.admitted());
  EXPECT_FALSE(stored_ticket(state).value().admission->identity);
  ticket.admission->identity.reset();
  EXPECT_EQ(stored_ticket(state), ticket);
}

TEST_F(AdmissionsTest, AnIdentityThatAFolderHasStays) {
  const std::string state = folder_.path() + "/state";
  const PeerId own = StatePlace(state).id();
  const KeySeed seed{2};
  EXPECT_EQ(StatePlace(state, &seed).id(), own);
}

TEST_F(AdmissionsTest, ATicketIsCheckedBeforeItIsTaken) {
  const KeySeed seed{2};
  const StatePlace place(folder_.path() + "/state", &seed);
  const auto refusal = [&](const Identity& signer, const SignedMembership& membership) {
    Ticket ticket;
    ticket.admission = admit(signer, membership);
    try {
      (void)keys_of_ticket(ticket, place, key_.id());
      return std::string();
    } catch (const std::runtime_error& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(refusal(key_, {.id = member_.id()}), "");
  EXPECT_EQ(refusal(key_, {member_.id(), 1, 1}), "") << "the members judge whether it has expired";
  EXPECT_NE(refusal(key_, {.id = other_.id()}).find("is for the agent"), std::string::npos);
  EXPECT_NE(refusal(other_, {.id = member_.id()}).find("another swarm"), std::string::npos);
}

}  // namespace
}  // namespace starling
