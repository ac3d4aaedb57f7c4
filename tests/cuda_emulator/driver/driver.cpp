// libcuda.so.1: the few entry points of the driver that torch's context checks and caffe2_nvrtc use, told in terms of the
// emulated runtime. The rest are stubs (stubs/cuda.txt).
//
// Threads: any. Must not know: the runtime's insides; it speaks to it as any program would.

#include <cstring>

#include "abi.h"
#include "driver/driver_abi.h"
#include "emulator.h"

extern "C" {
cuda_abi::Error cudaGetDeviceCount(int* count);
cuda_abi::Error cudaGetDevice(int* index);
cuda_abi::Error cudaSetDevice(int index);
cuda_abi::Error cudaDeviceGetAttribute(int* value, int attribute, int index);
cuda_abi::Error cudaDeviceGetPCIBusId(char* text, int capacity, int index);
cuda_abi::Error cudaGetDeviceProperties(cuda_abi::DeviceProperties* properties, int index);
const char* cudaGetErrorString(cuda_abi::Error error);
const char* cudaGetErrorName(cuda_abi::Error error);
}

namespace driver_abi {
namespace {

// The numbers of the two error lists agree where this library needs them to.
Result from(cuda_abi::Error error) { return static_cast<Result>(error); }

Context context_of(int device) { return reinterpret_cast<Context>(static_cast<uintptr_t>(device) + 1); }
int device_of(Context context) { return static_cast<int>(reinterpret_cast<uintptr_t>(context)) - 1; }

template <class T>
Result give(void* where, T value) {
  std::memcpy(where, &value, sizeof value);
  return kSuccess;
}

}  // namespace

CUEMU_EXPORT Result cuInit(unsigned) { return kSuccess; }

CUEMU_EXPORT Result cuDriverGetVersion(int* version) {
  *version = 13000;
  return kSuccess;
}

CUEMU_EXPORT Result cuDeviceGetCount(int* count) { return from(cudaGetDeviceCount(count)); }

CUEMU_EXPORT Result cuDeviceGet(Device* device, int index) {
  int value = 0;
  *device = index;
  return from(cudaDeviceGetAttribute(&value, 16, index));  // fails when there is no such device
}

CUEMU_EXPORT Result cuDeviceGetAttribute(int* value, int attribute, Device device) {
  return from(cudaDeviceGetAttribute(value, attribute, device));
}

CUEMU_EXPORT Result cuDeviceGetName(char* name, int capacity, Device device) {
  cuda_abi::DeviceProperties properties;
  const Result result = from(cudaGetDeviceProperties(&properties, device));
  if (result == kSuccess && capacity > 0) {
    std::strncpy(name, properties.name, static_cast<size_t>(capacity) - 1);
    name[capacity - 1] = '\0';
  }
  return result;
}

CUEMU_EXPORT Result cuDeviceGetPCIBusId(char* text, int capacity, Device device) {
  return from(cudaDeviceGetPCIBusId(text, capacity, device));
}

CUEMU_EXPORT Result cuDeviceTotalMem_v2(size_t* bytes, Device device) {
  cuda_abi::DeviceProperties properties;
  const Result result = from(cudaGetDeviceProperties(&properties, device));
  if (result == kSuccess) *bytes = properties.total_memory;
  return result;
}

CUEMU_EXPORT Result cuDevicePrimaryCtxGetState(Device device, unsigned* flags, int* active) {
  if (flags != nullptr) *flags = 0;
  *active = cuemu_has_context(device);
  return kSuccess;
}

CUEMU_EXPORT Result cuDevicePrimaryCtxRetain(Context* context, Device device) {
  *context = context_of(device);
  return kSuccess;
}

CUEMU_EXPORT Result cuDevicePrimaryCtxRelease_v2(Device) { return kSuccess; }

CUEMU_EXPORT Result cuCtxGetCurrent(Context* context) {
  int device = 0;
  const Result result = from(cudaGetDevice(&device));
  *context = result == kSuccess && cuemu_has_context(device) != 0 ? context_of(device) : nullptr;
  return result;
}

CUEMU_EXPORT Result cuCtxSetCurrent(Context context) {
  return context == nullptr ? kSuccess : from(cudaSetDevice(device_of(context)));
}

CUEMU_EXPORT Result cuCtxGetDevice(Device* device) { return from(cudaGetDevice(device)); }

CUEMU_EXPORT Result cuGetErrorString(Result error, const char** text) {
  *text = cudaGetErrorString(static_cast<cuda_abi::Error>(error));
  return kSuccess;
}

CUEMU_EXPORT Result cuGetErrorName(Result error, const char** text) {
  *text = cudaGetErrorName(static_cast<cuda_abi::Error>(error));
  return kSuccess;
}

// There is nothing to report: our errors are told where they happen.
CUEMU_EXPORT Result cuLogsRegisterCallback(void (*)(), void*, void** handle) {
  if (handle != nullptr) *handle = nullptr;
  return kSuccess;
}

CUEMU_EXPORT Result cuLogsUnregisterCallback(void*) { return kSuccess; }

CUEMU_EXPORT Result cuPointerGetAttribute(void* value, PointerAttribute attribute, DevicePointer pointer) {
  const auto* address = reinterpret_cast<const void*>(pointer);
  const int device = cuemu_device_of(address);
  if (device < 0) return kInvalidValue;
  switch (attribute) {
    case kPointerContext:
      return give(value, context_of(device));
    case kPointerMemoryType:
      return give(value, 2);  // CU_MEMORYTYPE_DEVICE
    case kPointerDevicePointer:
      return give(value, pointer);
    case kPointerIsManaged:
      return give(value, 0);
    case kPointerDeviceOrdinal:
      return give(value, device);
    case kPointerHostPointer:
    case kPointerRangeStart:
    case kPointerRangeSize:
      break;
  }
  cuemu_unsupported_driver("cuPointerGetAttribute");
  return kInvalidValue;
}

}  // namespace driver_abi
