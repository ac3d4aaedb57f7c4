#include "nccl2/c10d/work.h"

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <c10/core/StreamGuard.h>

#include "nccl2/c10d/convert.h"
#include "nccl2/c10d/device_streams.h"
#include "nccl2/c10d/errors.h"
#include "nccl2/c10d/python_errors.h"
#include "nccl2/c10d/python_hooks.h"

namespace pycomms::c10d_backend {
namespace {

using c10::ivalue::Future;
using ::c10d::WorkResult;

WorkResult to_work_result(Outcome outcome) {
  switch (outcome) {
    case Outcome::kPending:
    case Outcome::kEnding:
      return WorkResult::UNKNOWN;
    case Outcome::kDone:
      return WorkResult::SUCCESS;
    case Outcome::kTimedOut:
      return WorkResult::TIMEOUT;
    case Outcome::kFailed:
    case Outcome::kCancelled:
      return WorkResult::COMM_ERROR;
  }
  return WorkResult::UNKNOWN;
}

Error waiter_expired(const OpState& state, std::chrono::milliseconds timeout) {
  ErrorDetail detail;
  detail.kind = ErrorKind::kTimeout;
  detail.op = traits(state.kind()).name;
  detail.sequence = state.sequence();
  detail.message = "wait() gave up after " + std::to_string(timeout.count()) + " ms: " + detail.op + " number " +
                   std::to_string(detail.sequence) +
                   " is still in flight. Only this wait has failed: the operation goes on and may be waited for again";
  return Error(std::move(detail));
}

void complete_with_tensors(Future& future, const OpState* state, const TensorList& outputs) {
  if (state == nullptr || state->outcome() == Outcome::kDone) {
    future.markCompleted(c10::IValue(std::vector<at::Tensor>(outputs.begin(), outputs.end())));
  } else {
    future.setError(to_python_exception(state->error()));
  }
}

}  // namespace

Work::Work(int rank, OpKind kind, TensorList outputs, const std::vector<at::Tensor>* inputs)
    : ::c10d::Work(rank, to_op_type(kind), inputs != nullptr ? traits(kind).title : nullptr,
                   inputs != nullptr ? std::optional(*inputs) : std::nullopt),
      kind_(kind),
      outputs_(std::move(outputs)) {}

void Work::set_ended(uint64_t sequence) {
  sequence_ = sequence;
  if (recordFunctionEndCallback_) std::exchange(recordFunctionEndCallback_, nullptr)();
}

void Work::follow(std::shared_ptr<TensorOp> state) {
  state_ = std::move(state);
  if (!recordFunctionEndCallback_) return;
  auto record_end = std::exchange(recordFunctionEndCallback_, nullptr);
  if (state_->is_open()) {
    record_end();  // of an operation in a block the profiler shows the call
  } else {
    // Whoever waited may stop the profiler at once, so the event must be complete by then.
    state_->set_before_end(std::move(record_end));
  }
}

void Work::set_times(int64_t started_ns, int64_t ended_ns) {
  started_ns_ = started_ns;
  ended_ns_ = ended_ns;
}

bool Work::isCompleted() { return state_ == nullptr || state_->has_ended(); }

bool Work::isSuccess() const { return state_ == nullptr || state_->outcome() == Outcome::kDone; }

std::exception_ptr Work::exception() const {
  if (state_ == nullptr || !state_->has_ended() || !state_->error()) return nullptr;
  return to_exception_ptr(state_->error());
}

int Work::sourceRank() const {
  TORCH_CHECK(kind_ == OpKind::kRecvAnySource || kind_ == OpKind::kRecv,
              "sourceRank() is known for receives only, not for ", traits(kind_).name);
  return state_ == nullptr ? -1 : state_->received.source;
}

std::vector<at::Tensor> Work::result() {
  TORCH_CHECK(isCompleted(), "result(): ", traits(kind_).name, " has not completed yet; call wait() first");
  return {outputs_.begin(), outputs_.end()};
}

void Work::synchronize() { wait(); }

bool Work::wait(std::chrono::milliseconds timeout) {
  // Inside an open block nothing can end before endCoalescing: the block's own Work is the one to wait for.
  if (state_ == nullptr || state_->is_open()) return true;
  if (state_->was_forked() && !state_->has_ended()) {
    throw_value_error("Work.wait", "the operation is another process's: this one was forked from it, and cannot wait");
  }
  const bool in_stream_order = state_->is_captured() || (timeout == kNoTimeout && !blocks_);
  if (state_->is_on_device() && in_stream_order && order_current_stream()) return true;
  const bool forever = timeout == kNoTimeout;  // not really: the operation's own deadline ends it
  const int64_t limit = forever ? kForever : std::chrono::nanoseconds(timeout).count();
  switch (state_->wait(Deadline::after(limit), forever, &interrupted)) {
    case OpState::WaitResult::kEnded:
      break;
    case OpState::WaitResult::kExpired:
      throw_error(waiter_expired(*state_, timeout));
    case OpState::WaitResult::kInterrupted:
      rethrow_pending_signal();
      break;
  }
  ValueReports* const reports = state_->reports();
  if (state_->outcome() != Outcome::kDone) {
    if (reports != nullptr) reports->told(state_->error());
    throw_error(state_->error());
  }
  // The thread that ended it may not have completed the future yet; whoever waited expects both.
  c10::intrusive_ptr<Future> future;
  {
    const std::lock_guard lock(futures_mutex_);
    future = future_;
  }
  if (future) future->wait();
  if (reports != nullptr) throw_if(reports->take());  // of an operation before this one
  return true;
}

// False: the host is to wait, if it has not ended yet; the outcome tells how.
bool Work::order_current_stream() {
  const bool captured = state_->is_captured();
  if (state_->has_ended() && !captured) return false;
  if (captured && state_->outcome() != Outcome::kDone) return false;
  const c10::Stream current = current_stream(state_->issued_on().device());
  const bool capturing = state_->is_capturing(native(current));
  if (capturing && !captured) return false;  // a graph cannot wait for what is outside of it
  TORCH_CHECK(
      capturing || !captured, "nccl2 wait: ", traits(kind_).name,
      " was captured in a CUDA graph, and runs when that is replayed: wait inside the capture, or for the replay");
  const Status ordered = state_->order(native(current));
  TORCH_CHECK(ordered.is_ok(), "nccl2 wait: rank ", rank_, ", ", traits(kind_).name, " #", getSequencenumber(), ": ",
              ordered.message());
  // What lives on the stream that issued it may be reused there from now on.
  if (current == state_->issued_from()) state_->let_go();
  return true;
}

void Work::abort() { TORCH_CHECK(false, "a single operation cannot be aborted; abort the group"); }

c10::intrusive_ptr<Future> Work::getFuture() {
  const std::lock_guard lock(futures_mutex_);
  if (future_) return future_;
  if (state_ != nullptr && state_->is_on_device()) {
    // As torch has it for devices: complete in stream order, for whoever waits is ordered behind the operation.
    const c10::Stream stream = state_->issued_on();
    future_ = c10::make_intrusive<Future>(c10::ListType::create(c10::TensorType::get()),
                                          std::vector<c10::Device>{stream.device()});
    const c10::StreamGuard on(stream);
    complete_with_tensors(*future_, state_->has_ended() ? state_.get() : nullptr, outputs_);
    return future_;
  }
  future_ = c10::make_intrusive<Future>(c10::ListType::create(c10::TensorType::get()));
  if (state_ == nullptr) {
    complete_with_tensors(*future_, nullptr, outputs_);
  } else {
    state_->then([future = future_, outputs = outputs_](const OpState& state) {
      complete_with_tensors(*future, &state, outputs);
    });
  }
  return future_;
}

c10::intrusive_ptr<Future> Work::getFutureResult() {
  const std::lock_guard lock(futures_mutex_);
  if (result_future_) return result_future_;
  result_future_ = c10::make_intrusive<Future>(c10::IntType::get());
  const auto complete = [](Future& future, Outcome outcome) {
    future.markCompleted(c10::IValue(static_cast<int64_t>(to_work_result(outcome))));
  };
  if (state_ == nullptr) {
    complete(*result_future_, Outcome::kDone);
  } else {
    state_->then([future = result_future_, complete](const OpState& state) { complete(*future, state.outcome()); });
  }
  return result_future_;
}

float Work::getDuration() const {
  if (state_ != nullptr && state_->is_on_device()) {
    Result<float> milliseconds = state_->duration_ms();
    TORCH_CHECK(milliseconds.is_ok(), "getDuration(): ", milliseconds.status().message());
    return milliseconds.value();
  }
  const int64_t started = state_ != nullptr ? state_->started_ns() : started_ns_;
  const int64_t ended = state_ != nullptr && state_->has_ended() ? state_->ended_ns() : ended_ns_;
  TORCH_CHECK(ended != 0, "getDuration(): ", traits(kind_).name,
              " has not completed, or ran inside the call while timing was off; see enableCollectivesTiming");
  return static_cast<float>(ended - started) / 1e6f;
}

uint64_t Work::getSequencenumber() const { return state_ != nullptr ? state_->sequence() : sequence_; }

}  // namespace pycomms::c10d_backend
