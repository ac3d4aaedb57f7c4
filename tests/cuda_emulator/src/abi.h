// The part of the CUDA 13 runtime's C ABI that the emulator speaks, declared by us: no CUDA header is needed to build it.
// abi_check.cpp holds every value and layout against the real headers wherever those are present.
// Must not know: how anything is emulated.
#pragma once

#include <cstddef>
#include <cstdint>

#define CUEMU_EXPORT extern "C" __attribute__((visibility("default")))

namespace cuda_abi {

enum Error : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kMemoryAllocation = 2,
  kInitializationError = 3,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kNoKernelImage = 209,
  kPeerAccessUnsupported = 217,
  kOperatingSystem = 304,
  kInvalidResourceHandle = 400,
  kIllegalState = 401,
  kNotReady = 600,
  kIllegalAddress = 700,
  kLaunchTimeout = 702,
  kPeerAccessAlreadyEnabled = 704,
  kPeerAccessNotEnabled = 705,
  kAssert = 710,
  kHostMemoryAlreadyRegistered = 712,
  kHostMemoryNotRegistered = 713,
  kLaunchFailure = 719,
  kNotSupported = 801,
  kStreamCaptureUnsupported = 900,
  kStreamCaptureInvalidated = 901,
  kStreamCaptureMerge = 902,
  kStreamCaptureUnmatched = 903,
  kStreamCaptureUnjoined = 904,
  kStreamCaptureIsolation = 905,
  kStreamCaptureImplicit = 906,
  kCapturedEvent = 907,
  kStreamCaptureWrongThread = 908,
  kUnknown = 999,
};

// Handles are numbers of our own (src/handles.h), never addresses; nodes alone are addresses.
using StreamHandle = struct StreamTag*;
using EventHandle = struct EventTag*;
using GraphHandle = struct GraphTag*;
using GraphExecHandle = struct GraphExecTag*;
using GraphNodeHandle = struct GraphNodeTag*;
using UserObjectHandle = struct UserObjectTag*;
using MemPoolHandle = struct MemPoolTag*;
using HostFn = void (*)(void* arg);
using StreamCallback = void (*)(StreamHandle stream, Error status, void* arg);

inline constexpr uintptr_t kLegacyStream = 1;
inline constexpr uintptr_t kPerThreadStream = 2;

inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kEventInterprocess = 4;
inline constexpr unsigned kEventExternal = 1;  // cudaEventRecordExternal, cudaEventWaitExternal
inline constexpr unsigned kUserObjectMove = 1;

enum MemcpyKind : int { kHostToHost, kHostToDevice, kDeviceToHost, kDeviceToDevice, kCopyDefault };
enum MemoryType : int { kUnregistered, kHost, kDevice, kManaged };
enum CaptureMode : int { kCaptureGlobal, kCaptureThreadLocal, kCaptureRelaxed };
enum CaptureStatus : int { kCaptureNone, kCaptureActive, kCaptureInvalidated };
enum UpdateDependencies : unsigned { kAddDependencies, kSetDependencies };
enum DriverEntryResult : int { kEntryFound, kEntryNotFound };
enum MemPoolAttribute : int {
  kReuseFollowEventDependencies = 1,
  kReuseAllowOpportunistic = 2,
  kReuseAllowInternalDependencies = 3,
  kReleaseThreshold = 4,
  kReservedCurrent = 5,
  kReservedHigh = 6,
  kUsedCurrent = 7,
  kUsedHigh = 8,
};
enum NodeType : int {
  kKernelNode = 0,
  kMemcpyNode = 1,
  kMemsetNode = 2,
  kHostNode = 3,
  kChildGraphNode = 4,
  kEmptyNode = 5,
  kWaitEventNode = 6,
  kEventRecordNode = 7,
};

struct PointerAttributes {
  MemoryType type;
  int device;
  void* device_pointer;
  void* host_pointer;
  long reserved[8];
};

struct FuncAttributes {
  size_t shared_bytes, constant_bytes, local_bytes;
  int max_threads_per_block, registers, ptx_version, binary_version, cache_mode_ca, max_dynamic_shared_bytes;
  int others[7];
  int reserved[16];
};

struct MemLocation {
  int type;
  int id;
};
struct MemAccess {
  MemLocation location;
  int flags;
};
struct MemPoolProps {
  int alloc_type;
  int handle_types;
  MemLocation location;
  void* win32_security;
  size_t max_bytes;
  unsigned short usage;
  unsigned char reserved[54];
};

struct Dim3 {
  unsigned x, y, z;
};
struct LaunchConfig {
  Dim3 grid, block;
  size_t shared_bytes;
  StreamHandle stream;
  void* attributes;
  unsigned attribute_count;
};

// The fields up to shared_bytes_opt_in are named because something reads one of them; the rest is zero.
struct DeviceProperties {
  char name[256];
  char uuid[16];
  char luid[8];
  unsigned luid_node_mask;
  size_t total_memory;
  size_t shared_bytes_per_block;
  int registers_per_block, warp_size;
  size_t memory_pitch;
  int max_threads_per_block, max_threads[3], max_grid[3];
  size_t constant_memory;
  int major, minor;
  size_t texture_alignment, texture_pitch_alignment;
  int multiprocessors, integrated, can_map_host_memory;
  int textures[38];
  size_t surface_alignment;
  int concurrent_kernels, ecc_enabled, pci_bus, pci_device, pci_domain, tcc_driver, async_engines, unified_addressing;
  int memory_bus_width, l2_bytes, persisting_l2_bytes, max_threads_per_multiprocessor, stream_priorities;
  int global_l1, local_l1;
  size_t shared_bytes_per_multiprocessor;
  int registers_per_multiprocessor, managed_memory, multi_gpu_board, multi_gpu_group, host_native_atomics;
  int pageable_memory_access, concurrent_managed_access, compute_preemption, host_pointer_for_registered;
  int cooperative_launch;
  size_t shared_bytes_opt_in;
  int pageable_uses_host_tables, managed_from_host, max_blocks_per_multiprocessor, access_policy_bytes;
  size_t reserved_shared_bytes;
  int host_register, sparse_arrays, host_register_read_only, timeline_semaphores, memory_pools;
  int rest[71];
};

}  // namespace cuda_abi
