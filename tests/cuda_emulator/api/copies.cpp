// Exported: copies and fills. The kind of a copy is ignored, as CUDA does where all addresses are distinct.

#include "copies.h"

#include "abi.h"
#include "api/entry.h"
#include "api/resolve.h"
#include "capture.h"

namespace cuda_abi {
namespace {

using namespace cuemu;

// Synchronous calls run in the legacy stream; a copy within the devices does not hold up the host.
void copy_now(void* to, const void* from, const Extent& extent) {
  refuse_if_unsafe();
  const bool on_devices = device_of(to) != nullptr && device_of(from) != nullptr;
  copy(to, from, extent, stream_of(nullptr), on_devices ? HostWait::as_needed : HostWait::always);
}

Extent row(size_t bytes) { return {bytes, 1, bytes, bytes}; }

}  // namespace

CUEMU_EXPORT Error cudaMemcpy(void* to, const void* from, size_t bytes, MemcpyKind) {
  static Entry entry("cudaMemcpy");
  return entry.call([&] { copy_now(to, from, row(bytes)); });
}

CUEMU_EXPORT Error cudaMemcpyAsync(void* to, const void* from, size_t bytes, MemcpyKind, StreamHandle stream) {
  static Entry entry("cudaMemcpyAsync");
  return entry.call([&] { copy(to, from, bytes, stream_of(stream), HostWait::as_needed); });
}

CUEMU_EXPORT Error cudaMemcpyPeer(void* to, int, const void* from, int, size_t bytes) {
  static Entry entry("cudaMemcpyPeer");
  return entry.call([&] { copy_now(to, from, row(bytes)); });
}

CUEMU_EXPORT Error cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes, StreamHandle stream) {
  static Entry entry("cudaMemcpyPeerAsync");
  return entry.call([&] { copy(to, from, bytes, stream_of(stream), HostWait::as_needed); });
}

CUEMU_EXPORT Error cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                                size_t height, MemcpyKind) {
  static Entry entry("cudaMemcpy2D");
  return entry.call([&] { copy_now(to, from, {width, height, to_pitch, from_pitch}); });
}

CUEMU_EXPORT Error cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                                     size_t height, MemcpyKind, StreamHandle stream) {
  static Entry entry("cudaMemcpy2DAsync");
  return entry.call(
      [&] { copy(to, from, {width, height, to_pitch, from_pitch}, stream_of(stream), HostWait::as_needed); });
}

CUEMU_EXPORT Error cudaMemset(void* to, int value, size_t bytes) {
  static Entry entry("cudaMemset");
  return entry.call([&] {
    refuse_if_unsafe();
    fill(to, value, row(bytes), stream_of(nullptr));
  });
}

CUEMU_EXPORT Error cudaMemsetAsync(void* to, int value, size_t bytes, StreamHandle stream) {
  static Entry entry("cudaMemsetAsync");
  return entry.call([&] { fill(to, value, row(bytes), stream_of(stream)); });
}

CUEMU_EXPORT Error cudaMemset2DAsync(void* to, size_t pitch, int value, size_t width, size_t height,
                                     StreamHandle stream) {
  static Entry entry("cudaMemset2DAsync");
  return entry.call([&] { fill(to, value, {width, height, pitch, width}, stream_of(stream)); });
}

}  // namespace cuda_abi
