// On a pseudo-terminal, whose other end is read as a person would see it.
#include "agent/report/redrawn.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace starling {
namespace {

class RedrawnTest : public testing::Test {
 protected:
  RedrawnTest() {
    EXPECT_EQ(setenv("TERM", "xterm", 1), 0);
    int inner = -1;
    EXPECT_EQ(openpty(&outer_, &inner, nullptr, nullptr, nullptr), 0);
    EXPECT_EQ(fcntl(outer_, F_SETFL, O_NONBLOCK), 0);
    out_ = fdopen(inner, "w");
    resize(20, 5);
  }
  ~RedrawnTest() override {
    std::fclose(out_);
    close(outer_);
  }
  void resize(unsigned short columns, unsigned short rows) {
    const winsize size{.ws_row = rows, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    ASSERT_EQ(ioctl(outer_, TIOCSWINSZ, &size), 0);
  }
  // All that was printed since the last one.
  std::string take(const Redrawn& drawn) {
    drawn.flush(std::chrono::seconds(20));  // of its thread
    char text[4096];
    const ssize_t count = read(outer_, text, sizeof text);
    return count > 0 ? std::string(text, static_cast<size_t>(count)) : "";
  }

  int outer_ = -1;
  std::FILE* out_ = nullptr;
};

TEST_F(RedrawnTest, LinesTakeThePlaceOfTheLastOnes) {
  Redrawn drawn(out_);
  ASSERT_TRUE(drawn.terminal());
  drawn.draw({"one", "two"});
  EXPECT_EQ(take(drawn), "one\r\ntwo\r\n") << "the cursor is on a fresh line";
  drawn.draw({"three"});
  EXPECT_EQ(take(drawn), "\x1b[2A\r\x1b[Jthree\r\n");
  drawn.keep();
  drawn.draw({"four"});
  EXPECT_EQ(take(drawn), "four\r\n");
}

TEST_F(RedrawnTest, LinesAreCutToTheTerminalByWholeCharacters) {
  Redrawn drawn(out_);
  drawn.draw({"a · b · c · d · e · f · g"});
  EXPECT_EQ(take(drawn), "a · b · c · d · e · \r\n");
  drawn.draw({"1", "2", "3", "4", "5"});
  EXPECT_EQ(take(drawn), "\x1b[1A\r\x1b[J1\r\n2\r\n3\r\n... and 2 more lines\r\n");
}

TEST_F(RedrawnTest, ANarrowerTerminalShowsALineInSeveralRowsWhichAllGo) {
  Redrawn drawn(out_);
  drawn.draw({"123456789012345678"});
  take(drawn);
  resize(10, 5);
  drawn.print("");
  EXPECT_EQ(take(drawn), "\x1b[2A\r\x1b[J");
  drawn.print("");
  EXPECT_EQ(take(drawn), "") << "nothing is drawn";
}

TEST_F(RedrawnTest, TextGoesAboveTheLinesAndStays) {
  Redrawn drawn(out_);
  drawn.print("first\n", {"row"});
  EXPECT_EQ(take(drawn), "first\r\nrow\r\n");
  drawn.print("second\n", {"row"});
  EXPECT_EQ(take(drawn), "\x1b[1A\r\x1b[Jsecond\r\nrow\r\n");
}

// Ctrl-S, then lines for days, then Ctrl-Q.
TEST_F(RedrawnTest, AStoppedTerminalKeepsNobodyWaitingAndHearsHowMuchIsMissing) {
  Redrawn drawn(out_);
  ASSERT_EQ(tcflow(fileno(out_), TCOOFF), 0);
  const std::string line = std::string(1000, 'x') + "\n";
  for (int i = 0; i < 3000; ++i) drawn.print(line, {"row"});
  ASSERT_EQ(tcflow(fileno(out_), TCOON), 0);
  std::string text;
  const auto read_on = [&] {
    pollfd ready{outer_, POLLIN, 0};
    char part[65536];
    while (poll(&ready, 1, 1000) == 1) {
      const ssize_t count = read(outer_, part, sizeof part);
      if (count > 0) text.append(part, static_cast<size_t>(count));
      if (text.find("end of it") != std::string::npos) return;
    }
  };
  read_on();
  drawn.print("end of it\n", {"row"});
  read_on();
  const size_t notice = text.find("lines are missing so far"), last = text.find("end of it");
  EXPECT_NE(notice, std::string::npos);
  EXPECT_LT(notice, last);
  const auto shown = std::count(text.begin(), text.end(), '\n');
  EXPECT_GT(shown, 500);
  EXPECT_LT(shown, 5000);
}

TEST_F(RedrawnTest, ADumbTerminalAndAFileAreNone) {
  ASSERT_EQ(setenv("TERM", "dumb", 1), 0);
  EXPECT_FALSE(Redrawn(out_).terminal());
  ASSERT_EQ(unsetenv("TERM"), 0);
  EXPECT_FALSE(Redrawn(out_).terminal());
  ASSERT_EQ(setenv("TERM", "xterm", 1), 0);
  std::FILE* file = std::tmpfile();
  EXPECT_FALSE(Redrawn(file).terminal());
  std::fclose(file);
}

}  // namespace
}  // namespace starling
