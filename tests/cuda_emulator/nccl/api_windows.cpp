// Exported: windows, put and signal.

#include "call_counts.h"
#include "device_runtime.h"
#include "handle.h"
#include "refusal.h"
#include "registrations.h"
#include "rma.h"

using namespace nccl_emulator;
using nccl_abi::kInvalidArgument;
using nccl_abi::kInvalidUsage;
using nccl_abi::kSuccess;

namespace {

struct Window;  // a number

Result refused_by_stream() { return refuse(nccl_abi::kUnhandledCudaError, "the stream did not take the operation"); }

// The frame around a one-sided operation: checks, and a ready Rma.
Result start(const char* function, Comm comm, int peer, int context, int slot, unsigned flags,
             std::shared_ptr<Handle>& handle) {
  handle = Handle::find(comm);
  if (handle == nullptr) return kInvalidArgument;
  RETURN_IF_REFUSED(handle->check_ready(function));
  if (flags != 0) return refuse(kInvalidArgument, "flags are reserved and must be 0");
  if (handle->rma() == nullptr) return refuse(kInvalidUsage, "no window was registered on this communicator");
  const pycomms::GateHolder inside(handle->gate());
  if (!inside) return refuse(kInvalidUsage, "the communicator is closed");
  if (peer < 0 || peer >= handle->inner()->impl.nranks()) {
    return refuse(kInvalidArgument, "peer is " + std::to_string(peer));
  }
  if (Rma::is_valid(context, slot)) return kSuccess;
  return refuse(kInvalidArgument, "the emulator has " + std::to_string(Rma::kSlots) + " signals in " +
                                      std::to_string(Rma::kContexts) + " contexts");
}

// Runs on the stream, if the communicator is still there.
template <typename Body>
auto work(const std::shared_ptr<Handle>& handle, Body body) {
  return [handle, body = std::move(body)] {
    const pycomms::GateHolder inside(handle->gate());
    if (inside && handle->state() == State::kReady) body(*handle, *handle->rma());
  };
}

void wait_for_all(Handle& handle, Rma& rma, const std::vector<nccl_abi::WaitSignal>& wanted) {
  hostccl::Communicator& comm = handle.inner()->impl;
  const auto deadline = pycomms::Deadline::after(comm.timeout_ns());
  const auto is_over = [&] {
    return handle.release()->flag.load() != 0 || comm.async_error() != kSuccess || deadline.passed();
  };
  for (const nccl_abi::WaitSignal& one : wanted) {
    if (rma.wait(one, is_over)) continue;
    if (deadline.passed()) handle.break_down({nccl_abi::kTimeout, "ncclWaitSignal: the signals did not come"});
    return;
  }
}

}  // namespace

NCCL_EXPORT Result ncclCommWindowRegister(Comm comm, void* buffer, size_t size, Window** window, int) {
  NCCL_COUNT_CALL();
  NCCL_FIND(handle, comm);
  RETURN_IF_REFUSED(handle->check_ready(__func__));
  if (window == nullptr || !is_device_memory(buffer) || size == 0) {
    return refuse(kInvalidArgument, "win is null, size is 0, or buff is no device memory");
  }
  const pycomms::GateHolder inside(handle->gate());
  if (!inside) return refuse(kInvalidUsage, "the communicator is closed");
  hostccl::Communicator& inner = handle->inner()->impl;
  if (handle->rma() == nullptr) {
    auto rma = Rma::open(inner);
    if (!rma.is_ok()) return refuse(nccl_abi::kSystemError, rma.status().message());
    handle->set_rma(rma.take());
  }
  auto number = handle->rma()->add_window(inner, bytes(buffer), size);
  if (!number.is_ok()) return refuse(nccl_abi::kSystemError, number.status().message());
  *window = static_cast<Window*>(add_registration({comm, buffer, size, number.value()}));
  return kSuccess;
}

NCCL_EXPORT Result ncclCommWindowDeregister(Comm comm, Window* window) {
  NCCL_COUNT_CALL();
  NCCL_FIND(handle, comm);
  if (remove_registration(comm, window)) return kSuccess;
  return refuse(kInvalidArgument, "the window is not registered on this communicator");
}

