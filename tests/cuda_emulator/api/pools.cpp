// Exported: allocation in stream order, and memory pools.

#include "pool.h"

#include "abi.h"
#include "api/entry.h"
#include "api/resolve.h"
#include "submission.h"

namespace cuda_abi {
namespace {

using namespace cuemu;

// Allocation nodes of graphs are not emulated.
void refuse_capture(const Stream& stream) {
  const std::lock_guard lock(submission_mutex());
  require(!stream.capture, kNotSupported);
}

void allocate(void** out, size_t bytes, MemPoolHandle pool, const Stream& stream) {
  require(out != nullptr, kInvalidValue);
  refuse_capture(stream);
  *out = handles().pools.get(pool)->allocate(bytes, stream);
  require(*out != nullptr, kMemoryAllocation);
}

}  // namespace

CUEMU_EXPORT Error cudaMallocAsync(void** out, size_t bytes, StreamHandle handle) {
  static Entry entry("cudaMallocAsync");
  return entry.call([&] {
    const auto stream = stream_of(handle);
    allocate(out, bytes, current_pool_handle(stream->device), *stream);
  });
}

CUEMU_EXPORT Error cudaMallocFromPoolAsync(void** out, size_t bytes, MemPoolHandle pool, StreamHandle stream) {
  static Entry entry("cudaMallocFromPoolAsync");
  return entry.call([&] { allocate(out, bytes, pool, *stream_of(stream)); });
}

CUEMU_EXPORT Error cudaFreeAsync(void* start, StreamHandle handle) {
  static Entry entry("cudaFreeAsync");
  return entry.call([&] {
    if (start == nullptr) return;
    const auto stream = stream_of(handle);
    const Device* device = device_of(start);
    require(device != nullptr, kInvalidValue);
    refuse_capture(*stream);
    const Point freed = submit(*stream, {.what = "free", .type = kEmptyNode});
    for (const auto& pool : pools_of(*device)) {
      if (pool->release(start, *stream, freed)) return;
    }
    fail(kInvalidValue);
  });
}

CUEMU_EXPORT Error cudaDeviceGetDefaultMemPool(MemPoolHandle* pool, int index) {
  static Entry entry("cudaDeviceGetDefaultMemPool");
  return entry.call([&] { *pool = default_pool_handle(device_at(index)); });
}

CUEMU_EXPORT Error cudaDeviceGetMemPool(MemPoolHandle* pool, int index) {
  static Entry entry("cudaDeviceGetMemPool");
  return entry.call([&] { *pool = current_pool_handle(device_at(index)); });
}

CUEMU_EXPORT Error cudaDeviceSetMemPool(int index, MemPoolHandle pool) {
  static Entry entry("cudaDeviceSetMemPool");
  return entry.call([&] { set_current_pool(device_at(index), pool); });
}

CUEMU_EXPORT Error cudaMemPoolCreate(MemPoolHandle* out, const MemPoolProps* properties) {
  static Entry entry("cudaMemPoolCreate");
  return entry.call([&] {
    constexpr int kDeviceLocation = 1;
    require(properties->location.type == kDeviceLocation && properties->handle_types == 0, kNotSupported);
    const auto pool = std::make_shared<MemoryPool>(device_at(properties->location.id));
    add_pool(pool);
    *out = handles().pools.add(pool);
  });
}

// Waits for the device first: blocks may still be in use by work that was queued before they were freed.
CUEMU_EXPORT Error cudaMemPoolDestroy(MemPoolHandle handle) {
  static Entry entry("cudaMemPoolDestroy");
  return entry.call([&] {
    const auto pool = handles().pools.get(handle);
    require(handle != default_pool_handle(pool->device), kInvalidValue);
    pool->device.synchronize();
    if (handle == current_pool_handle(pool->device)) set_current_pool(pool->device, default_pool_handle(pool->device));
    handles().pools.remove(handle);
  });
}

CUEMU_EXPORT Error cudaMemPoolSetAttribute(MemPoolHandle pool, MemPoolAttribute which, void* value) {
  static Entry entry("cudaMemPoolSetAttribute");
  return entry.call([&] {
    const bool is_flag = which < kReleaseThreshold;
    handles().pools.get(pool)->set_attribute(
        which, is_flag ? static_cast<uint64_t>(*static_cast<int*>(value)) : *static_cast<uint64_t*>(value));
  });
}

CUEMU_EXPORT Error cudaMemPoolGetAttribute(MemPoolHandle pool, MemPoolAttribute which, void* value) {
  static Entry entry("cudaMemPoolGetAttribute");
  return entry.call([&] {
    const uint64_t current = handles().pools.get(pool)->attribute(which);
    if (which < kReleaseThreshold) {
      *static_cast<int*>(value) = static_cast<int>(current);
    } else {
      *static_cast<uint64_t*>(value) = current;
    }
  });
}

// Every emulated device may access every other's memory.
CUEMU_EXPORT Error cudaMemPoolSetAccess(MemPoolHandle pool, const MemAccess*, size_t) {
  static Entry entry("cudaMemPoolSetAccess");
  return entry.call([&] { handles().pools.get(pool); });
}

CUEMU_EXPORT Error cudaMemPoolTrimTo(MemPoolHandle pool, size_t keep) {
  static Entry entry("cudaMemPoolTrimTo");
  return entry.call([&] { handles().pools.get(pool)->trim(keep); });
}

}  // namespace cuda_abi
