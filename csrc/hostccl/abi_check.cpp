// Holds our declaration of NCCL's ABI against the real header, wherever that and the CUDA headers it needs are found
// (docs/building.md). Compiles to nothing.
#if __has_include( \
    <nccl.h>) && __has_include(<nccl_device.h>) && __has_include(<cuda_runtime.h>) && __has_include(<cuda_fp16.h>)

// Found by CPATH they are no system headers, and their warnings would be errors.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#include <nccl.h>
#include <nccl_device.h>
#pragma GCC diagnostic pop

#include <cstddef>

#include "hostccl/nccl_abi_newer.h"

namespace {

using namespace nccl_abi;

static_assert(kUniqueIdBytes == NCCL_UNIQUE_ID_BYTES && sizeof(UniqueId) == sizeof(::ncclUniqueId));

static_assert(int{kSuccess} == int{::ncclSuccess} && int{kUnhandledCudaError} == int{::ncclUnhandledCudaError});
static_assert(int{kSystemError} == int{::ncclSystemError} && int{kInternalError} == int{::ncclInternalError});
static_assert(int{kInvalidArgument} == int{::ncclInvalidArgument} && int{kInvalidUsage} == int{::ncclInvalidUsage});
static_assert(int{kRemoteError} == int{::ncclRemoteError} && int{kInProgress} == int{::ncclInProgress});

static_assert(int{kInt8} == int{::ncclInt8} && int{kUint8} == int{::ncclUint8});
static_assert(int{kInt32} == int{::ncclInt32} && int{kUint32} == int{::ncclUint32});
static_assert(int{kInt64} == int{::ncclInt64} && int{kUint64} == int{::ncclUint64});
static_assert(int{kFloat16} == int{::ncclFloat16} && int{kFloat32} == int{::ncclFloat32});
static_assert(int{kFloat64} == int{::ncclFloat64} && int{kBfloat16} == int{::ncclBfloat16});
static_assert(int{kFloat8e4m3} == int{::ncclFloat8e4m3} && int{kFloat8e5m2} == int{::ncclFloat8e5m2});

static_assert(int{kSum} == int{::ncclSum} && int{kProd} == int{::ncclProd} && int{kMax} == int{::ncclMax});
static_assert(int{kMin} == int{::ncclMin} && int{kAvg} == int{::ncclAvg});
static_assert(int{kScalarDevice} == int{::ncclScalarDevice});
static_assert(int{kScalarHostImmediate} == int{::ncclScalarHostImmediate});
static_assert(kUndefInt == NCCL_CONFIG_UNDEF_INT && kSplitNoColor == NCCL_SPLIT_NOCOLOR);
static_assert(kConfigMagic == NCCL_API_MAGIC);

#if NCCL_VERSION_CODE >= 23000 && NCCL_VERSION_CODE < 23100
static_assert(int{kTimeout} == int{::ncclTimeout});
static_assert(sizeof(Config) == sizeof(::ncclConfig_t));
static_assert(offsetof(Config, blocking) == offsetof(::ncclConfig_t, blocking));
static_assert(offsetof(Config, split_share) == offsetof(::ncclConfig_t, splitShare));
static_assert(offsetof(Config, comm_name) == offsetof(::ncclConfig_t, commName));
static_assert(offsetof(Config, graph_stream_ordering) == offsetof(::ncclConfig_t, graphStreamOrdering));

static_assert(kWindowDefault == NCCL_WIN_DEFAULT && kWindowSymmetric == NCCL_WIN_COLL_SYMMETRIC);
static_assert(kWindowAlignment == NCCL_WIN_REQUIRED_ALIGNMENT);
static_assert(kShrinkDefault == NCCL_SHRINK_DEFAULT && kShrinkAbort == NCCL_SHRINK_ABORT);
static_assert(kRevokeDefault == NCCL_REVOKE_DEFAULT && kSuspendMemory == NCCL_SUSPEND_MEM);
static_assert(int{kMemorySuspendable} == int{::ncclStatGpuMemSuspend});
static_assert(int{kMemoryIsSuspended} == int{::ncclStatGpuMemSuspended});
static_assert(int{kMemoryPersistent} == int{::ncclStatGpuMemPersist});
static_assert(int{kMemoryTotal} == int{::ncclStatGpuMemTotal});
static_assert(sizeof(SimulationInfo) == sizeof(::ncclSimInfo_t));
static_assert(offsetof(SimulationInfo, estimated_us) == offsetof(::ncclSimInfo_t, estimatedTime));
static_assert(sizeof(CommProperties) == sizeof(::ncclCommProperties_t));
static_assert(offsetof(CommProperties, device_api) == offsetof(::ncclCommProperties_t, deviceApiSupport));
static_assert(offsetof(CommProperties, lsa_teams) == offsetof(::ncclCommProperties_t, nLsaTeams));
static_assert(offsetof(CommProperties, railed_gin_type) == offsetof(::ncclCommProperties_t, railedGinType));
static_assert(sizeof(WaitSignal) == sizeof(::ncclWaitSignalDesc_t));
static_assert(offsetof(WaitSignal, slot) == offsetof(::ncclWaitSignalDesc_t, sigIdx));
#endif

}  // namespace
#endif