NCCL_EXPORT Result ncclWinGetUserPtr(Comm comm, Window* window, void** pointer) {
  NCCL_COUNT_CALL();
  const auto found = find_registration(window);
  if (!found.has_value() || found->comm != comm || pointer == nullptr) {
    return refuse(kInvalidArgument, "the window is not registered on this communicator, or outUserPtr is null");
  }
  *pointer = found->start;
  return kSuccess;
}

// As where no peer can be reached: only one's own memory has an address.
NCCL_EXPORT Result ncclGetPeerDevicePointer(Window* window, size_t offset, int peer, void** pointer) {
  NCCL_COUNT_CALL();
  const auto found = find_registration(window);
  if (!found.has_value() || pointer == nullptr) return refuse(kInvalidArgument, "no such window, or outPtr is null");
  NCCL_FIND(handle, found->comm);
  const pycomms::GateHolder inside(handle->gate());
  if (!inside) return refuse(kInvalidUsage, "the communicator is closed");
  *pointer = peer == handle->inner()->impl.rank() ? static_cast<std::byte*>(found->start) + offset : nullptr;
  return kSuccess;
}

NCCL_EXPORT Result ncclPutSignal(const void* local, size_t count, DataType type, int peer, Window* window,
                                 size_t offset, int slot, int context, unsigned flags, Comm comm, StreamHandle stream) {
  NCCL_COUNT_CALL();
  std::shared_ptr<Handle> handle;
  RETURN_IF_REFUSED(start(__func__, comm, peer, context, slot, flags, handle));
  const auto found = find_registration(window);
  if (!found.has_value() || found->comm != comm || found->window < 0) {
    return refuse(kInvalidArgument, "the window is not registered on this communicator");
  }
  const size_t size = count * hostccl::element_size(type);
  if (hostccl::element_size(type) == 0) return refuse(kInvalidArgument, "unknown datatype");
  auto put = [from = bytes(local), size, peer, number = found->window, offset, slot, context](Handle& h, Rma& rma) {
    const pycomms::Status written = rma.put(number, peer, offset, from, size);
    if (!written.is_ok()) return h.break_down({nccl_abi::kRemoteError, written.message()});
    rma.signal(peer, context, slot);
  };
  const DeviceGuard device(handle->device());
  return launch(stream, __func__, work(handle, std::move(put))) ? kSuccess : refused_by_stream();
}

NCCL_EXPORT Result ncclSignal(int peer, int slot, int context, unsigned flags, Comm comm, StreamHandle stream) {
  NCCL_COUNT_CALL();
  std::shared_ptr<Handle> handle;
  RETURN_IF_REFUSED(start(__func__, comm, peer, context, slot, flags, handle));
  auto signal = [=](Handle&, Rma& rma) { rma.signal(peer, context, slot); };
  const DeviceGuard device(handle->device());
  return launch(stream, __func__, work(handle, std::move(signal))) ? kSuccess : refused_by_stream();
}

NCCL_EXPORT Result ncclWaitSignal(int count, nccl_abi::WaitSignal* wanted, Comm comm, StreamHandle stream) {
  NCCL_COUNT_CALL();
  if (wanted == nullptr || count < 1) return refuse(kInvalidArgument, "there is nothing to wait for");
  const std::vector<nccl_abi::WaitSignal> all(wanted, wanted + count);
  std::shared_ptr<Handle> handle;
  for (const nccl_abi::WaitSignal& one : all) {
    RETURN_IF_REFUSED(start(__func__, comm, one.peer, one.context, one.slot, 0, handle));
    if (one.count < 1) return refuse(kInvalidArgument, "opCnt is less than 1");
  }
  auto wait = [all](Handle& h, Rma& rma) { wait_for_all(h, rma, all); };
  const DeviceGuard device(handle->device());
  return launch(stream, __func__, work(handle, std::move(wait))) ? kSuccess : refused_by_stream();
}
