// Exported: devices, their properties, peers.

#include "device.h"

#include <cstdio>
#include <cstring>

#include "abi.h"
#include "api/entry.h"
#include "capture.h"
#include "pool.h"
#include "settings.h"

namespace cuda_abi {
namespace {

using namespace cuemu;

constexpr int kVersion = 13000;

// As much of an H100 as programs ask for.
DeviceProperties properties_of(const Device& device) {
  DeviceProperties p{};
  std::snprintf(p.name, sizeof p.name, "Emulated device %d", device.index);
  p.uuid[0] = 'E';
  p.uuid[15] = static_cast<char>(device.index);
  p.total_memory = device.memory.capacity();
  p.shared_bytes_per_block = 48 << 10;
  p.registers_per_block = p.registers_per_multiprocessor = 64 << 10;
  p.warp_size = 32;
  p.memory_pitch = 0x7FFFFFFF;
  p.max_threads_per_block = 1024;
  p.max_threads[0] = p.max_threads[1] = 1024;
  p.max_threads[2] = 64;
  p.max_grid[0] = 0x7FFFFFFF;
  p.max_grid[1] = p.max_grid[2] = 65535;
  p.constant_memory = 64 << 10;
  p.major = 9;
  p.texture_alignment = 512;
  p.texture_pitch_alignment = 32;
  p.multiprocessors = 132;
  p.can_map_host_memory = 1;
  p.concurrent_kernels = 1;
  p.pci_bus = device.index + 1;
  p.async_engines = 3;
  p.unified_addressing = 1;
  p.l2_bytes = 50 << 20;
  p.max_threads_per_multiprocessor = 2048;
  p.stream_priorities = 1;
  p.shared_bytes_per_multiprocessor = 228 << 10;
  p.cooperative_launch = 1;
  p.shared_bytes_opt_in = 227 << 10;
  p.max_blocks_per_multiprocessor = 32;
  p.host_register = 1;
  p.memory_pools = 1;
  return p;
}

// cudaDeviceAttr by number. What is not here is 0, which reads as "does not have it".
int attribute_of(const Device& device, int attribute) {
  const DeviceProperties p = properties_of(device);
  switch (attribute) {
    case 1:  // MaxThreadsPerBlock
      return p.max_threads_per_block;
    case 8:  // MaxSharedMemoryPerBlock
      return static_cast<int>(p.shared_bytes_per_block);
    case 10:  // WarpSize
      return p.warp_size;
    case 12:  // MaxRegistersPerBlock
      return p.registers_per_block;
    case 16:  // MultiProcessorCount
      return p.multiprocessors;
    case 19:  // CanMapHostMemory
      return p.can_map_host_memory;
    case 31:  // ConcurrentKernels
      return p.concurrent_kernels;
    case 33:  // PciBusId
      return p.pci_bus;
    case 39:  // MaxThreadsPerMultiProcessor
      return p.max_threads_per_multiprocessor;
    case 41:  // UnifiedAddressing
      return p.unified_addressing;
    case 75:  // ComputeCapabilityMajor
      return p.major;
    case 76:  // ComputeCapabilityMinor
      return p.minor;
    case 78:  // StreamPrioritiesSupported
      return p.stream_priorities;
    case 81:  // MaxSharedMemoryPerMultiprocessor
      return static_cast<int>(p.shared_bytes_per_multiprocessor);
    case 95:  // CooperativeLaunch
      return p.cooperative_launch;
    case 97:  // MaxSharedMemoryPerBlockOptin
      return static_cast<int>(p.shared_bytes_opt_in);
    case 115:  // MemoryPoolsSupported
      return p.memory_pools;
    default:
      return 0;
  }
}

}  // namespace

CUEMU_EXPORT Error cudaGetDeviceCount(int* count) {
  static Entry entry("cudaGetDeviceCount");
  return entry.call_always([&] {
    *count = settings().devices;
    require(*count > 0, kNoDevice);
  });
}

CUEMU_EXPORT Error cudaGetDevice(int* index) {
  static Entry entry("cudaGetDevice");
  return entry.call_always([&] { *index = current_device().index; });
}

CUEMU_EXPORT Error cudaSetDevice(int index) {
  static Entry entry("cudaSetDevice");
  return entry.call_always([&] {
    set_current_device(index);
    current_device().check();
  });
}

CUEMU_EXPORT Error cudaInitDevice(int index, unsigned, unsigned) {
  static Entry entry("cudaInitDevice");
  return entry.call_always([&] { device_at(index).activate(); });
}

CUEMU_EXPORT Error cudaDriverGetVersion(int* version) {
  static Entry entry("cudaDriverGetVersion");
  return entry.call_always([&] { *version = kVersion; });
}

CUEMU_EXPORT Error cudaRuntimeGetVersion(int* version) {
  static Entry entry("cudaRuntimeGetVersion");
  return entry.call_always([&] { *version = kVersion; });
}

CUEMU_EXPORT Error cudaGetDeviceProperties(DeviceProperties* properties, int index) {
  static Entry entry("cudaGetDeviceProperties");
  return entry.call_always([&] { *properties = properties_of(device_at(index)); });
}

CUEMU_EXPORT Error cudaDeviceGetAttribute(int* value, int attribute, int index) {
  static Entry entry("cudaDeviceGetAttribute");
  return entry.call_always([&] { *value = attribute_of(device_at(index), attribute); });
}

CUEMU_EXPORT Error cudaDeviceGetPCIBusId(char* text, int capacity, int index) {
  static Entry entry("cudaDeviceGetPCIBusId");
  return entry.call_always([&] {
    const int needed = std::snprintf(text, static_cast<size_t>(capacity), "0000:%02x:00.0", device_at(index).index + 1);
    require(needed < capacity, kInvalidValue);
  });
}

CUEMU_EXPORT Error cudaDeviceGetByPCIBusId(int* index, const char* text) {
  static Entry entry("cudaDeviceGetByPCIBusId");
  return entry.call_always([&] {
    unsigned domain = 0, bus = 0;
    require(std::sscanf(text, "%x:%x", &domain, &bus) == 2, kInvalidValue);
    *index = device_at(static_cast<int>(bus) - 1).index;
  });
}

CUEMU_EXPORT Error cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  static Entry entry("cudaDeviceGetStreamPriorityRange");
  return entry.call_always([&] {
    if (least != nullptr) *least = 0;
    if (greatest != nullptr) *greatest = -5;
  });
}

