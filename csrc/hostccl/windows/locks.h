// The lock of a window: held by one rank alone, or by several together. Whoever wants it alone keeps new holders out and waits for
// those who share it to leave. The lock of a dead holder is broken by the next who finds it held.
//
// Steps that do not wait; whoever waits repeats them and sleeps on the block's bell in between. Any thread of the rank, or the
// owner's service on its behalf. Must not know: how a death is noticed, how to wait.
#pragma once

#include <functional>

#include "hostccl/windows/memory.h"

namespace hostccl {

class WindowLockAttempt {
 public:
  // is_dead(rank): whether a holder's process has ended.
  WindowLockAttempt(const WindowMemory& memory, int rank, bool shared, std::function<bool(int)> is_dead)
      : memory_(memory), rank_(rank), shared_(shared), is_dead_(std::move(is_dead)) {}

  // True when the lock is held.
  bool try_now();
  // Without having got it: leaves no trace.
  void give_up();
  // The rank that had died with the lock, or -1.
  int broken() const { return broken_; }
  // Who is in the way, for a message: its rank, or -1.
  int holder() const;

 private:
  bool try_alone();
  bool try_shared();
  bool break_dead_writer(uint32_t seen);

  const WindowMemory& memory_;
  const int rank_;
  const bool shared_;
  const std::function<bool(int)> is_dead_;
  bool keeps_others_out_ = false;
  int broken_ = -1;
};

// False: this rank does not hold it so.
bool unlock(const WindowMemory& memory, int rank, bool shared);

}  // namespace hostccl
