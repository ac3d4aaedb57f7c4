// A stream of the device that is made when it is first needed.
// Any thread, but end() its owner, once, when nobody needs it any more.
// Must not know: what runs on it.
#pragma once

#include <atomic>
#include <mutex>

#include "nccl2/driver/device_runtime.h"

namespace pycomms {

class LazyStream {
 public:
  explicit LazyStream(DeviceRuntime& runtime) : runtime_(runtime) {}

  Result<StreamHandle> get(const char* name) {
    if (StreamHandle made = if_made()) return made;
    const std::lock_guard lock(making_);
    if (StreamHandle made = if_made()) return made;
    Result<StreamHandle> made = runtime_.create_stream(name);
    if (made.is_ok()) handle_.store(made.value(), std::memory_order_release);
    return made;
  }
  // Null: nobody has needed it, or it has ended.
  StreamHandle if_made() const { return handle_.load(std::memory_order_acquire); }

  // Waits for its work and lets it go.
  void end() {
    if (StreamHandle made = handle_.exchange(nullptr)) runtime_.destroy_stream(made);
  }
  // After a fork, in the child: the thread behind it does not exist here.
  void abandon() { handle_ = nullptr; }

 private:
  DeviceRuntime& runtime_;
  std::mutex making_;  // held over the engine's call, which calls nobody back
  std::atomic<StreamHandle> handle_{nullptr};
};

}  // namespace pycomms
