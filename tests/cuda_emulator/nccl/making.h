// How a communicator comes to be: at once, when its group ends, or when a stall is over; on a thread of its own, with the
// calling thread waiting if the communicator is blocking.
// Threads: any. Must not know: what is done to make it.
#pragma once

#include <functional>
#include <memory>

#include "handle.h"

namespace nccl_emulator {

// Makes the child's inner communicator, on a thread of its own; kSuccess, or last_error() says more. child: null for a
// member of the parent that takes part and gets none.
using Job = std::function<Result(Handle* child)>;

struct Making {
  Point point;
  std::shared_ptr<Handle> parent;  // in progress meanwhile; may be null
  std::shared_ptr<Handle> child;   // may be null
  bool is_blocking;
  Job job;
};

// In a group: remembers it. Otherwise begins, and waits if blocking.
Result make(Making making);

// What a group has remembered: all begin, then the blocking ones are waited for. The first error.
Result make_all(std::vector<Making> makings);

}  // namespace nccl_emulator
