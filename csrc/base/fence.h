// Fences, for what two processes read and write in the same memory. A race detector sees one process and knows no fences: there
// they do nothing. Any thread.
#pragma once

#include <atomic>

namespace pycomms {

inline void fence(std::memory_order order) {
#if defined(__SANITIZE_THREAD__)
  static_cast<void>(order);
#else
  std::atomic_thread_fence(order);
#endif
}

}  // namespace pycomms
