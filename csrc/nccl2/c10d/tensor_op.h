// The OpState of an operation on tensors: it holds every tensor that the engine reads or writes until the engine is done
// with them, even if the Work and the group are gone by then. Must not know: communicators, Work.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>
#include <c10/util/SmallVector.h>

#include <optional>

#include "nccl2/core/device_op.h"

namespace pycomms::c10d_backend {

using TensorList = c10::SmallVector<at::Tensor, 2>;

class TensorOp final : public DeviceOp {
 public:
  using DeviceOp::DeviceOp;

  // By the issuing thread, before the engine call.
  void keep(const at::Tensor& tensor) { tensors_.push_back(tensor); }
  template <typename Tensors>
  void keep_all(const Tensors& tensors) {
    tensors_.append(tensors.begin(), tensors.end());
  }

  // Gives the tensors back: the operation has passed on its device, or a stream that their memory belongs to is ordered
  // behind it. Any thread.
  void let_go() {
    if (is_on_device() && !let_go_.exchange(true, std::memory_order_acq_rel)) tensors_.clear();
  }
  void passed() override { let_go(); }

  // Of an operation on a device: the stream it was issued on, and the one that was current then.
  void set_streams(const c10::Stream& issued_on, const c10::Stream& issued_from) {
    issued_on_ = issued_on;
    issued_from_ = issued_from;
  }
  const c10::Stream& issued_on() const { return *issued_on_; }
  const c10::Stream& issued_from() const { return *issued_from_; }

  // Of a coalesced block: true until endCoalescing.
  bool is_open() const { return open_.load(std::memory_order_acquire); }
  void set_open(bool open) { open_.store(open, std::memory_order_release); }

  // Filled by the engine before a receive ends.
  hostccl::RecvStatus received{-1, 0, 0};

 private:
  c10::SmallVector<at::Tensor, 4> tensors_;
  std::atomic<bool> let_go_{false};
  std::optional<c10::Stream> issued_on_, issued_from_;
  std::atomic<bool> open_{false};
};

}  // namespace pycomms::c10d_backend
