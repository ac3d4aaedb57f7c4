#include "device_runtime.h"

#include <dlfcn.h>

#include <memory>

#include "inner.h"

namespace nccl_emulator {
namespace {

template <typename Function>
Function find(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

// The first constructor of the process that runs may be ours: they are looked up when the first is needed.
struct Runtime {
  int (*get_device)(int*) = find<int (*)(int*)>("cudaGetDevice");
  int (*set_device)(int) = find<int (*)(int)>("cudaSetDevice");
  int (*synchronize)() = find<int (*)()>("cudaDeviceSynchronize");
  int (*malloc)(void**, size_t) = find<int (*)(void**, size_t)>("cudaMalloc");
  int (*free)(void*) = find<int (*)(void*)>("cudaFree");
  int (*capture_info)(void*, int*, unsigned long long*, void**, const void**, const void**,
                      size_t*) = find<decltype(capture_info)>("cudaStreamGetCaptureInfo");
  int (*launch)(void*, const char*, int (*)(void*), void (*)(void*), void*) = find<decltype(launch)>("cuemu_launch");
  void* (*bytes)(const void*) = find<void* (*)(const void*)>("cuemu_bytes");
  int (*device_of)(const void*) = find<int (*)(const void*)>("cuemu_device_of");

  bool is_complete() const {
    return get_device && set_device && synchronize && malloc && free && capture_info && launch && bytes && device_of;
  }
};

// Null where no emulator is loaded.
const Runtime* runtime() {
  static const Runtime found;
  return found.is_complete() ? &found : nullptr;
}

[[gnu::constructor]] void use_the_emulators_streams() {
  static constexpr hostccl::ExternalStreams kStreams{launch, capture_of, bytes};
  hostccl::hostcclSetExternalStreams(&kStreams);
}

}  // namespace

int current_device() {
  int device = 0;
  if (runtime() != nullptr && runtime()->get_device(&device) != 0) return 0;
  return device;
}

DeviceGuard::DeviceGuard(int device) : before_(current_device()), device_(device) {
  if (before_ != device_ && runtime() != nullptr) runtime()->set_device(device_);
}

DeviceGuard::~DeviceGuard() {
  if (before_ != device_ && runtime() != nullptr) runtime()->set_device(before_);
}

int launch(void* stream, const char* what, int (*run)(void*), void (*destroy)(void*), void* arg) {
  return runtime() == nullptr ? 1 : runtime()->launch(stream, what, run, destroy, arg);
}

bool launch(void* stream, const char* what, std::function<void()> work) {
  using Work = std::function<void()>;
  auto run = [](void* arg) {
    (*static_cast<Work*>(arg))();
    return 0;
  };
  auto destroy = [](void* arg) { delete static_cast<Work*>(arg); };
  auto owned = std::make_unique<Work>(std::move(work));
  if (launch(stream, what, run, destroy, owned.get()) != 0) return false;
  static_cast<void>(owned.release());
  return true;
}

uint64_t capture_of(void* stream) {
  constexpr int kActive = 1;
  int status = 0;
  unsigned long long id = 0;
  if (runtime() == nullptr) return 0;
  if (runtime()->capture_info(stream, &status, &id, nullptr, nullptr, nullptr, nullptr) != 0) return 0;
  return status == kActive ? id : 0;
}

void* bytes(const void* pointer) {
  return runtime() == nullptr ? const_cast<void*>(pointer) : runtime()->bytes(pointer);
}

bool is_device_memory(const void* pointer) { return runtime() != nullptr && runtime()->device_of(pointer) >= 0; }

int allocate(void** pointer, size_t size) { return runtime() == nullptr ? 1 : runtime()->malloc(pointer, size); }

void wait_for_device(int device) {
  if (runtime() == nullptr) return;
  const DeviceGuard here(device);
  runtime()->synchronize();
}

int release(void* pointer) { return runtime() == nullptr ? 1 : runtime()->free(pointer); }

}  // namespace nccl_emulator
