// The process's one copy of libhostccl.so and its runtime. Loaded at the first group that needs it, never unloaded.
#pragma once

#include <string>

#include "nccl2/driver/device_runtime.h"

namespace pycomms::c10d_backend {

struct HostEngine {
  const Engine& engine;
  DeviceRuntime& runtime;
};

// Throws when the library cannot be loaded or cannot use such vectors (empty: the widest). Both count at the first call.
HostEngine host_engine(const std::string& path, const std::string& vector_width);

}  // namespace pycomms::c10d_backend
