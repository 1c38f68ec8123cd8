#include "gossip/net/open_links.h"

#include <gtest/gtest.h>

namespace starling {
namespace {

using std::chrono::seconds;

using Sources = std::vector<std::string>;

const TimePoint kStart = TimePoint() + seconds(100);

TEST(OpenLinks, CountFromAnAgeOnUntilTheyClose) {
  OpenLinks links(seconds(4));
  links.opened(7, "a", kStart);
  links.opened(8, "b", kStart + seconds(1));
  EXPECT_TRUE(links.some_grow_old());
  EXPECT_EQ(links.grown_old(kStart + seconds(3)), Sources{});
  EXPECT_EQ(links.grown_old(kStart + seconds(4)), Sources{"a"});
  EXPECT_EQ(links.grown_old(kStart + seconds(4)), Sources{}) << "once";
  EXPECT_EQ(links.closed(7), Sources{"a"});
  EXPECT_EQ(links.closed(8), Sources{}) << "it had not counted yet";
  EXPECT_EQ(links.grown_old(kStart + seconds(9)), Sources{});
  EXPECT_FALSE(links.some_grow_old());
}

TEST(OpenLinks, AreOtherLinksWhereTheirDescriptorIsUsedAgain) {
  OpenLinks links(seconds(4));
  links.opened(7, "a", kStart);
  links.closed(7);
  links.opened(7, "b", kStart + seconds(3));
  EXPECT_EQ(links.grown_old(kStart + seconds(4)), Sources{});
  EXPECT_EQ(links.grown_old(kStart + seconds(7)), Sources{"b"});
}

TEST(OpenLinks, AreNoneWhereTheEndWasToldBeforeTheBeginning) {
  OpenLinks links(seconds(4));
  EXPECT_EQ(links.closed(7), Sources{});
  links.opened(7, "a", kStart);
  EXPECT_EQ(links.grown_old(kStart + seconds(9)), Sources{});
  links.opened(7, "b", kStart + seconds(9));
  EXPECT_EQ(links.grown_old(kStart + seconds(13)), Sources{"b"}) << "the next one is";
  EXPECT_EQ(links.closed(7), Sources{"b"});
}

TEST(OpenLinks, AllEndWithTheirSocket) {
  OpenLinks links(seconds(4));
  links.opened(7, "a", kStart);
  links.opened(8, "b", kStart + seconds(2));
  links.grown_old(kStart + seconds(4));
  EXPECT_EQ(links.all_closed(), Sources{"a"});
  EXPECT_EQ(links.closed(7), Sources{});
}

}  // namespace
}  // namespace starling
