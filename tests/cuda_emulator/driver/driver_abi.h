// The little of the CUDA driver's C ABI that our libcuda.so.1 speaks.
#pragma once

#include <cstddef>
#include <cstdint>

namespace driver_abi {

enum Result : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kNotInitialized = 3,
  kInvalidContext = 201,
  kNotFound = 500,
  kUnknown = 999,
};
using Device = int;
using Context = struct ContextTag*;  // the device's number plus one
using DevicePointer = uintptr_t;

enum PointerAttribute : int {
  kPointerContext = 1,
  kPointerMemoryType = 2,
  kPointerDevicePointer = 3,
  kPointerHostPointer = 4,
  kPointerIsManaged = 8,
  kPointerDeviceOrdinal = 9,
  kPointerRangeStart = 11,
  kPointerRangeSize = 12,
};

}  // namespace driver_abi
