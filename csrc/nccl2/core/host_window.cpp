#include "nccl2/core/host_window.h"

#include <utility>

#include "nccl2/core/failure.h"

namespace pycomms {
namespace {

// Calls end within milliseconds of the closing; on a machine that is stopped now and then, later.
constexpr int64_t kUntilItsCallsEnd = 10 * kSecond;

}  // namespace

Error HostWindow::make(std::shared_ptr<Communicator> communicator, void* data, size_t bytes,
                       const hostccl::WindowOptions& options, int64_t timeout, std::shared_ptr<HostWindow>* result) {
  const auto deadline = Deadline::after(timeout);
  if (Error error = communicator->become_ready(deadline)) return error;
  std::shared_ptr<HostWindow> window(new HostWindow(std::move(communicator)));
  Communicator& c = *window->communicator_;
  const GateHolder inside(c.gate_);
  if (!inside || !c.lifecycle_.is_ready() || c.was_forked()) {
    if (Error error = c.check(OpKind::kWindow)) return error;
  }
  const EngineResult made =
      c.engine_.windows.window_create(c.comm_, data, bytes, &options, deadline.left(), &window->handle_);
  if (made != nccl_abi::kSuccess) return window->explain(made, OpKind::kWindow);
  *result = std::move(window);
  return {};
}

HostWindow::~HostWindow() { static_cast<void>(close(false, 0)); }

Error HostWindow::close(bool together, int64_t timeout) {
  if (!gate_.close_once() || handle_ == nullptr) return {};
  const HostWindowApi& windows = communicator_->engine_.windows;
  const EngineResult ended = windows.window_close(handle_, together ? 1 : 0, timeout);
  Error error = ended == nccl_abi::kSuccess ? Error() : explain(ended, OpKind::kWindowClose);
  // Whoever is still inside then keeps what it uses: a leak is better than memory that is gone.
  if (gate_.wait_until_empty(Deadline::after(kUntilItsCallsEnd))) windows.window_free(std::exchange(handle_, nullptr));
  return error;
}

Error HostWindow::closed(OpKind kind) const {
  ErrorDetail detail = communicator_->make_error(ErrorKind::kClosed, "").detail();
  detail.op = traits(kind).name;
  detail.message += detail.op + ": the window is closed";
  return Error(std::move(detail));
}

Error HostWindow::why_not(OpKind kind) const {
  if (communicator_->was_forked()) return communicator_->check(kind);
  const Error first = communicator_->first_error();
  ErrorDetail detail = (first ? first : communicator_->make_error(ErrorKind::kClosed, "the group is closed")).detail();
  detail.op = traits(kind).name;
  detail.message = detail.op + " cannot run, for the group of its window has ended: " + detail.message;
  return Error(std::move(detail));
}

Error HostWindow::explain(EngineResult result, OpKind kind) const {
  const Explanation explanation = explain_call(communicator_->engine_, result);
  ErrorDetail detail = communicator_->make_error(explanation.kind, "").detail();
  detail.ranks = explanation.ranks;
  detail.op = traits(kind).name;
  detail.message += detail.op + ": " + explanation.text;
  return Error(std::move(detail));
}

}  // namespace pycomms
