#include "fault_plan.h"

#include <array>
#include <mutex>

#include "call_counts.h"
#include "faults.h"

namespace nccl_emulator {
namespace {

// `skip` pass, the `times` after them are struck.
struct Schedule {
  uint64_t skip = 0;
  uint64_t times = 0;
  bool next() {
    if (times == 0) return false;
    if (skip != 0) {
      --skip;
      return false;
    }
    --times;
    return true;
  }
};

struct Stalls {
  Schedule when;
  int64_t polls = 0;
};

struct Plan {
  std::mutex mutex;
  std::array<Stalls, ncclEmulatorPoints> stalls;  // GUARDED_BY(mutex), as all that follows
  Schedule operation;
  OperationFault fault{nccl_abi::kSuccess, {}};
  bool abort_waits = false;
  uint64_t struck = 0;
};

Plan& plan() {
  static auto* one = new Plan();
  return *one;
}

}  // namespace

std::optional<int64_t> next_stall(Point point) {
  const std::lock_guard lock(plan().mutex);
  Stalls& stalls = plan().stalls[static_cast<size_t>(point)];
  if (!stalls.when.next()) return std::nullopt;
  ++plan().struck;
  return stalls.polls;
}

std::optional<OperationFault> next_operation_fault() {
  const std::lock_guard lock(plan().mutex);
  if (!plan().operation.next()) return std::nullopt;
  ++plan().struck;
  return plan().fault;
}

bool abort_waits_for_device() {
  const std::lock_guard lock(plan().mutex);
  return plan().abort_waits;
}

}  // namespace nccl_emulator

using namespace nccl_emulator;

NCCL_EXPORT int ncclEmulatorStayInProgress(int point, int64_t polls, uint64_t skip, uint64_t times) {
  if (point < 0 || point >= ncclEmulatorPoints) return 1;
  const std::lock_guard lock(plan().mutex);
  plan().stalls[static_cast<size_t>(point)] = {{skip, times}, polls};
  return 0;
}

NCCL_EXPORT int ncclEmulatorFailOperation(uint64_t skip, int result, const char* text) {
  if (result < nccl_abi::kSuccess || result > nccl_abi::kTimeout || result == nccl_abi::kInProgress) return 1;
  const std::lock_guard lock(plan().mutex);
  plan().operation = {skip, 1};
  plan().fault = {static_cast<Result>(result), text != nullptr ? text : "a test has ordered this error"};
  return 0;
}

NCCL_EXPORT void ncclEmulatorAbortWaitsForDevice(int waits) {
  const std::lock_guard lock(plan().mutex);
  plan().abort_waits = waits != 0;
}

NCCL_EXPORT void ncclEmulatorClearFaults(void) {
  const std::lock_guard lock(plan().mutex);
  plan().abort_waits = false;
  plan().stalls = {};
  plan().operation = {};
}

NCCL_EXPORT uint64_t ncclEmulatorStruck(void) {
  const std::lock_guard lock(plan().mutex);
  return plan().struck;
}
