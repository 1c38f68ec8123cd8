// The guard of a group's round. A contribution or an average that is much farther away than all others is left out, as
// if it were lost: the other members' blocks count in full. A member that is left out takes the average, so an honest
// one is near again in the next round.
//
// The sum of squares over one block is compared with what is usual over the *whole* section. One block alone is no fair
// sample: the rows of a class belong to the one member that has the class, and there it is many times as far away as
// the others. But no part of it is farther away than the whole. So a model in many blocks is guarded less closely than
// one in a single block. In B blocks, a lie that is spread evenly passes up to kFar * sqrt(B) times the usual distance.
//
// Not held: models about as far away as honest ones, such as a sign flip, a member that stands still, or slightly
// longer steps. Nor more broken members than `most`, and a liar that grows slowly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "compression/layout.h"
#include "gossip/exchange/group_members.h"
#include "gossip/exchange/robust_window.h"

namespace starling {

// Which contributions to one block are left out.
struct FarRule {
  double factor = 0;         // times the usual distance; 0: none is left out
  double usual_squares = 0;  // between two members, over the block's whole section; 0: not known
  size_t most = 1;           // left out of one block; at most so many may be broken
};

// One contribution as the rule sees it.
struct Contributed {
  double squares = 0;  // sum over the block of (contribution - own)^2
  double pace = 1;     // steps since its sender last took an average, in units of the usual; at least 1
};

// Whether each is far: more than `factor` times the usual from the owner, where usual is the rule's or, if it is
// larger, the largest distance of all but `most`. With so many liars that is an honest member's. Where most are far
// beyond the rule's usual, or it is not known, only those are far that are kFarAtFirst times that one.
std::vector<bool> far_ones(const FarRule& rule, const std::vector<Contributed>& contributions);

class GroupGuard {
 public:
  static constexpr double kFar = 3;              // 2.5 ejects honest members that then drift and are ejected again
  static constexpr double kFarOfFew = 10;        // of three members, and of other sections
  static constexpr double kFarAtFirst = 100;     // while what was usual says nothing
  static constexpr size_t kOwnersToCompare = 3;  // with fewer the past alone is compared with

  // `far`: a multiple of the usual distance; 0: no guard. `layout` must outlive the object.
  GroupGuard(const Layout& layout, double far);

  // `drift`: rms of what the own steps of the round moved the params; 0: not known.
  FarRule rule(uint32_t block, size_t member_count, double drift) const;

  // The end of a round: the blocks with averages that are far from the own ones, of at most max(1, n/8) owners, and
  // never of all. Learns from the round. `squares`: by block, sum of (average - own)^2; nullopt: there is none. `drift`
  // as for rule(). A block's average is refused from few owners only. If the next owner's is far too, this agent itself
  // is far, and would otherwise never mix that block again.
  std::vector<uint32_t> refused(const GroupMembers& members, uint64_t round,
                                const std::vector<std::optional<double>>& squares, double drift);

 private:
  static constexpr size_t kSamplesMin = 4;   // rounds before an average is judged by what was usual
  static constexpr unsigned kMissedMax = 7;  // rounds without an average that make the next one farther away

  struct PastBlock {
    unsigned missed = 0;          // rounds since its last average counted, refused ones not among them
    std::set<PeerId> refused_of;  // owners of averages that were refused since one counted
  };
  double factor(uint32_t section, size_t member_count) const;
  bool may_refuse(uint32_t block, const GroupMembers& members, size_t owner) const;
  double squares_in_steps(uint32_t block, double squares) const;
  std::vector<std::optional<double>> squares_of_owners(uint32_t section, const GroupMembers& members, uint64_t round,
                                                       const std::vector<std::optional<double>>& squares) const;
  std::vector<size_t> far_owners(uint32_t section, const GroupMembers& members,
                                 const std::vector<std::optional<double>>& by_owner, double growth) const;
  double growth(double drift) const;
  void learn(uint32_t section, const std::vector<std::optional<double>>& squares, const std::vector<bool>& refused);

  const Layout& layout_;
  const double far_;
  std::vector<RobustWindow> usual_;  // by section: squared distances from own to average, over the section
  RobustWindow steps_;               // squares of drifts
  std::vector<PastBlock> past_;      // by block
};

}  // namespace starling
