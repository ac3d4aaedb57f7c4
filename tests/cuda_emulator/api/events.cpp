// Exported: events.

#include "event.h"

#include "abi.h"
#include "api/entry.h"
#include "api/resolve.h"

namespace cuda_abi {
namespace {

using namespace cuemu;

void create(EventHandle* out, unsigned flags) {
  require(out != nullptr, kInvalidValue);
  require((flags & kEventInterprocess) == 0 || (flags & kEventDisableTiming) != 0, kInvalidValue);
  current_device().activate();
  *out = handles().events.add(std::make_shared<Event>(current_device(), flags));
}

void record(EventHandle event, StreamHandle stream, unsigned flags) {
  require((flags & ~kEventExternal) == 0, kInvalidValue);
  handles().events.get(event)->record(*stream_of(stream), flags == kEventExternal);
}

}  // namespace

CUEMU_EXPORT Error cudaEventCreate(EventHandle* out) {
  static Entry entry("cudaEventCreate");
  return entry.call([&] { create(out, 0); });
}

CUEMU_EXPORT Error cudaEventCreateWithFlags(EventHandle* out, unsigned flags) {
  static Entry entry("cudaEventCreateWithFlags");
  return entry.call([&] { create(out, flags); });
}

CUEMU_EXPORT Error cudaEventDestroy(EventHandle event) {
  static Entry entry("cudaEventDestroy");
  return entry.call_always([&] {
    handles().events.remove(event);
    current_device().check();
  });
}

CUEMU_EXPORT Error cudaEventRecord(EventHandle event, StreamHandle stream) {
  static Entry entry("cudaEventRecord");
  return entry.call([&] { record(event, stream, 0); });
}

CUEMU_EXPORT Error cudaEventRecordWithFlags(EventHandle event, StreamHandle stream, unsigned flags) {
  static Entry entry("cudaEventRecordWithFlags");
  return entry.call([&] { record(event, stream, flags); });
}

CUEMU_EXPORT Error cudaEventQuery(EventHandle handle) {
  static Entry entry("cudaEventQuery");
  return entry.call([&] {
    const auto event = handles().events.get(handle);
    refuse_if_unsafe();
    event->device.check();
    require(event->query(), kNotReady);
  });
}

CUEMU_EXPORT Error cudaEventSynchronize(EventHandle event) {
  static Entry entry("cudaEventSynchronize");
  return entry.call([&] {
    const auto waited = handles().events.get(event);
    refuse_if_unsafe();
    waited->synchronize();
  });
}

CUEMU_EXPORT Error cudaEventElapsedTime(float* milliseconds, EventHandle start, EventHandle end) {
  static Entry entry("cudaEventElapsedTime");
  return entry.call(
      [&] { *milliseconds = handles().events.get(start)->milliseconds_until(*handles().events.get(end)); });
}

}  // namespace cuda_abi
