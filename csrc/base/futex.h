// The two futex calls we need, on words that may lie in memory shared between processes. Any thread.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>

#include "base/clock.h"

namespace pycomms {

// Sleeps while *word == seen, at most `ns`; may also return early for no reason.
inline void futex_wait(std::atomic<uint32_t>& word, uint32_t seen, int64_t ns) {
  timespec limit{ns / kSecond, static_cast<long>(ns % kSecond)};
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT, seen, &limit, nullptr, 0);
}

inline void futex_wake_all(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

inline void cpu_relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace pycomms
