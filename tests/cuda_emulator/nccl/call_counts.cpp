#include "call_counts.h"

#include <cstring>
#include <mutex>
#include <vector>

#include "faults.h"

namespace nccl_emulator {
namespace {

struct Known {
  std::mutex mutex;
  std::vector<CallCount*> counts;  // GUARDED_BY(mutex)
};

Known& known() {  // never destroyed: threads may still call
  static auto* all = new Known();
  return *all;
}

}  // namespace

CallCount::CallCount(const char* function) : function_(function) {
  const std::lock_guard lock(known().mutex);
  known().counts.push_back(this);
}

}  // namespace nccl_emulator

using nccl_emulator::CallCount;
using nccl_emulator::known;

NCCL_EXPORT uint64_t ncclEmulatorCalls(const char* function) {
  const std::lock_guard lock(known().mutex);
  for (const CallCount* count : known().counts) {
    if (std::strcmp(count->function(), function) == 0) return count->calls();
  }
  return 0;
}

NCCL_EXPORT void ncclEmulatorResetCalls(void) {
  const std::lock_guard lock(known().mutex);
  for (CallCount* count : known().counts) count->reset();
}

NCCL_EXPORT void ncclEmulatorEachCall(void (*visit)(const char*, uint64_t, void*), void* arg) {
  std::vector<CallCount*> counts;
  {
    const std::lock_guard lock(known().mutex);
    counts = known().counts;
  }
  for (const CallCount* count : counts) {
    if (count->calls() != 0) visit(count->function(), count->calls(), arg);
  }
}
