// What all threads of a process share is its own in a forked child, even if another thread was using it when that was
// forked: a lock that was held then stays locked there for ever.

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "check.h"
#include "hostccl/life.h"
#include "hostccl/residence.h"

using namespace hostccl;

namespace {

constexpr unsigned kPatienceSeconds = 20;

// Forks now and then while another thread does `busily` without a pause; each child does `once`.
template <typename Busily, typename Once>
void fork_while(Busily busily, Once once) {
  if (!check::kForksBesideThreads) return;
  constexpr int kForks = 40;
  std::atomic<bool> is_over{false};
  std::thread busy([&] {
    while (!is_over.load(std::memory_order_relaxed)) busily();
  });
  int well = 0;
  for (int i = 0; i < kForks; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(kPatienceSeconds);
      _exit(once() ? 0 : 1);
    }
    int status = -1;
    if (waitpid(child, &status, 0) == child && status == 0) ++well;
    if (well != i + 1) break;
  }
  is_over.store(true, std::memory_order_relaxed);
  busy.join();
  CHECK_EQ(well, kForks);
}

}  // namespace

TEST(a_forked_child_has_a_residence_of_its_own) {
  const auto parents = residence();
  CHECK(parents.is_ok());
  const std::string before = to_text(parents.value());
  fork_while([] { static_cast<void>(residence()); },
             [&] {
               const auto own = residence();
               return own.is_ok() && to_text(own.value()) != before;
             });
}

TEST(a_forked_child_keeps_its_own_life) {
  LifeNode node{}, childs{};
  fork_while([&] { static_cast<void>(LifeHold::take(node)); },
             [&] {
               const auto hold = LifeHold::take(childs);
               return hold.is_ok() && childs.word.load() != 0;
             });
}

CHECK_MAIN()
