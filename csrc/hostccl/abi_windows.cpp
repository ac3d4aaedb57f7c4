// hostccl's functions for one-sided windows: arguments in, what the window answered out.

#include <vector>

#include "hostccl/abi.h"
#include "hostccl/hostccl_windows.h"
#include "hostccl/windows/window.h"

namespace hostccl {
namespace {

using pycomms::Code;
using pycomms::Status;

FailureKind kind_of(Code code) {
  switch (code) {
    case Code::kOk:
      return FailureKind::kNone;
    case Code::kInvalidArgument:
      return FailureKind::kUsage;
    case Code::kInvalidState:
    case Code::kCancelled:
      return FailureKind::kAborted;
    case Code::kTimeout:
      return FailureKind::kTimeout;
    case Code::kInterrupted:
      return FailureKind::kInterrupted;
    case Code::kPeerFailure:
      return FailureKind::kPeerDead;
    case Code::kMismatch:
      return FailureKind::kMismatch;
    case Code::kSystem:
      return FailureKind::kSystem;
  }
  return FailureKind::kSystem;
}

Result answer_about(const std::vector<int>& ranks, const Status& status, const char* op, int reporter) {
  const FailureKind kind = kind_of(status.code());
  Failure failure = make_failure(kind, reporter, status.message());
  for (const int rank : ranks) add_rank(failure, rank);
  set_op(failure, op);
  last_failure() = failure;
  return result_of(kind);
}

// peer: whom the call was about, or -1.
Result answer(const Status& status, const char* op, int reporter, int peer = -1) {
  if (status.is_ok()) [[likely]]
    return nccl_abi::kSuccess;
  const bool is_told = status.code() == Code::kPeerFailure && peer >= 0;
  return answer_about(is_told ? std::vector{peer} : std::vector<int>(), status, op, reporter);
}

Result check_window(WindowHandle window) {
  return window != nullptr ? nccl_abi::kSuccess : refuse("the window is null");
}

std::span<const WindowPiece> span_of(const WindowPiece* pieces, size_t npieces) {
  return pieces == nullptr ? std::span<const WindowPiece>() : std::span(pieces, npieces);
}

}  // namespace

PYCOMMS_EXPORT Result hostcclWindowCreate(CommHandle comm, void* data, size_t bytes, const WindowOptions* options,
                                          int64_t timeout_ns, WindowHandle* window) {
  if (window == nullptr) return refuse("window is null");
  *window = nullptr;
  RETURN_IF_REFUSED(check_ready(comm));
  RETURN_IF_REFUSED(check_pointer("data", data, bytes));
  const pycomms::GateHolder inside(comm->impl.gate());
  if (!inside) return refuse("the communicator is closed", nccl_abi::kInvalidUsage);
  std::vector<int> about;
  auto made = Window::make(comm->impl.windows(), data, bytes, options == nullptr ? WindowOptions() : *options,
                           timeout_ns, &about);
  if (!made.is_ok()) return answer_about(about, made.status(), "window", comm->impl.rank());
  *window = made.take().release();
  return nccl_abi::kSuccess;
}

PYCOMMS_EXPORT Result hostcclWindowClose(WindowHandle window, int together, int64_t timeout_ns) {
  RETURN_IF_REFUSED(check_window(window));
  std::vector<int> about;
  const Status ended = window->close(together != 0, pycomms::Deadline::after(timeout_ns), &about);
  return ended.is_ok() ? nccl_abi::kSuccess : answer_about(about, ended, "window_close", window->rank());
}

PYCOMMS_EXPORT void hostcclWindowFree(WindowHandle window) { delete window; }

PYCOMMS_EXPORT Result hostcclWindowAttr(WindowHandle window, int peer, WindowAttr* attr) {
  RETURN_IF_REFUSED(check_window(window));
  if (attr == nullptr) return refuse("attr is null");
  return answer(window->attr(peer, attr), "window_attr", window->rank(), peer);
}

PYCOMMS_EXPORT Result hostcclWindowMap(WindowHandle window, int peer, void** data, void** hold) {
  RETURN_IF_REFUSED(check_window(window));
  if (data == nullptr || hold == nullptr) return refuse("data or hold is null");
  auto kept = std::make_unique<std::shared_ptr<pycomms::SharedMapping>>();
  const Status mapped = window->map(peer, data, kept.get());
  if (mapped.is_ok()) *hold = kept.release();
  return answer(mapped, "window_map", window->rank(), peer);
}

PYCOMMS_EXPORT void hostcclWindowUnmap(void* hold) {
  delete static_cast<std::shared_ptr<pycomms::SharedMapping>*>(hold);
}

PYCOMMS_EXPORT Result hostcclWindowPut(WindowHandle window, int peer, const WindowPiece* pieces, size_t npieces,
                                       const void* source, const WindowSignal* signal, int64_t timeout_ns) {
  RETURN_IF_REFUSED(check_window(window));
  return answer(window->put(peer, span_of(pieces, npieces), static_cast<const std::byte*>(source), signal, timeout_ns),
                "put", window->rank(), peer);
}

PYCOMMS_EXPORT Result hostcclWindowGet(WindowHandle window, int peer, const WindowPiece* pieces, size_t npieces,
                                       void* destination, int64_t timeout_ns) {
  RETURN_IF_REFUSED(check_window(window));
  return answer(window->get(peer, span_of(pieces, npieces), static_cast<std::byte*>(destination), timeout_ns), "get",
                window->rank(), peer);
}

PYCOMMS_EXPORT Result hostcclWindowUpdate(WindowHandle window, int peer, const WindowPiece* pieces, size_t npieces,
                                          DataType type, WindowOp op, const void* operands, void* old,
                                          int64_t timeout_ns) {
  RETURN_IF_REFUSED(check_window(window));
  return answer(window->update(peer, span_of(pieces, npieces), type, op, static_cast<const std::byte*>(operands),
                               static_cast<std::byte*>(old), timeout_ns),
                "accumulate", window->rank(), peer);
}

PYCOMMS_EXPORT Result hostcclWindowCompareSwap(WindowHandle window, int peer, uint64_t offset, DataType type,
                                               const void* expected, const void* desired, void* old,
                                               int64_t timeout_ns) {
  RETURN_IF_REFUSED(check_window(window));
  return answer(window->compare_swap(peer, offset, type, expected, desired, old, timeout_ns), "compare_swap",
                window->rank(), peer);
}

PYCOMMS_EXPORT Result hostcclWindowFlush(WindowHandle window, int peer, int64_t timeout_ns) {
  RETURN_IF_REFUSED(check_window(window));
  int about = -1;
  const Status flushed = window->flush(peer, timeout_ns, &about);
  return answer(flushed, "flush", window->rank(), about);
}

PYCOMMS_EXPORT Result hostcclWindowSignal(WindowHandle window, int peer, const WindowSignal* signal,
                                          int64_t timeout_ns) {
  RETURN_IF_REFUSED(check_window(window));
  if (signal == nullptr) return refuse("signal is null");
  return answer(window->signal(peer, *signal, timeout_ns), "signal", window->rank(), peer);
}

PYCOMMS_EXPORT Result hostcclWindowWaitSignal(WindowHandle window, const int* peers, size_t npeers, int all_of,
                                              int slot, int64_t count, int64_t timeout_ns, size_t* which) {
  RETURN_IF_REFUSED(check_window(window));
  if (peers == nullptr && npeers > 0) return refuse("peers is null");
  int about = -1;
  const Status waited =
      window->wait_signal(std::span(peers, npeers), all_of != 0, slot, count, timeout_ns, which, &about);
  return answer(waited, "wait_signal", window->rank(), about);
}

PYCOMMS_EXPORT Result hostcclWindowReadSignal(WindowHandle window, int peer, int slot, int64_t* value) {
  RETURN_IF_REFUSED(check_window(window));
  if (value == nullptr) return refuse("value is null");
  return answer(window->read_signal(peer, slot, value), "read_signal", window->rank(), peer);
}

PYCOMMS_EXPORT Result hostcclWindowLock(WindowHandle window, int peer, int shared, int64_t timeout_ns, int* broken) {
  RETURN_IF_REFUSED(check_window(window));
  if (broken == nullptr) return refuse("broken is null");
  *broken = -1;
  return answer(window->lock(peer, shared != 0, timeout_ns, broken), "lock", window->rank(), peer);
}

PYCOMMS_EXPORT Result hostcclWindowUnlock(WindowHandle window, int peer, int shared, int64_t timeout_ns) {
  RETURN_IF_REFUSED(check_window(window));
  return answer(window->unlock(peer, shared != 0, timeout_ns), "unlock", window->rank(), peer);
}

}  // namespace hostccl
