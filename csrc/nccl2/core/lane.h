// Where a communicator's asynchronous operations run: one stream of the device and the engine's point-to-point
// requests. Waiters use it to run queued work themselves instead of sleeping. Operations share it with the communicator,
// because a Work may outlive its group; close() makes it a shell.
// Any thread. Must not know: the lifecycle, what an operation is.
#pragma once

#include <atomic>

#include "base/gate.h"
#include "nccl2/core/error.h"
#include "nccl2/core/in_flight.h"
#include "nccl2/core/lazy_stream.h"
#include "nccl2/driver/device_runtime.h"

namespace pycomms {

// Tells what an engine's result means; the communicator does.
class FailureSource {
 public:
  virtual Error explain(EngineResult result, const OpState& state) = 0;

 protected:
  ~FailureSource() = default;
};

class Lane {
 public:
  // `source` outlives every operation in flight.
  Lane(const Engine& engine, DeviceRuntime& runtime, FailureSource& source)
      : engine_(engine), runtime_(runtime), source_(source), stream_(runtime) {}

  // Before the first operation. `comm` stays valid until close() has returned.
  void open(CommHandle comm) { comm_ = comm; }

  InFlight& in_flight() { return in_flight_; }
  FailureSource& source() { return source_; }

  // The stream, made at its first use.
  Result<StreamHandle> stream(const char* name) { return stream_.get(name); }

  // Operations on the stream that have not ended. Zero means that one may run on the calling thread without overtaking.
  bool is_idle() const { return queued_.load(std::memory_order_acquire) == 0; }
  void enter_queue() { queued_.fetch_add(1, std::memory_order_relaxed); }
  void leave_queue() { queued_.fetch_sub(1, std::memory_order_release); }

  // Runs queued work of the stream, up to that place, on the calling thread, for as long as that takes. False when there is
  // none.
  bool help_stream(uint64_t position);
  // Moves pending point-to-point requests on, from the calling thread, without blocking; false when nothing moved.
  bool help_requests();

  // Waits until no waiter helps any more, then for the stream's work, and lets the stream go. Once.
  void close(Deadline deadline);
  // After a fork, in the child: the threads behind the stream do not exist here.
  void abandon() { stream_.abandon(); }

 private:
  const Engine& engine_;
  DeviceRuntime& runtime_;
  FailureSource& source_;
  Gate helpers_;
  InFlight in_flight_;
  std::atomic<int> queued_{0};
  LazyStream stream_;
  CommHandle comm_ = nullptr;
};

}  // namespace pycomms
