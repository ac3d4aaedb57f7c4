#include "nccl2/c10d/window_queue.h"

#include <utility>

#include "nccl2/core/recorded.h"

namespace pycomms::c10d_backend {

struct WindowQueue::Task {
  std::shared_ptr<WindowQueue> queue;
  std::shared_ptr<TensorOp> state;
  Operation operation;

  static void run(void* arg) {
    const std::unique_ptr<Task> task(static_cast<Task*>(arg));
    task->state->set_started(now_ns());
    Error error = task->operation();
    // First, for whoever sees that it has ended, or is called because it has, may wait until nothing is queued.
    static_cast<void>(task->queue->in_flight_.remove(*task->state));
    task->queue->in_flight_.settle();
    const Outcome outcome = outcome_of(error);
    task->state->end(outcome, std::move(error));
  }
};

Status WindowQueue::add(std::shared_ptr<TensorOp> state, Operation operation) {
  Result<StreamHandle> on = stream_.get("pycomms-window");
  if (!on.is_ok()) return on.status();
  in_flight_.add(state);
  auto task = std::make_unique<Task>(Task{shared_from_this(), state, std::move(operation)});
  if (engine_.host.stream_run(on.value(), &Task::run, task.get()) == nccl_abi::kSuccess) {
    static_cast<void>(task.release());  // the stream has it
    return Status::ok();
  }
  static_cast<void>(in_flight_.remove(*state));
  in_flight_.settle();
  hostccl::Failure failure{};
  static_cast<void>(engine_.host.last_failure(&failure));
  return {Code::kSystem, failure.text};
}

}  // namespace pycomms::c10d_backend
