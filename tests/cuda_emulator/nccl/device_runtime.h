// The few functions of the CUDA runtime that the emulated libnccl needs, found in the process: the emulator's libcudart is
// loaded before us, for all to see. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace nccl_emulator {

// 0 where no emulator is loaded.
int current_device();

// Makes a device current for a scope.
class DeviceGuard {
 public:
  explicit DeviceGuard(int device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  const int before_;
  const int device_;
};

// As cuemu_launch (tests/cuda_emulator/emulator.h); 1 where no emulator is loaded.
int launch(void* stream, const char* what, int (*run)(void*), void (*destroy)(void*), void* arg);
// The same for a function. False: not taken.
bool launch(void* stream, const char* what, std::function<void()> work);
// 0: none.
uint64_t capture_of(void* stream);
// Where device work finds the bytes behind a pointer.
void* bytes(const void* pointer);

bool is_device_memory(const void* pointer);
int allocate(void** pointer, size_t size);
int release(void* pointer);

// Returns when all work on the device has ended.
void wait_for_device(int device);

}  // namespace nccl_emulator
