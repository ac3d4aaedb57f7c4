// Exported: what is not emulated. Each says so, on stderr and to ncclGetLastError, and returns ncclInvalidUsage. Their
// arguments are left out: a C caller does not mind.

#include "call_counts.h"
#include "refusal.h"

#define NCCL_NOT_EMULATED(function)               \
  NCCL_EXPORT nccl_abi::Result function() {       \
    NCCL_COUNT_CALL();                            \
    return nccl_emulator::unsupported(#function); \
  }

// Communication from within kernels.
NCCL_NOT_EMULATED(ncclDevCommCreate)
NCCL_NOT_EMULATED(ncclDevCommDestroy)
NCCL_NOT_EMULATED(ncclGetLsaDevicePointer)
NCCL_NOT_EMULATED(ncclGetLsaMultimemDevicePointer)
NCCL_NOT_EMULATED(ncclGetMultimemDevicePointer)

// Parameters.
NCCL_NOT_EMULATED(ncclParamBind)
NCCL_NOT_EMULATED(ncclParamGet)
NCCL_NOT_EMULATED(ncclParamGetI8)
NCCL_NOT_EMULATED(ncclParamGetI16)
NCCL_NOT_EMULATED(ncclParamGetI32)
NCCL_NOT_EMULATED(ncclParamGetI64)
NCCL_NOT_EMULATED(ncclParamGetU8)
NCCL_NOT_EMULATED(ncclParamGetU16)
NCCL_NOT_EMULATED(ncclParamGetU32)
NCCL_NOT_EMULATED(ncclParamGetU64)
NCCL_NOT_EMULATED(ncclParamGetStr)
NCCL_NOT_EMULATED(ncclParamGetParameter)
NCCL_NOT_EMULATED(ncclParamGetAllParameterKeys)
NCCL_NOT_EMULATED(ncclParamDumpAll)
NCCL_NOT_EMULATED(ncclResetDebugInit)
