// A mutex that is waited for until a deadline. Any thread. Not fair. Must not know: what it guards.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/futex.h"

namespace pycomms {

class TimedMutex {
 public:
  bool try_lock() {
    uint32_t expected = kFree;
    return word_.compare_exchange_strong(expected, kTaken, std::memory_order_seq_cst);
  }
  // False: the deadline has passed.
  bool lock(Deadline deadline) {
    if (try_lock()) return true;
    while (word_.exchange(kWaitedFor, std::memory_order_seq_cst) != kFree) {
      const int64_t left = deadline.left();
      if (left == 0) return false;
      futex_wait(word_, kWaitedFor, left);
    }
    return true;
  }
  void unlock() {
    if (word_.exchange(kFree, std::memory_order_seq_cst) == kWaitedFor) futex_wake_all(word_);
  }

 private:
  static constexpr uint32_t kFree = 0, kTaken = 1, kWaitedFor = 2;
  std::atomic<uint32_t> word_{kFree};
};

}  // namespace pycomms
