// The functions of NCCL's C ABI that not every library exports: an older NCCL lacks some, and hostccl those that abi_*.cpp
// do not define. In the table of nccl2/driver a missing one is null, and what it does counts as absent.
// abi_check.cpp holds the values against the real nccl.h. Must not know: torch, CUDA, shared memory.
#pragma once

#include "hostccl/nccl_abi.h"

namespace nccl_abi {

struct WindowRecord;
using WindowHandle = WindowRecord*;  // ncclWindow_t
inline constexpr int kWindowDefault = 0;
inline constexpr int kWindowSymmetric = 1;
inline constexpr size_t kWindowAlignment = 4096;

inline constexpr int kShrinkDefault = 0;
inline constexpr int kShrinkAbort = 1;
inline constexpr int kRevokeDefault = 0;
inline constexpr int kSuspendMemory = 1;

enum MemoryStatistic : int {  // ncclCommMemStat_t; bytes, but for kMemoryIsSuspended: 0 or 1
  kMemorySuspendable = 0,
  kMemoryIsSuspended = 1,
  kMemoryPersistent = 2,
  kMemoryTotal = 3,
};

struct SimulationInfo {  // ncclSimInfo_t
  size_t size = sizeof(SimulationInfo);
  unsigned magic = 0x74685283;
  unsigned version = kConfigVersion;
  float estimated_us = -1.0f;
};

struct CommProperties {  // ncclCommProperties_t of NCCL 2.30
  size_t size = sizeof(CommProperties);
  unsigned magic = kConfigMagic;
  unsigned version = kConfigVersion;
  int rank = 0;
  int ranks = 0;
  int cuda_device = 0;
  int nvml_device = 0;
  bool device_api = false;
  bool multimem = false;
  int gin_type = 0;
  int lsa_teams = 0;
  bool host_rma = false;
  int railed_gin_type = 0;
};

struct WaitSignal {  // ncclWaitSignalDesc_t
  int count;
  int peer;
  int slot;
  int context;
};

// X(member, symbol, result, (parameters)), and the version that has it first.
#define PYCOMMS_NCCL_NEWER_FUNCTIONS(X)                                                                          \
  /* 2.19 */                                                                                                     \
  X(comm_register, ncclCommRegister, Result, (CommHandle comm, void* data, size_t bytes, void** handle))         \
  X(comm_deregister, ncclCommDeregister, Result, (CommHandle comm, void* handle))                                \
  /* 2.22 */                                                                                                     \
  X(group_simulate_end, ncclGroupSimulateEnd, Result, (SimulationInfo * info))                                   \
  /* 2.23 */                                                                                                     \
  X(comm_init_rank_scalable, ncclCommInitRankScalable, Result,                                                   \
    (CommHandle * comm, int nranks, int rank, int id_count, UniqueId* ids, Config* config))                      \
  /* 2.27 */                                                                                                     \
  X(comm_shrink, ncclCommShrink, Result,                                                                         \
    (CommHandle comm, int* excluded, int excluded_count, CommHandle* newcomm, Config* config, int flags))        \
  X(comm_window_register, ncclCommWindowRegister, Result,                                                        \
    (CommHandle comm, void* data, size_t bytes, WindowHandle* window, int flags))                                \
  X(comm_window_deregister, ncclCommWindowDeregister, Result, (CommHandle comm, WindowHandle window))            \
  /* 2.29 */                                                                                                     \
  X(comm_revoke, ncclCommRevoke, Result, (CommHandle comm, int flags))                                           \
  X(comm_get_unique_id, ncclCommGetUniqueId, Result, (CommHandle comm, UniqueId * id))                           \
  X(comm_grow, ncclCommGrow, Result,                                                                             \
    (CommHandle comm, int nranks, const UniqueId* id, int rank, CommHandle* newcomm, Config* config))            \
  X(get_peer_device_pointer, ncclGetPeerDevicePointer, Result,                                                   \
    (WindowHandle window, size_t offset, int peer, void** pointer))                                              \
  X(comm_query_properties, ncclCommQueryProperties, Result, (CommHandle comm, CommProperties * properties))      \
  X(put_signal, ncclPutSignal, Result,                                                                           \
    (const void* local, size_t count, DataType type, int peer, WindowHandle window, size_t offset, int slot,     \
     int context, unsigned flags, CommHandle comm, StreamHandle stream))                                         \
  X(signal, ncclSignal, Result,                                                                                  \
    (int peer, int slot, int context, unsigned flags, CommHandle comm, StreamHandle stream))                     \
  X(wait_signal, ncclWaitSignal, Result, (int count, WaitSignal* signals, CommHandle comm, StreamHandle stream)) \
  /* 2.30 */                                                                                                     \
  X(comm_suspend, ncclCommSuspend, Result, (CommHandle comm, int flags))                                         \
  X(comm_resume, ncclCommResume, Result, (CommHandle comm))                                                      \
  X(comm_mem_stats, ncclCommMemStats, Result, (CommHandle comm, MemoryStatistic statistic, uint64_t* value))

}  // namespace nccl_abi
