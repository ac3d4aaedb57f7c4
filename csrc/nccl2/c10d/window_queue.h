// The asynchronous operations of a window: they run in order on a stream of its own, which is made with the first of them.
// Any thread; no lock is held across an operation or a call of the engine but the one that makes the stream. Must not know: what an
// operation does.
#pragma once

#include <functional>
#include <memory>

#include "nccl2/c10d/tensor_op.h"
#include "nccl2/core/communicator.h"
#include "nccl2/core/in_flight.h"
#include "nccl2/core/lazy_stream.h"

namespace pycomms::c10d_backend {

class WindowQueue : public std::enable_shared_from_this<WindowQueue> {
 public:
  using Operation = std::function<Error()>;  // must not throw

  explicit WindowQueue(const Communicator& group) : engine_(group.engine()), stream_(group.runtime()) {}

  // The operation's result ends the state. Not ok: it was not queued.
  Status add(std::shared_ptr<TensorOp> state, Operation operation);
  bool is_empty() const { return in_flight_.is_empty(); }
  // False: the deadline has passed, or interrupted() said so, which is asked every 50 ms.
  bool wait_until_empty(Deadline deadline, bool (*interrupted)()) {
    return in_flight_.wait_until_empty(deadline, interrupted);
  }
  // Waits for what is queued; by its owner, who adds nothing any more.
  void end() { stream_.end(); }

 private:
  struct Task;

  const Engine& engine_;
  LazyStream stream_;
  InFlight in_flight_;
};

}  // namespace pycomms::c10d_backend
