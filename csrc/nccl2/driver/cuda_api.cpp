#include "nccl2/driver/cuda_api.h"

#include <dlfcn.h>

#include <memory>

namespace pycomms {
namespace {

void* find_library() {
  for (const char* name : {"libcudart.so.13", "libcudart.so.12"}) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_NOLOAD)) return library;
  }
  return nullptr;
}

Result<const CudaApi*> load() {
  void* const library = find_library();
  if (library == nullptr) {
    return Status(Code::kSystem, "no CUDA runtime is loaded: this torch is built without CUDA");
  }
  auto api = std::make_unique<CudaApi>();
#define PYCOMMS_LOOK_UP(member, symbol, parameters)                               \
  api->member = reinterpret_cast<decltype(api->member)>(dlsym(library, #symbol)); \
  if (api->member == nullptr) return Status(Code::kSystem, "the CUDA runtime does not export " #symbol);
  PYCOMMS_CUDA_FUNCTIONS(PYCOMMS_LOOK_UP)
#undef PYCOMMS_LOOK_UP
  api->get_error_string = reinterpret_cast<decltype(api->get_error_string)>(dlsym(library, "cudaGetErrorString"));
  if (api->get_error_string == nullptr) {
    return Status(Code::kSystem, "the CUDA runtime does not export cudaGetErrorString");
  }
  return api.release();
}

}  // namespace

Result<const CudaApi*> loaded_cuda() {
  static Result<const CudaApi*> api = load();
  return api.is_ok() ? Result<const CudaApi*>(api.value()) : Result<const CudaApi*>(api.status());
}

}  // namespace pycomms
