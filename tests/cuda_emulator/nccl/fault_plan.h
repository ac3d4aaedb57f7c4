// Faults that a test has ordered, and which call they strike. Threads: any. Must not know: communicators.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "inner.h"

namespace nccl_emulator {

enum class Point : int { kInit, kSplit, kOperation };

// To be asked once for each call at the point. How many polls it is to stay in progress, < 0: for ever; or none.
std::optional<int64_t> next_stall(Point point);

struct OperationFault {
  Result result;
  std::string text;
};
// To be asked once for each operation.
std::optional<OperationFault> next_operation_fault();

// Whether an abort waits until its device has nothing to do.
bool abort_waits_for_device();

}  // namespace nccl_emulator