CUEMU_EXPORT Error cudaDeviceSynchronize() {
  static Entry entry("cudaDeviceSynchronize");
  return entry.call([&] {
    refuse_if_unsafe();
    current_device().synchronize();
    for (const auto& pool : pools_of(current_device())) pool->trim_to_threshold();
  });
}

CUEMU_EXPORT Error cudaDeviceCanAccessPeer(int* can, int index, int peer) {
  static Entry entry("cudaDeviceCanAccessPeer");
  return entry.call_always([&] { *can = &device_at(index) != &device_at(peer); });
}

CUEMU_EXPORT Error cudaDeviceEnablePeerAccess(int peer, unsigned) {
  static Entry entry("cudaDeviceEnablePeerAccess");
  return entry.call([&] { require(&device_at(peer) != &current_device(), kInvalidDevice); });
}

CUEMU_EXPORT Error cudaDeviceDisablePeerAccess(int peer) {
  static Entry entry("cudaDeviceDisablePeerAccess");
  return entry.call([&] { device_at(peer); });
}

// The profiler's marks mean nothing here.
CUEMU_EXPORT Error cudaProfilerStart() {
  static Entry entry("cudaProfilerStart");
  return entry.call([] {});
}

CUEMU_EXPORT Error cudaProfilerStop() {
  static Entry entry("cudaProfilerStop");
  return entry.call([] {});
}

}  // namespace cuda_abi
