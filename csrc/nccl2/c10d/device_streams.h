// torch's streams of a GPU, through the interface that torch has for all devices: no CUDA header is needed.
// Any thread. Must not know: communicators.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "nccl2/driver/nccl_api.h"

namespace pycomms::c10d_backend {

inline StreamHandle native(const c10::Stream& stream) { return stream.native_handle(); }
// To tell streams apart in a record.
inline uint64_t stream_number(const c10::Stream& stream) { return reinterpret_cast<uintptr_t>(native(stream)); }

inline c10::Stream current_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

inline c10::Stream stream_from_pool(c10::Device device, bool high_priority) {
  return c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device, high_priority);
}

}  // namespace pycomms::c10d_backend
