// Exported: memory, registration, suspension and its statistics; what is alive.

#include "call_counts.h"
#include "device_runtime.h"
#include "faults.h"
#include "handle.h"
#include "hostccl/nccl_abi_newer.h"
#include "refusal.h"
#include "registrations.h"

using namespace nccl_emulator;
using nccl_abi::kInvalidArgument;
using nccl_abi::kInvalidUsage;
using nccl_abi::kSuccess;

namespace {

// What a communicator is said to hold; hostccl has no device memory.
constexpr uint64_t kSuspendable = 4 << 20;
constexpr uint64_t kPersistentBytes = 256 << 10;

}  // namespace

NCCL_EXPORT Result ncclMemAlloc(void** pointer, size_t size) {
  NCCL_COUNT_CALL();
  if (pointer == nullptr) return refuse(kInvalidArgument, "ptr is null");
  if (allocate(pointer, size) == 0) return kSuccess;
  return refuse(nccl_abi::kUnhandledCudaError, "cudaMalloc failed");
}

NCCL_EXPORT Result ncclMemFree(void* pointer) {
  NCCL_COUNT_CALL();
  if (pointer == nullptr || release(pointer) == 0) return kSuccess;
  return refuse(nccl_abi::kUnhandledCudaError, "cudaFree failed");
}

NCCL_EXPORT Result ncclCommRegister(Comm comm, void* buffer, size_t size, void** number) {
  NCCL_COUNT_CALL();
  NCCL_FIND(handle, comm);
  RETURN_IF_REFUSED(handle->check_ready(__func__));
  if (number == nullptr || !is_device_memory(buffer) || size == 0) {
    return refuse(kInvalidArgument, "handle is null, size is 0, or buff is no device memory");
  }
  *number = add_registration({comm, buffer, size, -1});
  return kSuccess;
}

NCCL_EXPORT Result ncclCommDeregister(Comm comm, void* number) {
  NCCL_COUNT_CALL();
  NCCL_FIND(handle, comm);
  if (remove_registration(comm, number)) return kSuccess;
  return refuse(kInvalidArgument, "handle was not made by ncclCommRegister on this communicator, or was given back");
}

NCCL_EXPORT Result ncclCommSuspend(Comm comm, int flags) {
  NCCL_COUNT_CALL();
  NCCL_FIND(handle, comm);
  if (flags != nccl_abi::kSuspendMemory) return refuse(kInvalidArgument, "flags must be NCCL_SUSPEND_MEM");
  RETURN_IF_REFUSED(handle->check_ready(__func__));
  if (handle->change(State::kReady, State::kSuspended)) return kSuccess;
  return refuse(kInvalidUsage, "called by another thread too");
}

NCCL_EXPORT Result ncclCommResume(Comm comm) {
  NCCL_COUNT_CALL();
  NCCL_FIND(handle, comm);
  if (handle->change(State::kSuspended, State::kReady)) return kSuccess;
  return refuse(kInvalidUsage, std::string("ncclCommResume: the communicator is ") + state_name(handle->state()));
}

NCCL_EXPORT Result ncclCommMemStats(Comm comm, nccl_abi::MemoryStatistic stat, uint64_t* value) {
  NCCL_COUNT_CALL();
  NCCL_FIND(handle, comm);
  if (value == nullptr) return refuse(kInvalidArgument, "value is null");
  switch (stat) {
    case nccl_abi::kMemorySuspendable:
      *value = kSuspendable;
      return kSuccess;
    case nccl_abi::kMemoryIsSuspended:
      *value = handle->state() == State::kSuspended ? 1 : 0;
      return kSuccess;
    case nccl_abi::kMemoryPersistent:
      *value = kPersistentBytes;
      return kSuccess;
    case nccl_abi::kMemoryTotal:
      *value = kSuspendable + kPersistentBytes;
      return kSuccess;
  }
  return refuse(kInvalidArgument, "unknown statistic");
}

NCCL_EXPORT void ncclEmulatorCountLive(ncclEmulatorLive_t* live) {
  const RegistrationCounts counts = count_registrations();
  *live = {Handle::count(), counts.windows, counts.buffers};
}
