#include "nccl2/c10d/torch_window.h"

#include "nccl2/c10d/errors.h"

#ifdef C10D_BACKEND_HAS_WINDOW

namespace pycomms::c10d_backend {
namespace {

TensorWindow::How how(bool is_async, std::chrono::milliseconds timeout) {
  return {is_async, timeout.count() > 0 ? std::optional(timeout) : std::nullopt};
}

}  // namespace

c10::intrusive_ptr<::c10d::Window> Backend::new_window(const std::optional<at::Tensor>& tensor) {
  auto window = c10::make_intrusive<TorchWindow>(c10::intrusive_ptr<Backend>::reclaim_copy(this));
  if (tensor) window->tensor_register(*tensor, true);
  return window;
}

void TorchWindow::tensor_register(const at::Tensor& tensor, bool owning) {
  TORCH_CHECK_VALUE(owning, "window: owning is False, but a window keeps the memory that others reach");
  TORCH_CHECK_VALUE(!window_, "window: it has a tensor already: call tensor_deregister() first");
  window_ = backend_->open_window(tensor, hostccl::WindowOptions().slots, std::nullopt, {});
}

void TorchWindow::tensor_deregister() {
  if (!window_) return;
  window_->close(true, {});
  window_.reset();
}

int TorchWindow::peer_of(const char* op, int64_t rank) const {
  if (rank >= 0 && rank < backend_->getSize()) return static_cast<int>(rank);
  throw_value_error(op, "peer is " + std::to_string(rank) + ", but the group has ranks 0 to " +
                            std::to_string(backend_->getSize() - 1));
}

TensorWindow& TorchWindow::registered() const {
  TORCH_CHECK_VALUE(window_, "window: it has no tensor: call tensor_register() first");
  return *window_;
}

c10::intrusive_ptr<::c10d::Work> TorchWindow::finish(const c10::intrusive_ptr<::c10d::Work>& work, OpKind kind) const {
  if (work) return work;
  auto ended = c10::make_intrusive<Work>(window_->rank(), kind, TensorList(), nullptr);
  ended->set_ended(0);
  return ended;
}

c10::intrusive_ptr<::c10d::Work> TorchWindow::put(const at::Tensor& tensor, int64_t peer, int64_t offset, bool is_async,
                                                  const ::c10d::PutOptions& opts) {
  return finish(registered().put(tensor, peer_of("put", peer), offset, kSlot, how(is_async, opts.timeout)),
                OpKind::kPut);
}

at::Tensor TorchWindow::map_remote_tensor(int64_t rank) {
  return registered().remote(peer_of("map_remote_tensor", rank));
}

c10::intrusive_ptr<::c10d::Work> TorchWindow::signal(int64_t peer, bool is_async, const ::c10d::SignalOptions& opts) {
  return finish(
      registered().signal(peer_of("signal", peer), kSlot, 1, hostccl::SignalChange::kAdd, how(is_async, opts.timeout)),
      OpKind::kSignal);
}

c10::intrusive_ptr<::c10d::Work> TorchWindow::wait_signal(int64_t peer, bool is_async,
                                                          const ::c10d::WaitSignalOptions& opts) {
  return finish(
      registered().wait_signal({peer_of("wait_signal", peer)}, true, kSlot, 1, nullptr, how(is_async, opts.timeout)),
      OpKind::kWaitSignal);
}

::c10d::WindowAttr TorchWindow::get_attr(int64_t peer) {
  static_cast<void>(registered().attr(peer_of("get_attr", peer)));
  return {::c10d::WindowAccessType::UNIFIED};
}

}  // namespace pycomms::c10d_backend

#endif
