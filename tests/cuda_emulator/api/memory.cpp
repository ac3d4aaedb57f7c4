// Exported: device memory, host memory, and what a pointer is.

#include "abi.h"
#include "api/entry.h"
#include "api/resolve.h"
#include "capture.h"
#include "pinned.h"

namespace cuda_abi {
namespace {

using namespace cuemu;

void allocate_host(void** out, size_t bytes, unsigned flags) {
  require(out != nullptr, kInvalidValue);
  refuse_if_unsafe();
  current_device().activate();
  *out = bytes == 0 ? nullptr : pinned_memory().allocate(bytes, flags);
  require(bytes == 0 || *out != nullptr, kMemoryAllocation);
}

}  // namespace

CUEMU_EXPORT Error cudaMalloc(void** out, size_t bytes) {
  static Entry entry("cudaMalloc");
  return entry.call([&] {
    require(out != nullptr, kInvalidValue);
    refuse_if_unsafe();
    current_device().activate();
    *out = bytes == 0 ? nullptr : current_device().memory.allocate(bytes);
    require(bytes == 0 || *out != nullptr, kMemoryAllocation);
  });
}

// As in CUDA, it waits for the work of the device.
CUEMU_EXPORT Error cudaFree(void* start) {
  static Entry entry("cudaFree");
  return entry.call_always([&] {
    if (start == nullptr) return current_device().check();
    refuse_if_unsafe();
    Device* device = device_of(start);
    require(device != nullptr && device->memory.allocation_of(start).start == start, kInvalidValue);
    const Failure failure = device->failure();
    if (failure.code == kSuccess) device->synchronize();
    device->memory.release(start);
    if (failure.code != kSuccess) throw failure;
  });
}

CUEMU_EXPORT Error cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  static Entry entry("cudaMemGetInfo");
  return entry.call([&] {
    const auto& memory = current_device().memory;
    *total_bytes = memory.capacity();
    *free_bytes = memory.capacity() - memory.in_use();
  });
}

CUEMU_EXPORT Error cudaHostAlloc(void** out, size_t bytes, unsigned flags) {
  static Entry entry("cudaHostAlloc");
  return entry.call([&] { allocate_host(out, bytes, flags); });
}

CUEMU_EXPORT Error cudaMallocHost(void** out, size_t bytes) {
  static Entry entry("cudaMallocHost");
  return entry.call([&] { allocate_host(out, bytes, 0); });
}

// Waits for all devices: any of them may be using it.
CUEMU_EXPORT Error cudaFreeHost(void* start) {
  static Entry entry("cudaFreeHost");
  return entry.call_always([&] {
    if (start == nullptr) return;
    refuse_if_unsafe();
    for (Device* device : devices()) {
      if (!device->has_failed()) device->synchronize();
    }
    pinned_memory().release(start);
    current_device().check();
  });
}

CUEMU_EXPORT Error cudaHostRegister(void* start, size_t bytes, unsigned flags) {
  static Entry entry("cudaHostRegister");
  return entry.call([&] {
    require(device_of(start) == nullptr, kInvalidValue);
    pinned_memory().add(start, bytes, flags);
  });
}

CUEMU_EXPORT Error cudaHostUnregister(void* start) {
  static Entry entry("cudaHostUnregister");
  return entry.call_always([&] {
    pinned_memory().remove(start);
    current_device().check();
  });
}

CUEMU_EXPORT Error cudaHostGetDevicePointer(void** out, void* host, unsigned) {
  static Entry entry("cudaHostGetDevicePointer");
  return entry.call([&] {
    pinned_memory().flags_of(host);
    *out = host;
  });
}

CUEMU_EXPORT Error cudaHostGetFlags(unsigned* flags, void* host) {
  static Entry entry("cudaHostGetFlags");
  return entry.call([&] { *flags = pinned_memory().flags_of(host); });
}

CUEMU_EXPORT Error cudaPointerGetAttributes(PointerAttributes* attributes, const void* address) {
  static Entry entry("cudaPointerGetAttributes");
  return entry.call([&] {
    *attributes = {};
    auto* pointer = const_cast<void*>(address);
    if (const Device* device = device_of(address); device != nullptr && device->memory.is_live(address, 1)) {
      attributes->type = kDevice;
      attributes->device = device->index;
      attributes->device_pointer = pointer;
    } else if (device == nullptr && pinned_memory().contains(address, 1)) {
      attributes->type = kHost;
      attributes->device = current_device().index;
      attributes->device_pointer = attributes->host_pointer = pointer;
    } else {
      attributes->type = kUnregistered;
      attributes->device = -2;  // cudaInvalidDeviceId
      attributes->host_pointer = pointer;
    }
  });
}

}  // namespace cuda_abi
