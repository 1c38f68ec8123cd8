#include "gossip/net/text.h"

#include <gtest/gtest.h>

namespace starling {
namespace {

using std::string_view_literals::operator""sv;

TEST(Text, TakesWhatPeopleWrite) {
  for (const std::string_view text : {""sv, "node-3"sv, "Zürich"sv, "京都"sv, "\U0001f426 starling"sv, "\u00a0~"sv}) {
    EXPECT_TRUE(is_one_line(text)) << text;
    EXPECT_TRUE(is_plain_text(text)) << text;
  }
  EXPECT_TRUE(is_plain_text("a: 1\n\tb: 2\n"));
  EXPECT_FALSE(is_one_line("a\nb"));
  EXPECT_FALSE(is_one_line("a\tb"));
}

TEST(Text, RefusesWhatTakesOverATerminal) {
  for (const std::string_view text :
       {"\0"sv, "a\0b"sv, "\x1b[2J"sv, "\r"sv, "\b"sv, "\x7f"sv, "\xc2\x9b"sv, "\u202eabc"sv, "\u2066"sv, "\u2028"sv}) {
    EXPECT_FALSE(is_plain_text(text));
  }
}

TEST(Text, RefusesBrokenUtf8) {
  for (const std::string_view text :
       {"\x80"sv, "\xc3"sv, "a\xc3"sv, "\xc3("sv, "\xc0\xaf"sv, "\xc1\xbf"sv, "\xe0\x80\xaf"sv, "\xe0\x9f\xbf"sv,
        "\xe2\x82"sv, "\xed\xa0\x80"sv, "\xf0\x80\x80\xaf"sv, "\xf0\x8f\xbf\xbf"sv, "\xf4\x90\x80\x80"sv,
        "\xf5\x80\x80\x80"sv, "\xff"sv, "\xf0\x9f\x90"sv}) {
    EXPECT_FALSE(is_plain_text(text));
    EXPECT_FALSE(is_one_line(text));
  }
}

}  // namespace
}  // namespace starling
