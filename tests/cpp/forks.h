// Children that are forked while another thread of the parent is at work.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "check.h"

namespace check {

inline constexpr unsigned kPatienceSeconds = 20;

// Forks now and then while another thread does `busily` without a pause; each child does `once`.
template <typename Busily, typename Once>
void fork_while(Busily busily, Once once) {
  if (!kForksBesideThreads) return;
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

}  // namespace check
