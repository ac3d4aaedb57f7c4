// Streams and their completion, for one kind of device: queues on which an engine runs operations in order.
// Two implementations: host_runtime (hostccl's streams) and, for GPU tensors, CUDA streams with events.
// Any thread may call anything. Must not know: communicators, torch.
#pragma once

#include "nccl2/driver/nccl_api.h"

namespace pycomms {

// Called once, with no lock held, when all work that was on the stream before it has ended. Must not throw.
using StreamCallback = void (*)(void* arg, EngineResult result);

class DeviceRuntime {
 public:
  virtual ~DeviceRuntime() = default;

  virtual Result<StreamHandle> create_stream(const char* name) = 0;
  // Waits for the work that is on the stream, callbacks included.
  virtual void destroy_stream(StreamHandle stream) = 0;
  // *position: the place of the callback in the stream, for help().
  virtual EngineResult notify(StreamHandle stream, StreamCallback callback, void* arg, uint64_t* position) = 0;
  // Runs queued work of the stream, up to that place, on the calling thread; false when there is none to take over.
  virtual bool help(StreamHandle stream, uint64_t position) = 0;
  // True when the engine takes a null stream to mean "on the calling thread, return when it has ended".
  virtual bool can_run_inline() const = 0;
};

}  // namespace pycomms
