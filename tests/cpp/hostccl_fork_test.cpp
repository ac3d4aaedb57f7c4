// What all threads of a process share is its own in a forked child, even if another thread was using it when that was
// forked: a lock that was held then stays locked there for ever.

#include "forks.h"
#include "hostccl/life.h"
#include "hostccl/residence.h"

using namespace hostccl;

TEST(a_forked_child_has_a_residence_of_its_own) {
  const auto parents = residence();
  CHECK(parents.is_ok());
  const std::string before = to_text(parents.value());
  check::fork_while([] { static_cast<void>(residence()); },
                    [&] {
                      const auto own = residence();
                      return own.is_ok() && to_text(own.value()) != before;
                    });
}

TEST(a_forked_child_keeps_its_own_life) {
  LifeNode node{}, childs{};
  check::fork_while([&] { static_cast<void>(LifeHold::take(node)); },
                    [&] {
                      const auto hold = LifeHold::take(childs);
                      return hold.is_ok() && childs.word.load() != 0;
                    });
}

CHECK_MAIN()
