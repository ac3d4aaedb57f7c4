// Holds our declaration of CUDA's ABI against the headers of CUDA 13, wherever those are found (CUEMU_CUDA_INCLUDE in CMake).
// Compiles to nothing.
#if __has_include(<cuda_runtime_api.h>)
#include <cuda_runtime_api.h>
#endif

#if defined(CUDART_VERSION) && CUDART_VERSION >= 13000 && CUDART_VERSION < 14000

#include "abi.h"

namespace {

using namespace cuda_abi;

static_assert(int{kInvalidValue} == int{cudaErrorInvalidValue} &&
              int{kMemoryAllocation} == int{cudaErrorMemoryAllocation});
static_assert(int{kInitializationError} == int{cudaErrorInitializationError} &&
              int{kNoDevice} == int{cudaErrorNoDevice});
static_assert(int{kInvalidDevice} == int{cudaErrorInvalidDevice});
static_assert(int{kNoKernelImage} == int{cudaErrorNoKernelImageForDevice});
static_assert(int{kPeerAccessUnsupported} == int{cudaErrorPeerAccessUnsupported});
static_assert(int{kOperatingSystem} == int{cudaErrorOperatingSystem});
static_assert(int{kInvalidResourceHandle} == int{cudaErrorInvalidResourceHandle});
static_assert(int{kIllegalState} == int{cudaErrorIllegalState} && int{kNotReady} == int{cudaErrorNotReady});
static_assert(int{kIllegalAddress} == int{cudaErrorIllegalAddress} && int{kAssert} == int{cudaErrorAssert});
static_assert(int{kLaunchTimeout} == int{cudaErrorLaunchTimeout} && int{kLaunchFailure} == int{cudaErrorLaunchFailure});
static_assert(int{kPeerAccessAlreadyEnabled} == int{cudaErrorPeerAccessAlreadyEnabled});
static_assert(int{kPeerAccessNotEnabled} == int{cudaErrorPeerAccessNotEnabled});
static_assert(int{kHostMemoryAlreadyRegistered} == int{cudaErrorHostMemoryAlreadyRegistered});
static_assert(int{kHostMemoryNotRegistered} == int{cudaErrorHostMemoryNotRegistered});
static_assert(int{kNotSupported} == int{cudaErrorNotSupported} && int{kUnknown} == int{cudaErrorUnknown});
static_assert(int{kStreamCaptureUnsupported} == int{cudaErrorStreamCaptureUnsupported});
static_assert(int{kStreamCaptureInvalidated} == int{cudaErrorStreamCaptureInvalidated});
static_assert(int{kStreamCaptureMerge} == int{cudaErrorStreamCaptureMerge});
static_assert(int{kStreamCaptureUnmatched} == int{cudaErrorStreamCaptureUnmatched});
static_assert(int{kStreamCaptureUnjoined} == int{cudaErrorStreamCaptureUnjoined});
static_assert(int{kStreamCaptureIsolation} == int{cudaErrorStreamCaptureIsolation});
static_assert(int{kStreamCaptureImplicit} == int{cudaErrorStreamCaptureImplicit});
static_assert(int{kCapturedEvent} == int{cudaErrorCapturedEvent});
static_assert(int{kStreamCaptureWrongThread} == int{cudaErrorStreamCaptureWrongThread});

static_assert(kStreamNonBlocking == cudaStreamNonBlocking && kEventDisableTiming == cudaEventDisableTiming);
static_assert(kEventInterprocess == cudaEventInterprocess && kUserObjectMove == cudaGraphUserObjectMove);
static_assert(kEventExternal == cudaEventRecordExternal && kEventExternal == cudaEventWaitExternal);
static_assert(int{kDevice} == int{cudaMemoryTypeDevice} && int{kHost} == int{cudaMemoryTypeHost});
static_assert(int{kCaptureRelaxed} == int{cudaStreamCaptureModeRelaxed});
static_assert(int{kCaptureInvalidated} == int{cudaStreamCaptureStatusInvalidated});
static_assert(unsigned{kSetDependencies} == unsigned{cudaStreamSetCaptureDependencies});
static_assert(int{kReleaseThreshold} == int{cudaMemPoolAttrReleaseThreshold});
static_assert(int{kUsedHigh} == int{cudaMemPoolAttrUsedMemHigh});
static_assert(int{kEventRecordNode} == int{cudaGraphNodeTypeEventRecord});
static_assert(int{kHostNode} == int{cudaGraphNodeTypeHost} && int{kEmptyNode} == int{cudaGraphNodeTypeEmpty});

static_assert(sizeof(PointerAttributes) == sizeof(cudaPointerAttributes));
static_assert(offsetof(PointerAttributes, host_pointer) == offsetof(cudaPointerAttributes, hostPointer));
static_assert(sizeof(FuncAttributes) == sizeof(cudaFuncAttributes));
static_assert(offsetof(FuncAttributes, binary_version) == offsetof(cudaFuncAttributes, binaryVersion));
static_assert(sizeof(MemAccess) == sizeof(cudaMemAccessDesc) && sizeof(MemPoolProps) == sizeof(cudaMemPoolProps));
static_assert(sizeof(LaunchConfig) == sizeof(cudaLaunchConfig_t));
static_assert(offsetof(LaunchConfig, stream) == offsetof(cudaLaunchConfig_t, stream));

static_assert(sizeof(DeviceProperties) == sizeof(cudaDeviceProp));
static_assert(offsetof(DeviceProperties, total_memory) == offsetof(cudaDeviceProp, totalGlobalMem));
static_assert(offsetof(DeviceProperties, major) == offsetof(cudaDeviceProp, major));
static_assert(offsetof(DeviceProperties, multiprocessors) == offsetof(cudaDeviceProp, multiProcessorCount));
static_assert(offsetof(DeviceProperties, surface_alignment) == offsetof(cudaDeviceProp, surfaceAlignment));
static_assert(offsetof(DeviceProperties, pci_bus) == offsetof(cudaDeviceProp, pciBusID));
static_assert(offsetof(DeviceProperties, unified_addressing) == offsetof(cudaDeviceProp, unifiedAddressing));
static_assert(offsetof(DeviceProperties, l2_bytes) == offsetof(cudaDeviceProp, l2CacheSize));
static_assert(offsetof(DeviceProperties, cooperative_launch) == offsetof(cudaDeviceProp, cooperativeLaunch));
static_assert(offsetof(DeviceProperties, shared_bytes_opt_in) == offsetof(cudaDeviceProp, sharedMemPerBlockOptin));
static_assert(offsetof(DeviceProperties, host_register) == offsetof(cudaDeviceProp, hostRegisterSupported));
static_assert(offsetof(DeviceProperties, memory_pools) == offsetof(cudaDeviceProp, memoryPoolsSupported));

}  // namespace

#endif
