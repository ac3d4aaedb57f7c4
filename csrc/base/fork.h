// Tells whether this process is the one that made an object, or a child forked from it: a number that grows by one in
// every forked child. Reading it costs one load, where getpid() costs a system call.
#pragma once

#include <atomic>
#include <cstdint>

namespace pycomms {

uint32_t fork_generation();

// The one T of this process. A forked child has none of its parent's threads, and locks that these held stay locked: it
// gets a T of its own at its first call. Never destroyed: threads may outlive main.
template <typename T>
T& per_process() {
  struct Made {
    T one;
    const uint32_t generation = fork_generation();
  };
  static std::atomic<Made*> current{nullptr};
  Made* seen = current.load(std::memory_order_acquire);
  if (seen != nullptr && seen->generation == fork_generation()) return seen->one;
  auto* made = new Made();
  if (current.compare_exchange_strong(seen, made, std::memory_order_acq_rel)) return made->one;
  delete made;
  return seen->one;
}

}  // namespace pycomms
