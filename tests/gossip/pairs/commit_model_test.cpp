// Every interleaving of three exchanges of one ordered pair, with the real decider and voter inside the
// state.
//
// A message once sent stays deliverable for ever: that covers late, doubled and reordered ones, and one that
// is lost is simply never picked. A timeout may strike at any moment. From every state reached, the network
// is then taken to lose all it holds, and what the timers say again must settle everything.
#include <gtest/gtest.h>

#include <array>
#include <compare>
#include <cstdio>
#include <deque>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gossip/exchange/bitmap.h"
#include "gossip/pairs/commit.h"

namespace starling {
namespace {

constexpr size_t kExchanges = 3;

PeerId peer(uint8_t tag) {
  PeerId id;
  id.bytes[0] = tag;
  return id;
}
const PeerId kA = peer(1);
const PeerId kB = peer(2);

enum class Kind : uint8_t { kPropose, kHave, kCommit, kAbort, kAck, kQuery };

struct Sent {
  Kind kind;
  uint64_t counter;
  uint8_t blocks = 0;
  auto operator<=>(const Sent&) const = default;
};

// What unsafe protocols, those of the literature among them, do differently.
enum class Variant { kSound, kQueryDoesNotAbort, kRecordsEvicted, kDoubtTimesOut, kNoHighWaterMark };

struct World {
  CommitDecider decider;
  CommitVoter voter;
  uint64_t opened = 0;
  std::array<uint8_t, kExchanges + 1> applied_a{}, applied_b{};  // K by counter; 0: not applied
  std::array<uint8_t, kExchanges + 1> times_b{};
  std::set<Sent> sent;
  auto operator<=>(const World&) const = default;
};

ExchangeId xid_of(uint64_t counter) { return {kA, 7, counter}; }
CommitTerms terms_of(uint8_t blocks) { return {Bitmap{blocks}, 1}; }

class Model {
 public:
  explicit Model(Variant variant) : variant_(variant) {}

  // Of two blocks: what may have arrived at each end. The first exchange tries the combinations.
  static std::vector<uint8_t> votes(uint64_t counter) {
    return counter == 1 ? std::vector<uint8_t>{1, 3} : std::vector<uint8_t>{3};
  }
  static std::vector<uint8_t> mine(uint64_t counter) {
    return counter == 1 ? std::vector<uint8_t>{2, 3} : std::vector<uint8_t>{3};
  }

  void deliver(World& w, const Sent& m) const {
    switch (m.kind) {
      case Kind::kPropose: return deliver_propose(w, m);
      case Kind::kHave: return say(w, m.counter, w.decider.on_have(m.counter, kB, terms_of(m.blocks)));
      case Kind::kCommit: return deliver_commit(w, m);
      case Kind::kAbort: w.voter.on_abort(xid_of(m.counter)); return;
      case Kind::kAck: w.decider.on_ack(m.counter, kB); return;
      case Kind::kQuery:
        if (variant_ == Variant::kQueryDoesNotAbort && w.decider.is_open(m.counter)) {
          w.sent.insert({Kind::kAbort, m.counter});
          return;
        }
        return say(w, m.counter, w.decider.on_query(m.counter, kB));
    }
  }

  void decide(World& w, uint64_t counter, uint8_t here) const {
    const CommitTerms* terms = w.decider.commit(counter, terms_of(here));
    if (terms == nullptr) {
      w.sent.insert({Kind::kAbort, counter});
      return;
    }
    w.applied_a[counter] = terms->blocks[0];
    w.sent.insert({Kind::kCommit, counter, terms->blocks[0]});
  }

  void time_out(World& w, uint64_t counter) const {
    if (w.decider.abort(counter)) w.sent.insert({Kind::kAbort, counter});
  }

  void successors(const World& w, std::vector<World>& out) const {
    const auto step = [&](auto&& change) {
      World next = w;
      change(next);
      if (next != w) out.push_back(std::move(next));
    };
    for (const Sent& m : w.sent) step([&](World& n) { deliver(n, m); });
    if (w.opened < kExchanges) {
      step([&](World& n) {
        n.decider.open(++n.opened, kB);
        n.sent.insert({Kind::kPropose, n.opened});
      });
    }
    for (uint64_t counter = 1; counter <= w.opened; ++counter) {
      step([&](World& n) { time_out(n, counter); });
      if (w.decider.vote(counter) != nullptr) {
        for (uint8_t here : mine(counter)) step([&](World& n) { decide(n, counter, here); });
      }
      for (uint8_t blocks : votes(counter)) {
        step([&](World& n) {
          if (n.voter.vote(xid_of(counter), terms_of(blocks))) n.sent.insert({Kind::kHave, counter, blocks});
        });
      }
      step([&](World& n) { n.voter.leave(xid_of(counter)); });
      if (w.voter.in_doubt(xid_of(counter))) {
        step([&](World& n) { n.sent.insert({Kind::kQuery, counter}); });
        if (variant_ == Variant::kDoubtTimesOut) step([&](World& n) { n.voter.on_abort(xid_of(counter)); });
      }
      if (variant_ == Variant::kRecordsEvicted) step([&](World& n) { n.decider.on_ack(counter, kB); });
    }
  }

