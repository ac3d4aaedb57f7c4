// The types of NCCL 2.30 that hostccl has no use for. nccl_types_check.cpp holds them against the real headers where there
// are any.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nccl_emulator {

struct CommProperties {  // ncclCommProperties_t
  static constexpr int kNoGin = 0;
  size_t size;
  unsigned magic;
  unsigned version;
  int rank;
  int ranks;
  int cuda_device;
  int nvml_device;
  bool device_api;
  bool multimem;
  int gin_type;
  int lsa_teams;
  bool host_rma;
  int railed_gin_type;
};

struct WaitSignal {  // ncclWaitSignalDesc_t
  int count;
  int peer;
  int slot;
  int context;
};

enum MemoryStat : int { kCanSuspend = 0, kIsSuspended = 1, kPersistent = 2, kTotal = 3 };  // ncclCommMemStat_t

inline constexpr int kSuspendMemory = 1;

}  // namespace nccl_emulator
