// How a group gets a window, and torch's own interface to one.
#include <algorithm>

#include "nccl2/c10d/backend.h"
#include "nccl2/c10d/convert.h"
#include "nccl2/c10d/errors.h"
#include "nccl2/c10d/torch_window.h"
#include "nccl2/c10d/window.h"
#include "nccl2/c10d/window_memory.h"
#include "nccl2/c10d/window_regions.h"

namespace pycomms::c10d_backend {
namespace {

// Every rank sees the same, so that all raise or none does.
void check_same_elements(HostWindow& window, const at::Tensor& memory) {
  for (int rank = 0; rank < window.communicator().size(); ++rank) {
    hostccl::WindowAttr attr{};
    throw_if(window.call(OpKind::kWindow, [&](const HostWindowApi& api, hostccl::WindowHandle handle) {
      return api.window_attr(handle, rank, &attr);
    }));
    const auto theirs = static_cast<at::ScalarType>(attr.signature);
    if (theirs == memory.scalar_type()) continue;
    ErrorDetail detail;
    detail.kind = ErrorKind::kMismatch;
    detail.op = traits(OpKind::kWindow).name;
    detail.group = window.communicator().group();
    detail.rank = window.communicator().rank();
    detail.ranks = {rank};
    detail.message = "rank " + std::to_string(detail.rank) + " of group " + detail.group + ": window: rank " +
                     std::to_string(rank) + " makes it of " + c10::toString(theirs) + ", rank " +
                     std::to_string(detail.rank) + " of " + c10::toString(memory.scalar_type());
    throw_error(Error(std::move(detail)));
  }
}

}  // namespace

c10::intrusive_ptr<TensorWindow> Backend::open_window(const at::Tensor& memory, int slots,
                                                      std::optional<std::chrono::milliseconds> timeout,
                                                      std::string refusal) {
  const Visit inside(visitors_);
  refuse_in_block("window");
  hostccl::WindowOptions options;
  std::exception_ptr why;
  try {
    TORCH_CHECK_VALUE(refusal.empty(), refusal);
    check_window_memory(memory);
    options = make_reachable(memory, *getMemAllocator());
    options.signature = static_cast<uint64_t>(memory.scalar_type());
  } catch (const c10::Error& error) {
    // The others wait for this rank: they are told.
    why = std::current_exception();
    refusal = error.what_without_backtrace();
    options.refusal = refusal.c_str();
  }
  options.slots = slots;
  std::shared_ptr<HostWindow> host;
  Error error = HostWindow::make(communicator_, why ? nullptr : memory.data_ptr(), why ? 0 : memory.nbytes(), options,
                                 timeout_ns(timeout.value_or(kNoTimeout)), &host);
  if (why) std::rethrow_exception(why);
  throw_if(std::move(error));
  check_same_elements(*host, memory);
  return c10::make_intrusive<TensorWindow>(std::move(host), memory, slots,
                                           TensorWindow::Generation{generation(), generation_});
}

#ifdef C10D_BACKEND_HAS_WINDOW
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

namespace {

TensorWindow::How how(bool is_async, std::chrono::milliseconds timeout) {
  return {is_async, timeout.count() > 0 ? std::optional(timeout) : std::nullopt};
}

}  // namespace

c10::intrusive_ptr<::c10d::Work> TorchWindow::put(const at::Tensor& tensor, int64_t peer, int64_t offset, bool is_async,
                                                  const ::c10d::PutOptions& opts) {
  return finish(registered().put(tensor, static_cast<int>(peer), offset, kSlot, how(is_async, opts.timeout)),
                OpKind::kPut);
}

at::Tensor TorchWindow::map_remote_tensor(int64_t rank) { return registered().remote(static_cast<int>(rank)); }

c10::intrusive_ptr<::c10d::Work> TorchWindow::signal(int64_t peer, bool is_async, const ::c10d::SignalOptions& opts) {
  return finish(
      registered().signal(static_cast<int>(peer), kSlot, 1, hostccl::SignalChange::kAdd, how(is_async, opts.timeout)),
      OpKind::kSignal);
}

c10::intrusive_ptr<::c10d::Work> TorchWindow::wait_signal(int64_t peer, bool is_async,
                                                          const ::c10d::WaitSignalOptions& opts) {
  return finish(
      registered().wait_signal({static_cast<int>(peer)}, true, kSlot, 1, nullptr, how(is_async, opts.timeout)),
      OpKind::kWaitSignal);
}

::c10d::WindowAttr TorchWindow::get_attr(int64_t peer) {
  static_cast<void>(registered().attr(static_cast<int>(peer)));
  return {::c10d::WindowAccessType::UNIFIED};
}
#endif

}  // namespace pycomms::c10d_backend
