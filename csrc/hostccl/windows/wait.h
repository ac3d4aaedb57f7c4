// How a one-sided operation waits: it spins, yields, then sleeps on a bell, and looks at every step for what it waits for, for
// trouble, the deadline and Ctrl-C. Unlike the waiting of collectives (wait.h of hostccl) it publishes nothing: an error is the
// caller's alone.
//
// Threads: belongs to the call that made it. Must not know: windows, what is waited for.
#pragma once

#include "base/clock.h"
#include "base/status.h"
#include "hostccl/layout.h"
#include "hostccl/wait.h"

namespace hostccl {

class BellWait {
 public:
  BellWait(Bell& bell, const Patience& patience, pycomms::Deadline deadline)
      : bell_(bell), patience_(patience), deadline_(deadline) {}

  // Until ready() is true, or trouble() is not ok, which is then returned; kTimeout when the deadline passed, and the text is the
  // caller's to write; kInterrupted.
  template <typename Ready, typename Trouble>
  pycomms::Status until(Ready&& ready, Trouble&& trouble) {
    for (int i = 0; i < patience_.spins; ++i) {
      if (ready()) return pycomms::Status::ok();
      pycomms::cpu_relax();
    }
    const int64_t yield_until = pycomms::now_ns() + patience_.yield_ns;
    for (int64_t now = 0;;) {
      for (int i = 0; i < kYieldsBetweenChecks; ++i) {
        if (ready()) return pycomms::Status::ok();
        if (now < yield_until) sched_yield();
      }
      now = pycomms::now_ns();
      pycomms::Status why = trouble();
      if (why.is_ok()) why = check(now);
      if (!why.is_ok()) return ready() ? pycomms::Status::ok() : why;  // it may have come before the trouble
      if (now >= yield_until && sleep_once(ready)) return pycomms::Status::ok();
    }
  }

 private:
  static constexpr int kYieldsBetweenChecks = 32;
  static constexpr int64_t kSleepSlice = 2 * pycomms::kMillisecond;  // bounds how late trouble is noticed

  pycomms::Status check(int64_t now);
  // Whoever publishes stores first and looks for sleepers second; we do the opposite: one of us sees the other.
  template <typename Ready>
  bool sleep_once(Ready&& ready) {
    bell_.sleepers.fetch_add(1, std::memory_order_seq_cst);
    const uint32_t seen = bell_.rung.load(std::memory_order_seq_cst);
    const bool is_ready = ready();
    if (!is_ready) pycomms::futex_wait(bell_.rung, seen, std::clamp<int64_t>(deadline_.left(), 1, kSleepSlice));
    bell_.sleepers.fetch_sub(1, std::memory_order_seq_cst);
    return is_ready;
  }

  Bell& bell_;
  const Patience patience_;
  const pycomms::Deadline deadline_;
  int64_t asked_hook_ = 0;
};

}  // namespace hostccl
