// From handles to objects, for the exported functions.
#pragma once

#include <memory>

#include "device.h"
#include "handles.h"
#include "stream.h"

namespace cuemu {

inline std::shared_ptr<Stream> stream_of(cuda_abi::StreamHandle handle) {
  const auto value = reinterpret_cast<uintptr_t>(handle);
  if (value == cuda_abi::kPerThreadStream) return current_device().thread_stream();
  if (value > cuda_abi::kPerThreadStream) return handles().streams.get(handle);
  current_device().activate();
  return current_device().legacy_stream();
}

}  // namespace cuemu
