// How often the program has called each function. One CallCount in each exported function:
//   static CallCount count(__func__);
//   count.add();
// Threads: any.
#pragma once

#include <atomic>
#include <cstdint>

namespace nccl_emulator {

class CallCount {
 public:
  explicit CallCount(const char* function);
  void add() { calls_.fetch_add(1, std::memory_order_relaxed); }

  const char* function() const { return function_; }
  uint64_t calls() const { return calls_.load(std::memory_order_relaxed); }
  void reset() { calls_.store(0, std::memory_order_relaxed); }

 private:
  const char* const function_;
  std::atomic<uint64_t> calls_{0};
};

}  // namespace nccl_emulator

#define NCCL_EXPORT extern "C" __attribute__((visibility("default")))
#define NCCL_COUNT_CALL()                            \
  do {                                               \
    static nccl_emulator::CallCount count(__func__); \
    count.add();                                     \
  } while (false)
