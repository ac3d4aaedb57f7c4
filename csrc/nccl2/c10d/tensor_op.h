// The OpState of an operation on tensors: it holds every tensor that the engine reads or writes until the engine is done
// with them, even if the Work and the group are gone by then. Must not know: communicators, Work.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include "nccl2/core/op_state.h"

namespace pycomms::c10d_backend {

using TensorList = c10::SmallVector<at::Tensor, 2>;

class TensorOp final : public OpState {
 public:
  using OpState::OpState;

  // By the issuing thread, before the engine call.
  void keep(const at::Tensor& tensor) { tensors_.push_back(tensor); }
  template <typename Tensors>
  void keep_all(const Tensors& tensors) {
    tensors_.append(tensors.begin(), tensors.end());
  }

  // Of a coalesced block: true until endCoalescing.
  bool is_open() const { return open_.load(std::memory_order_acquire); }
  void set_open(bool open) { open_.store(open, std::memory_order_release); }

  // Filled by the engine before a receive ends.
  hostccl::RecvStatus received{-1, 0, 0};

 private:
  c10::SmallVector<at::Tensor, 4> tensors_;
  std::atomic<bool> open_{false};
};

}  // namespace pycomms::c10d_backend
