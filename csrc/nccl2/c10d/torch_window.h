// torch's interface to a window (since 2.14) over ours. As with NCCL, each put also signals, in slot 0.
// Any thread. Must not know: engines.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "nccl2/c10d/backend.h"
#include "nccl2/c10d/window.h"

#ifdef C10D_BACKEND_HAS_WINDOW

namespace pycomms::c10d_backend {

class TorchWindow final : public ::c10d::Window {
 public:
  static constexpr int kSlot = 0;

  explicit TorchWindow(c10::intrusive_ptr<Backend> backend) : backend_(std::move(backend)) {}

  void tensor_register(const at::Tensor& tensor, bool owning) override;
  void tensor_deregister() override;
  c10::intrusive_ptr<::c10d::Work> put(const at::Tensor& tensor, int64_t peer, int64_t offset, bool is_async,
                                       const ::c10d::PutOptions& opts) override;
  at::Tensor map_remote_tensor(int64_t rank) override;
  c10::intrusive_ptr<::c10d::Work> signal(int64_t peer, bool is_async, const ::c10d::SignalOptions& opts) override;
  c10::intrusive_ptr<::c10d::Work> wait_signal(int64_t peer, bool is_async,
                                               const ::c10d::WaitSignalOptions& opts) override;
  ::c10d::WindowAttr get_attr(int64_t peer) override;

  // Null before tensor_register().
  const c10::intrusive_ptr<TensorWindow>& window() const { return window_; }

 private:
  TensorWindow& registered() const;
  // op: what an error calls the caller.
  int peer_of(const char* op, int64_t rank) const;
  c10::intrusive_ptr<::c10d::Work> finish(const c10::intrusive_ptr<::c10d::Work>& work, OpKind kind) const;

  const c10::intrusive_ptr<Backend> backend_;
  c10::intrusive_ptr<TensorWindow> window_;
};

}  // namespace pycomms::c10d_backend

#endif
