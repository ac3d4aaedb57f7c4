// Exported: streams and host functions.

#include "abi.h"
#include "api/entry.h"
#include "api/resolve.h"
#include "capture.h"
#include "event.h"
#include "pool.h"
#include "submission.h"

namespace cuda_abi {
namespace {

using namespace cuemu;

void create(StreamHandle* out, unsigned flags, int priority) {
  require(out != nullptr && (flags & ~kStreamNonBlocking) == 0, kInvalidValue);
  current_device().activate();
  *out = handles().streams.add(current_device().create_stream(flags, priority));
}

}  // namespace

CUEMU_EXPORT Error cudaStreamCreate(StreamHandle* out) {
  static Entry entry("cudaStreamCreate");
  return entry.call([&] { create(out, 0, 0); });
}

CUEMU_EXPORT Error cudaStreamCreateWithFlags(StreamHandle* out, unsigned flags) {
  static Entry entry("cudaStreamCreateWithFlags");
  return entry.call([&] { create(out, flags, 0); });
}

CUEMU_EXPORT Error cudaStreamCreateWithPriority(StreamHandle* out, unsigned flags, int priority) {
  static Entry entry("cudaStreamCreateWithPriority");
  return entry.call([&] { create(out, flags, priority); });
}

// Returns at once; the stream finishes what it has.
CUEMU_EXPORT Error cudaStreamDestroy(StreamHandle handle) {
  static Entry entry("cudaStreamDestroy");
  return entry.call_always([&] {
    require(reinterpret_cast<uintptr_t>(handle) > kPerThreadStream, kInvalidResourceHandle);
    auto stream = handles().streams.remove(handle);
    Device& device = stream->device;
    forget_stream(*stream);
    device.retire(std::move(stream));
    device.check();
  });
}

CUEMU_EXPORT Error cudaStreamGetPriority(StreamHandle stream, int* priority) {
  static Entry entry("cudaStreamGetPriority");
  return entry.call([&] { *priority = stream_of(stream)->priority; });
}

CUEMU_EXPORT Error cudaStreamGetFlags(StreamHandle stream, unsigned* flags) {
  static Entry entry("cudaStreamGetFlags");
  return entry.call([&] { *flags = stream_of(stream)->flags; });
}

CUEMU_EXPORT Error cudaStreamGetId(StreamHandle stream, unsigned long long* id) {
  static Entry entry("cudaStreamGetId");
  return entry.call([&] { *id = stream_of(stream)->number; });
}

CUEMU_EXPORT Error cudaStreamGetDevice(StreamHandle stream, int* index) {
  static Entry entry("cudaStreamGetDevice");
  return entry.call([&] { *index = stream_of(stream)->device.index; });
}

CUEMU_EXPORT Error cudaStreamQuery(StreamHandle handle) {
  static Entry entry("cudaStreamQuery");
  return entry.call([&] {
    const auto stream = stream_of(handle);
    refuse_if_capturing(*stream);
    refuse_if_unsafe();
    stream->device.check();
    require(stream->is_idle(), kNotReady);
  });
}

CUEMU_EXPORT Error cudaStreamSynchronize(StreamHandle handle) {
  static Entry entry("cudaStreamSynchronize");
  return entry.call([&] {
    const auto stream = stream_of(handle);
    refuse_if_capturing(*stream);
    refuse_if_unsafe();
    // In the legacy stream even nothing comes after the blocking streams.
    const bool is_legacy = stream == stream->device.legacy_stream();
    stream->device.wait(is_legacy ? submit(*stream, {.what = "synchronize", .type = kEmptyNode}) : stream->tail());
    for (const auto& pool : pools_of(stream->device)) pool->trim_to_threshold();
  });
}

CUEMU_EXPORT Error cudaStreamWaitEvent(StreamHandle stream, EventHandle event, unsigned flags) {
  static Entry entry("cudaStreamWaitEvent");
  return entry.call([&] {
    require((flags & ~kEventExternal) == 0, kInvalidValue);
    handles().events.get(event)->make_wait(*stream_of(stream), flags == kEventExternal);
  });
}

CUEMU_EXPORT Error cudaLaunchHostFunc(StreamHandle stream, HostFn function, void* arg) {
  static Entry entry("cudaLaunchHostFunc");
  return entry.call([&] {
    require(function != nullptr, kInvalidValue);
    submit(*stream_of(stream), {.what = "host function", .type = kHostNode, .run = [=] { function(arg); }});
  });
}

CUEMU_EXPORT Error cudaStreamAddCallback(StreamHandle handle, StreamCallback callback, void* arg, unsigned) {
  static Entry entry("cudaStreamAddCallback");
  return entry.call([&] {
    require(callback != nullptr, kInvalidValue);
    const auto stream = stream_of(handle);
    refuse_if_capturing(*stream);
    submit(*stream, {.what = "callback", .type = kHostNode, .run = [=] { callback(handle, kSuccess, arg); }});
  });
}

}  // namespace cuda_abi
