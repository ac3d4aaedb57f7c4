// Holds nccl_types.h against NCCL's own headers, where they and CUDA's are on the include path. Compiles to nothing.

#if __has_include(<nccl.h>) && __has_include(<nccl_device.h>) && __has_include(<cuda.h>)

#include <cuda.h>
#include <nccl.h>
#include <nccl_device.h>

#include "nccl_types.h"

namespace {

using nccl_emulator::CommProperties;
using nccl_emulator::WaitSignal;

#define SAME_PLACE(ours, our_member, theirs, their_member) \
  static_assert(offsetof(ours, our_member) == offsetof(theirs, their_member))

static_assert(sizeof(CommProperties) == sizeof(ncclCommProperties_t));
SAME_PLACE(CommProperties, magic, ncclCommProperties_t, magic);
SAME_PLACE(CommProperties, rank, ncclCommProperties_t, rank);
SAME_PLACE(CommProperties, ranks, ncclCommProperties_t, nRanks);
SAME_PLACE(CommProperties, cuda_device, ncclCommProperties_t, cudaDev);
SAME_PLACE(CommProperties, nvml_device, ncclCommProperties_t, nvmlDev);
SAME_PLACE(CommProperties, device_api, ncclCommProperties_t, deviceApiSupport);
SAME_PLACE(CommProperties, multimem, ncclCommProperties_t, multimemSupport);
SAME_PLACE(CommProperties, gin_type, ncclCommProperties_t, ginType);
SAME_PLACE(CommProperties, lsa_teams, ncclCommProperties_t, nLsaTeams);
SAME_PLACE(CommProperties, host_rma, ncclCommProperties_t, hostRmaSupport);
SAME_PLACE(CommProperties, railed_gin_type, ncclCommProperties_t, railedGinType);
static_assert(CommProperties::kNoGin == NCCL_GIN_TYPE_NONE);

static_assert(sizeof(WaitSignal) == sizeof(ncclWaitSignalDesc_t));
SAME_PLACE(WaitSignal, count, ncclWaitSignalDesc_t, opCnt);
SAME_PLACE(WaitSignal, peer, ncclWaitSignalDesc_t, peer);
SAME_PLACE(WaitSignal, slot, ncclWaitSignalDesc_t, sigIdx);
SAME_PLACE(WaitSignal, context, ncclWaitSignalDesc_t, ctx);

static_assert(static_cast<int>(nccl_emulator::kCanSuspend) == ncclStatGpuMemSuspend);
static_assert(static_cast<int>(nccl_emulator::kIsSuspended) == ncclStatGpuMemSuspended);
static_assert(static_cast<int>(nccl_emulator::kPersistent) == ncclStatGpuMemPersist);
static_assert(static_cast<int>(nccl_emulator::kTotal) == ncclStatGpuMemTotal);
static_assert(nccl_emulator::kSuspendMemory == NCCL_SUSPEND_MEM);

}  // namespace

#endif
