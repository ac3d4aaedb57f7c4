// A device: its memory, its streams, and the error that has broken it, if one has. As in CUDA such an error is kept: every
// later call that concerns the device returns it, and no more of its work is run.
//
// Threads: any. The devices live for ever.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "device_memory.h"
#include "failure.h"
#include "faults.h"
#include "stream.h"

namespace cuemu {

class Device {
 public:
  explicit Device(int device_index, size_t memory_bytes) : index(device_index), memory(memory_bytes) {}

  const int index;
  DeviceMemory memory;
  FaultPoint work;  // counts the pieces of work, and fails them on order

  bool has_failed() const { return failed_.load(std::memory_order_acquire); }
  Failure failure() const;  // kSuccess: it is well
  void check() const;       // throws the failure
  void set_failure(Failure failure);
  void heal();  // for tests: what no real device can

  std::shared_ptr<Stream> create_stream(unsigned flags, int priority);
  void retire(std::shared_ptr<Stream> stream);
  std::shared_ptr<Stream> legacy_stream();
  // Of this thread: cudaStreamPerThread.
  std::shared_ptr<Stream> thread_stream();
  std::vector<std::shared_ptr<Stream>> streams() const;
  // Blocks the host until a point is reached; throws the failure. Past settings().patience it reports and fails the device.
  void wait(const Point& point);
  void synchronize();

  bool is_active() const { return active_.load(std::memory_order_relaxed); }  // has a context
  void activate() { active_.store(true, std::memory_order_relaxed); }

 private:
  void reap();

  std::atomic<bool> failed_{false};
  std::atomic<bool> active_{false};
  mutable std::mutex mutex_;
  Failure failure_{cuda_abi::kSuccess, {}};       // GUARDED_BY(mutex_)
  std::vector<std::shared_ptr<Stream>> streams_;  // GUARDED_BY(mutex_)
  std::vector<std::shared_ptr<Stream>> retired_;  // GUARDED_BY(mutex_): closed, their threads not joined yet

  std::once_flag legacy_made_;
  std::shared_ptr<Stream> legacy_;
};

const std::vector<Device*>& devices();
Device& device_at(int index);  // throws kInvalidDevice
// The calling thread's.
Device& current_device();
void set_current_device(int index);

Device* device_of(const void* address);  // null: host memory
// Where the bytes of a device pointer are; a host pointer stays what it is.
std::byte* host_view(const void* address);
// Throws kIllegalAddress when device memory is touched outside a live allocation.
void check_access(const void* address, size_t bytes);

}  // namespace cuemu
