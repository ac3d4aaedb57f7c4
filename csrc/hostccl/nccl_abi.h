// The part of NCCL's C ABI that pycomms speaks, declared by us so that it compiles where no NCCL header exists.
// abi_check.cpp holds every value and layout against the real nccl.h wherever that one is present.
// Both sides use it: libhostccl.so exports these functions, nccl2/driver calls them through a table.
// Must not know: torch, CUDA, shared memory.
#pragma once

#include <climits>
#include <cstddef>
#include <cstdint>

namespace nccl_abi {

struct Comm;                 // ncclComm
using CommHandle = Comm*;    // ncclComm_t
using StreamHandle = void*;  // cudaStream_t, or a hostccl stream

inline constexpr int kUniqueIdBytes = 128;
struct UniqueId {
  char internal[kUniqueIdBytes];
};

enum Result : int {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
  kTimeout = 8,
};

enum DataType : int {
  kInt8 = 0,
  kUint8 = 1,
  kInt32 = 2,
  kUint32 = 3,
  kInt64 = 4,
  kUint64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9,
  kFloat8e4m3 = 10,
  kFloat8e5m2 = 11,
  // hostccl only: what CPU users expect and NCCL has no name for.
  kInt16 = 64,
  kUint16 = 65,
  kBool = 66,
  kComplex64 = 67,
  kComplex128 = 68,
};

enum RedOp : int {
  kSum = 0,
  kProd = 1,
  kMax = 2,
  kMin = 3,
  kAvg = 4,
  // From 5 upwards: handed out by RedOpCreatePreMulSum.
  // hostccl only:
  kBitAnd = 1 << 20,
  kBitOr = (1 << 20) + 1,
  kBitXor = (1 << 20) + 2,
};

enum ScalarResidence : int { kScalarDevice = 0, kScalarHostImmediate = 1 };

inline constexpr unsigned kConfigMagic = 0xcafebeef;
inline constexpr int kConfigVersion = 23007;
inline constexpr int kUndefInt = INT_MIN;
inline constexpr int kSplitNoColor = -1;

struct Config {  // ncclConfig_t of NCCL 2.30
  size_t size = sizeof(Config);
  unsigned magic = kConfigMagic;
  unsigned version = kConfigVersion;
  int blocking = kUndefInt;
  int cga_cluster_size = kUndefInt;
  int min_ctas = kUndefInt;
  int max_ctas = kUndefInt;
  const char* net_name = nullptr;
  int split_share = kUndefInt;
  int traffic_class = kUndefInt;
  const char* comm_name = nullptr;
  int collnet_enable = kUndefInt;
  int cta_policy = kUndefInt;
  int shrink_share = kUndefInt;
  int nvls_ctas = kUndefInt;
  int n_channels_per_net_peer = kUndefInt;
  int nvlink_centric_sched = kUndefInt;
  int graph_usage_mode = kUndefInt;
  int num_rma_ctx = kUndefInt;
  int max_p2p_peers = kUndefInt;
  int graph_stream_ordering = kUndefInt;
};

// Every function of NCCL that pycomms uses, once: X(member, symbol, result, (parameters)).
// hostccl's abi_*.cpp define them, nccl2/driver/nccl_api.h makes a table of pointers of them.
#define PYCOMMS_NCCL_FUNCTIONS(X)                                                                                      \
  X(get_version, ncclGetVersion, Result, (int* version))                                                               \
  X(get_unique_id, ncclGetUniqueId, Result, (UniqueId * id))                                                           \
  X(comm_init_rank_config, ncclCommInitRankConfig, Result,                                                             \
    (CommHandle * comm, int nranks, UniqueId id, int rank, Config* config))                                            \
  X(comm_init_rank, ncclCommInitRank, Result, (CommHandle * comm, int nranks, UniqueId id, int rank))                  \
  X(comm_finalize, ncclCommFinalize, Result, (CommHandle comm))                                                        \
  X(comm_destroy, ncclCommDestroy, Result, (CommHandle comm))                                                          \
  X(comm_abort, ncclCommAbort, Result, (CommHandle comm))                                                              \
  X(comm_split, ncclCommSplit, Result, (CommHandle comm, int color, int key, CommHandle* newcomm, Config* config))     \
  X(get_error_string, ncclGetErrorString, const char*, (Result result))                                                \
  X(get_last_error, ncclGetLastError, const char*, (CommHandle comm))                                                  \
  X(comm_get_async_error, ncclCommGetAsyncError, Result, (CommHandle comm, Result * async_error))                      \
  X(comm_count, ncclCommCount, Result, (CommHandle comm, int* count))                                                  \
  X(comm_cu_device, ncclCommCuDevice, Result, (CommHandle comm, int* device))                                          \
  X(comm_user_rank, ncclCommUserRank, Result, (CommHandle comm, int* rank))                                            \
  X(mem_alloc, ncclMemAlloc, Result, (void** ptr, size_t size))                                                        \
  X(mem_free, ncclMemFree, Result, (void* ptr))                                                                        \
  X(red_op_create_pre_mul_sum, ncclRedOpCreatePreMulSum, Result,                                                       \
    (RedOp * op, void* scalar, DataType datatype, ScalarResidence residence, CommHandle comm))                         \
  X(red_op_destroy, ncclRedOpDestroy, Result, (RedOp op, CommHandle comm))                                             \
  X(reduce, ncclReduce, Result,                                                                                        \
    (const void* send, void* recv, size_t count, DataType type, RedOp op, int root, CommHandle comm,                   \
     StreamHandle stream))                                                                                             \
  X(broadcast, ncclBroadcast, Result,                                                                                  \
    (const void* send, void* recv, size_t count, DataType type, int root, CommHandle comm, StreamHandle stream))       \
  X(all_reduce, ncclAllReduce, Result,                                                                                 \
    (const void* send, void* recv, size_t count, DataType type, RedOp op, CommHandle comm, StreamHandle stream))       \
  X(reduce_scatter, ncclReduceScatter, Result,                                                                         \
    (const void* send, void* recv, size_t recv_count, DataType type, RedOp op, CommHandle comm, StreamHandle stream))  \
  X(all_gather, ncclAllGather, Result,                                                                                 \
    (const void* send, void* recv, size_t send_count, DataType type, CommHandle comm, StreamHandle stream))            \
  X(all_to_all, ncclAlltoAll, Result,                                                                                  \
    (const void* send, void* recv, size_t count, DataType type, CommHandle comm, StreamHandle stream))                 \
  X(gather, ncclGather, Result,                                                                                        \
    (const void* send, void* recv, size_t count, DataType type, int root, CommHandle comm, StreamHandle stream))       \
  X(scatter, ncclScatter, Result,                                                                                      \
    (const void* send, void* recv, size_t count, DataType type, int root, CommHandle comm, StreamHandle stream))       \
  X(send, ncclSend, Result,                                                                                            \
    (const void* send, size_t count, DataType type, int peer, CommHandle comm, StreamHandle stream))                   \
  X(recv, ncclRecv, Result, (void* recv, size_t count, DataType type, int peer, CommHandle comm, StreamHandle stream)) \
  X(group_start, ncclGroupStart, Result, ())                                                                           \
  X(group_end, ncclGroupEnd, Result, ())

}  // namespace nccl_abi
