// Failures on order: of the n-th call of a runtime function, or of the n-th piece of device work. And the call counts,
// which live in the same place. Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "failure.h"

namespace cuemu {

// `skip` pass unharmed, the `times` after them fail. With kSuccess they claim success and do nothing.
struct FaultPlan {
  Error error = cuda_abi::kSuccess;
  uint64_t skip = 0;
  uint64_t times = 1;
};

class FaultPoint {
 public:
  // Called once per use; what this use is to return without doing anything, or nothing.
  std::optional<Error> pass() {
    count_.fetch_add(1, std::memory_order_relaxed);
    return armed_.load(std::memory_order_acquire) ? consult() : std::nullopt;
  }
  uint64_t count() const { return count_.load(std::memory_order_relaxed); }
  void reset_count() { count_.store(0, std::memory_order_relaxed); }
  void arm(const FaultPlan& plan);
  void disarm();

 private:
  std::optional<Error> consult();

  std::atomic<uint64_t> count_{0};
  std::atomic<bool> armed_{false};
  std::mutex mutex_;
  FaultPlan plan_;  // GUARDED_BY(mutex_)
};

// The point of a runtime function. Lives for ever.
FaultPoint& fault_point(const std::string& function);
std::vector<std::pair<std::string, FaultPoint*>> all_fault_points();

}  // namespace cuemu
