// Exported: registration and launch of kernels, and what is asked about them.

#include "kernels.h"

#include <dlfcn.h>

#include "abi.h"
#include "api/entry.h"
#include "api/resolve.h"
#include "log.h"

namespace cuda_abi {
namespace {

using namespace cuemu;

void launch(const void* function, void** arguments, StreamHandle stream) {
  try {
    launch_kernel(function, arguments, stream_of(stream));
  } catch (const Failure& failure) {
    log("%s", failure.text.c_str());  // the error code alone does not tell anybody which kernel it was
    throw;
  }
}

struct CallConfiguration {
  Dim3 grid, block;
  size_t shared_bytes;
  StreamHandle stream;
};
thread_local CallConfiguration call_configuration;

}  // namespace

CUEMU_EXPORT void** __cudaRegisterFatBinary(void*) {
  static void* handle[1];
  return handle;
}
CUEMU_EXPORT void __cudaRegisterFatBinaryEnd(void**) {}
CUEMU_EXPORT void __cudaUnregisterFatBinary(void**) {}
CUEMU_EXPORT void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}
CUEMU_EXPORT char __cudaInitModule(void**) { return 1; }
CUEMU_EXPORT void __cudaRegisterFunction(void**, const char* function, char*, const char* name, int, void*, void*,
                                         void*, void*, int*) {
  register_kernel(function, name);
}

CUEMU_EXPORT unsigned __cudaPushCallConfiguration(Dim3 grid, Dim3 block, size_t shared_bytes, StreamHandle stream) {
  call_configuration = {grid, block, shared_bytes, stream};
  return 0;
}

CUEMU_EXPORT Error __cudaPopCallConfiguration(Dim3* grid, Dim3* block, size_t* shared_bytes, StreamHandle* stream) {
  *grid = call_configuration.grid;
  *block = call_configuration.block;
  *shared_bytes = call_configuration.shared_bytes;
  *stream = call_configuration.stream;
  return kSuccess;
}

// A kernel's handle is the address of its function.
CUEMU_EXPORT Error __cudaGetKernel(const void** kernel, const void* function) {
  static Entry entry("__cudaGetKernel");
  return entry.call([&] { *kernel = function; });
}

CUEMU_EXPORT Error __cudaLaunchKernel(const void* kernel, Dim3, Dim3, void** arguments, size_t, StreamHandle stream) {
  static Entry entry("__cudaLaunchKernel");
  return entry.call([&] { launch(kernel, arguments, stream); });
}

CUEMU_EXPORT Error cudaLaunchKernel(const void* function, Dim3, Dim3, void** arguments, size_t, StreamHandle stream) {
  static Entry entry("cudaLaunchKernel");
  return entry.call([&] { launch(function, arguments, stream); });
}

CUEMU_EXPORT Error cudaLaunchCooperativeKernel(const void* function, Dim3, Dim3, void** arguments, size_t,
                                               StreamHandle stream) {
  static Entry entry("cudaLaunchCooperativeKernel");
  return entry.call([&] { launch(function, arguments, stream); });
}

CUEMU_EXPORT Error cudaLaunchKernelExC(const LaunchConfig* config, const void* function, void** arguments) {
  static Entry entry("cudaLaunchKernelExC");
  return entry.call([&] { launch(function, arguments, config->stream); });
}

CUEMU_EXPORT Error cudaFuncGetAttributes(FuncAttributes* attributes, const void*) {
  static Entry entry("cudaFuncGetAttributes");
  return entry.call([&] {
    *attributes = {};
    attributes->max_threads_per_block = 1024;
    attributes->registers = 32;
    attributes->ptx_version = attributes->binary_version = 90;
  });
}

CUEMU_EXPORT Error cudaFuncSetAttribute(const void*, int, int) {
  static Entry entry("cudaFuncSetAttribute");
  return entry.call([] {});
}

CUEMU_EXPORT Error cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int, size_t) {
  static Entry entry("cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  return entry.call([&] { *blocks = 2; });
}

CUEMU_EXPORT Error cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int, size_t,
                                                                          unsigned) {
  static Entry entry("cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags");
  return entry.call([&] { *blocks = 2; });
}

// Whatever our libcuda.so.1 exports.
CUEMU_EXPORT Error cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned, unsigned long long,
                                                    DriverEntryResult* result) {
  static Entry entry("cudaGetDriverEntryPointByVersion");
  return entry.call_always([&] {
    static void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    *function = driver == nullptr ? nullptr : dlsym(driver, name);
    if (result != nullptr) *result = *function == nullptr ? kEntryNotFound : kEntryFound;
  });
}

}  // namespace cuda_abi
