// Registered memory of a DeviceCommunicator: each change is made between its operations, by the thread that issues them.
#include "nccl2/core/device_communicator.h"

namespace pycomms {
namespace {

constexpr int64_t kLookForMemoryEvery = 100 * kMicrosecond;

}  // namespace

Error DeviceCommunicator::registration_error(OpKind kind, const Registrations::Answer& answer) {
  if (answer.is_ok()) return {};
  if (answer.why.empty()) {
    Error error = communicator_->explain(answer.result, kind, 0);
    if (!communicator_->lifecycle_.is_ready()) lose(error);
    return error;
  }
  return make_error(ErrorKind::kUsage, kind, 0, answer.why);
}

Error DeviceCommunicator::refresh_memory(OpKind kind) {
  const GateHolder inside(communicator_->gate_);
  if (Error error = check_open(inside, kind)) return error;
  return refresh_open(kind);
}

Error DeviceCommunicator::refresh_open(OpKind kind) {
  Registrations& memory = *communicator_->memory();
  if (memory.has_gone()) {
    if (Error error = wait_until_passed(kind)) return error;
  }
  return registration_error(kind, memory.refresh(communicator_->comm_));
}

Error DeviceCommunicator::register_memory(const PoolId& pool, const std::vector<DeviceSegment>& segments,
                                          Registrations::Mode mode) {
  constexpr OpKind kKind = OpKind::kRegisterPool;
  const GateHolder inside(communicator_->gate_);
  if (Error error = check_open(inside, kKind)) return error;
  return registration_error(kKind, communicator_->memory()->add(communicator_->comm_, pool, segments, mode, settle()));
}

Error DeviceCommunicator::deregister_memory(const PoolId& pool) {
  constexpr OpKind kKind = OpKind::kDeregisterPool;
  const GateHolder inside(communicator_->gate_);
  if (Error error = check_open(inside, kKind)) return error;
  if (Error error = wait_until_passed(kKind)) return error;
  return registration_error(kKind, communicator_->memory()->drop(communicator_->comm_, pool, settle()));
}

Error DeviceCommunicator::register_window(void* data, size_t bytes, nccl_abi::WindowHandle* window) {
  constexpr OpKind kKind = OpKind::kWindow;
  const GateHolder inside(communicator_->gate_);
  if (Error error = check_open(inside, kKind)) return error;
  const NcclApi& nccl = communicator_->engine_.nccl;
  const EngineResult result =
      settle()(nccl.comm_window_register(communicator_->comm_, data, bytes, window, nccl_abi::kWindowSymmetric));
  if (Error error = registration_error(kKind, {result, {}})) return error;
  if (*window != nullptr) return {};
  return make_error(ErrorKind::kUsage, kKind, 0,
                    "NCCL makes no window of this memory: allocate it with pycomms.rma.empty(..., device=...)");
}

Error DeviceCommunicator::deregister_window(nccl_abi::WindowHandle window) {
  constexpr OpKind kKind = OpKind::kWindowClose;
  const GateHolder inside(communicator_->gate_);
  if (Error error = check_open(inside, kKind)) return error;
  const EngineResult result =
      settle()(communicator_->engine_.nccl.comm_window_deregister(communicator_->comm_, window));
  return registration_error(kKind, {result, {}});
}

Registrations::Settle DeviceCommunicator::settle() {
  return [this](EngineResult result) { return communicator_->settle(result); };
}

// What is in an open block has not been issued yet, and is not waited for.
Error DeviceCommunicator::wait_until_passed(OpKind kind) {
  for (const Deadline deadline = Deadline::after(communicator_->timeout());;) {
    {
      const std::lock_guard lock(mutex_);
      if (issued_.empty()) return {};
    }
    if (!communicator_->lifecycle_.is_ready()) return communicator_->first_error();
    if (deadline.passed()) {
      return make_error(ErrorKind::kTimeout, kind, 0,
                        "operations that may use the memory have not ended on the device");
    }
    sleep_for(kLookForMemoryEvery);
  }
}

}  // namespace pycomms