  // Everything in flight is lost; from now on every message arrives, once.
  std::string heal(World w) const {
    w.sent.clear();
    for (int round = 0; round < 4; ++round) {
      for (uint64_t counter = 1; counter <= w.opened; ++counter) {
        time_out(w, counter);
        if (const CommitTerms* terms = w.decider.decision(counter)) {
          w.sent.insert({Kind::kCommit, counter, terms->blocks[0]});
        }
        w.voter.leave(xid_of(counter));
        if (w.voter.in_doubt(xid_of(counter))) w.sent.insert({Kind::kQuery, counter});
      }
      while (!w.sent.empty()) {
        const Sent m = *w.sent.begin();
        w.sent.erase(w.sent.begin());
        deliver(w, m);
      }
    }
    if (w.voter.in_doubt_count() != 0) return "in doubt for ever";
    if (!w.decider.empty()) return "never acknowledged";
    if (w.applied_a != w.applied_b) return "one side applied, or not the same blocks";
    return {};
  }

  // What must hold at every moment, not only in the end.
  std::string fault(const World& w) const {
    for (uint64_t counter = 1; counter <= kExchanges; ++counter) {
      const uint8_t a = w.applied_a[counter], b = w.applied_b[counter];
      if (w.times_b[counter] > 1) return "applied twice";
      if (b != 0 && a != b) return "the acceptor applied what the proposer did not";
      if (a != 0 && b == 0 && !w.voter.in_doubt(xid_of(counter))) return "the proposer applied alone";
    }
    return heal(w);
  }

 private:
  void deliver_propose(World& w, const Sent& m) const {
    if (variant_ == Variant::kNoHighWaterMark && w.voter.in_doubt_count() + w.voter.accepted_count() == 0) {
      w.voter = CommitVoter();
    }
    static_cast<void>(w.voter.accept(xid_of(m.counter)));
  }

  void deliver_commit(World& w, const Sent& m) const {
    switch (w.voter.on_commit(xid_of(m.counter), terms_of(m.blocks))) {
      case CommitVoter::OnCommit::kIgnore: return;
      case CommitVoter::OnCommit::kApply:
        w.applied_b[m.counter] = m.blocks;
        ++w.times_b[m.counter];
        break;
      case CommitVoter::OnCommit::kAcknowledge: break;
    }
    w.sent.insert({Kind::kAck, m.counter});
  }

  void say(World& w, uint64_t counter, CommitAnswer answer) const {
    if (answer == CommitAnswer::kAbort) w.sent.insert({Kind::kAbort, counter});
    if (answer != CommitAnswer::kCommit) return;
    w.sent.insert({Kind::kCommit, counter, w.decider.decision(counter)->blocks[0]});
  }

  Variant variant_;
};

struct Search {
  size_t states = 0;
  size_t committed = 0;  // states in which both sides have applied all three
  std::string fault;
};

Search explore(Variant variant) {
  const Model model(variant);
  Search search;
  std::set<World> seen;
  std::deque<const World*> open;
  const auto visit = [&](World&& w) {
    const auto [it, fresh] = seen.insert(std::move(w));
    if (fresh) open.push_back(&*it);
  };
  visit(World());
  std::vector<World> next;
  while (!open.empty() && search.fault.empty()) {
    const World& w = *open.front();
    open.pop_front();
    search.fault = model.fault(w);
    bool all = true;
    for (uint64_t counter = 1; counter <= kExchanges; ++counter) all = all && w.applied_b[counter] == 3;
    search.committed += all;
    next.clear();
    model.successors(w, next);
    for (World& n : next) visit(std::move(n));
  }
  search.states = seen.size();
  return search;
}

TEST(CommitModel, EveryInterleavingIsBothOrNeitherOnceAndNeverStuck) {
  const Search search = explore(Variant::kSound);
  EXPECT_EQ(search.fault, "");
  EXPECT_GT(search.states, 3000u);
  EXPECT_GT(search.committed, 0u);  // the search did get through the whole protocol
  std::printf("%zu states\n", search.states);
}

TEST(CommitModel, AnsweringAboutAnUndecidedExchangeWithoutAbortingItIsUnsafe) {
  EXPECT_EQ(explore(Variant::kQueryDoesNotAbort).fault, "the proposer applied alone");
}

TEST(CommitModel, EvictedCommitRecordsAreUnsafe) {
  EXPECT_EQ(explore(Variant::kRecordsEvicted).fault, "one side applied, or not the same blocks");
}

TEST(CommitModel, AnAcceptorThatGivesUpByTimeIsUnsafe) {
  EXPECT_EQ(explore(Variant::kDoubtTimesOut).fault, "the proposer applied alone");
}

TEST(CommitModel, WithoutAHighWaterMarkALateProposalIsVotedOnTwice) {
  const std::string fault = explore(Variant::kNoHighWaterMark).fault;
  // The second vote may offer fewer blocks than the commit says: then it waits for ever, which is no better.
  EXPECT_TRUE(fault == "applied twice" || fault == "in doubt for ever") << fault;
}

}  // namespace
}  // namespace starling
