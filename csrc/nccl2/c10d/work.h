// c10d::Work over a shared OpState. It never holds the backend, so it may outlive its group. An operation that had ended
// when the call returned has no state at all.
// Any thread. Must not know: communicators, engines.
#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <mutex>

#include "nccl2/c10d/tensor_op.h"

namespace pycomms::c10d_backend {

class Work final : public ::c10d::Work {
 public:
  // `inputs` are shown by the profiler; null when it is off.
  Work(int rank, OpKind kind, TensorList outputs, const std::vector<at::Tensor>* inputs);

  // Exactly one of these follows the constructor: before an operation is issued, or when it has ended in the call.
  void follow(std::shared_ptr<TensorOp> state);
  void set_ended(uint64_t sequence);

  const TensorList& outputs() const { return outputs_; }

  // wait() blocks the host until the operation has passed on its device, instead of ordering the current stream behind it.
  void block_in_wait() { blocks_ = true; }

  void set_times(int64_t started_ns, int64_t ended_ns);  // of an operation that ended in the call

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  int sourceRank() const override;
  std::vector<at::Tensor> result() override;
  void synchronize() override;
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  void abort() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFutureResult() override;
  float getDuration() const override;
  uint64_t getSequencenumber() const override;

 private:
  bool order_current_stream();

  const OpKind kind_;
  const TensorList outputs_;
  bool blocks_ = false;              // set before anybody else has the Work
  std::shared_ptr<TensorOp> state_;  // null: ended well before the call returned
  uint64_t sequence_ = 0;
  int64_t started_ns_ = 0;
  int64_t ended_ns_ = 0;

  std::mutex futures_mutex_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;         // guarded by futures_mutex_
  c10::intrusive_ptr<c10::ivalue::Future> result_future_;  // guarded by futures_mutex_
};

}  // namespace pycomms::c10d_backend
