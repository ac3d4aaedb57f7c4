// How the communicator of a GPU follows a regroup: for every way in which members can come together.

#include <vector>

#include "check.h"
#include "nccl2/core/succession.h"

using namespace pycomms;
using Way = Succession::Way;

namespace {

Heritage of(uint64_t identity, int rank, int size, bool is_calm = true) {
  return {.identity = identity, .rank = rank, .size = size, .is_calm = is_calm ? 1 : 0, .can_shrink = 1, .can_grow = 1};
}
Heritage newcomer() { return {.can_shrink = 1, .can_grow = 1}; }

std::vector<int> list(std::initializer_list<int> ranks) { return ranks; }

}  // namespace

TEST(nobody_has_one) {
  CHECK(decide_succession({newcomer(), newcomer()}).way == Way::kNone);
  CHECK(decide_succession({Heritage{}}).way == Way::kNone);
}

TEST(members_that_stay_in_order_shrink) {
  const Succession how = decide_succession({of(5, 0, 4), of(5, 2, 4), of(5, 3, 4)});
  CHECK(how.way == Way::kOfOld);
  CHECK(how.excluded == list({1}) && !how.revokes && !how.reorders && !how.grows);
  CHECK_EQ(how.survivors, 3);
  CHECK(decide_succession({of(5, 2, 4)}).excluded == list({0, 1, 3}));
}

TEST(what_is_in_flight_anywhere_is_revoked_by_all) {
  CHECK(decide_succession({of(5, 0, 4), of(5, 2, 4, false), of(5, 3, 4)}).revokes);
}

TEST(the_same_members_are_split_in_any_order) {
  for (const auto& members : {std::vector{of(5, 0, 2), of(5, 1, 2)}, std::vector{of(5, 1, 2), of(5, 0, 2)}}) {
    const Succession how = decide_succession(members);
    CHECK(how.way == Way::kOfOld && how.reorders && how.excluded.empty() && !how.grows);
  }
  CHECK(decide_succession({of(5, 0, 2, false), of(5, 1, 2)}).way == Way::kAnew);
}

TEST(newcomers_behind_the_members_are_let_in) {
  Succession how = decide_succession({of(5, 0, 2), of(5, 1, 2), newcomer()});
  CHECK(how.way == Way::kOfOld && how.grows && !how.reorders && how.excluded.empty());
  CHECK_EQ(how.survivors, 2);
  how = decide_succession({of(5, 1, 2), of(5, 0, 2), newcomer()});
  CHECK(how.way == Way::kOfOld && how.grows && how.reorders);
  how = decide_succession({of(5, 0, 3), of(5, 2, 3), newcomer(), newcomer()});
  CHECK(how.way == Way::kOfOld && how.grows && how.excluded == list({1}));
}

TEST(what_the_engine_cannot_do_is_made_anew) {
  CHECK(decide_succession({newcomer(), of(5, 0, 2), of(5, 1, 2)}).way == Way::kAnew);  // the newcomer is not behind
  CHECK(decide_succession({of(5, 0, 2), of(6, 0, 2)}).way == Way::kAnew);              // a merge
  CHECK(decide_succession({of(5, 0, 2), of(5, 1, 2), of(6, 0, 2)}).way == Way::kAnew);
  CHECK(decide_succession({of(5, 2, 3), of(5, 0, 3)}).way == Way::kAnew);  // smaller, and in another order
  CHECK(decide_succession({of(5, 0, 1), newcomer()}).way == Way::kAnew);   // NCCL lets no single rank grow
  CHECK(decide_succession({of(0, 0, 2), of(0, 1, 2)}).way == Way::kAnew);  // which one it was is not known
  Heritage old_engine = of(5, 0, 3);
  old_engine.can_shrink = 0;
  CHECK(decide_succession({old_engine, of(5, 1, 3)}).way == Way::kAnew);
  Heritage no_gpu;
  CHECK(decide_succession({of(5, 0, 2), of(5, 1, 2), no_gpu}).way == Way::kAnew);
  for (const Succession& how : {decide_succession({of(5, 0, 1), newcomer()})}) CHECK(!how.reason.empty());
}

CHECK_MAIN()
