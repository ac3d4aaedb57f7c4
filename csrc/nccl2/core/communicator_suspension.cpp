// A communicator that gives its memory back to the device for a while: suspended, resumed, and what it holds.
#include "nccl2/core/communicator.h"

namespace pycomms {
namespace {

constexpr const char* kSince = " (NCCL 2.30 and newer can)";

}  // namespace

Error Communicator::suspend(Deadline deadline) {
  const GateHolder inside(gate_);
  if (!inside || was_forked()) return check(OpKind::kSuspend);
  if (engine_.nccl.comm_suspend == nullptr) return cannot(OpKind::kSuspend, kSince);
  if (Error error = become_ready(deadline)) return error;
  // From here on nothing is issued; what is in flight goes on.
  if (!lifecycle_.advance(LifeState::kReady, LifeState::kSuspended)) return become_ready(deadline);
  Error error = wait_until_idle(OpKind::kSuspend, deadline);
  if (!error) {
    const EngineResult result = settle(engine_.nccl.comm_suspend(comm_, nccl_abi::kSuspendMemory));
    if (result == nccl_abi::kSuccess) return {};
    error = explain(result, OpKind::kSuspend, 0);
  }
  static_cast<void>(lifecycle_.advance(LifeState::kSuspended, LifeState::kReady));
  return error;
}

Error Communicator::resume() {
  const GateHolder inside(gate_);
  if (!inside || was_forked()) return check(OpKind::kResume);
  if (state() != LifeState::kSuspended) {
    return make_error(ErrorKind::kUsage, std::string("cannot resume: it is ") + to_string(state()) + ", not suspended");
  }
  const EngineResult result = settle(engine_.nccl.comm_resume(comm_));
  if (result != nccl_abi::kSuccess) return explain(result, OpKind::kResume, 0);
  static_cast<void>(lifecycle_.advance(LifeState::kSuspended, LifeState::kReady));
  return {};
}

Error Communicator::memory_statistic(nccl_abi::MemoryStatistic which, uint64_t* value) {
  const GateHolder inside(gate_);
  if (!inside || was_forked()) return check(OpKind::kConnect);
  if (engine_.nccl.comm_mem_stats == nullptr) {
    return make_error(ErrorKind::kUsage, std::string("this NCCL has no memory statistics") + kSince);
  }
  if (state() != LifeState::kSuspended) {
    if (Error error = become_ready(Deadline::after(timeout()))) return error;
  }
  const EngineResult result = engine_.nccl.comm_mem_stats(comm_, which, value);
  return result == nccl_abi::kSuccess ? Error() : explain(result, OpKind::kConnect, 0);
}

Error Communicator::cannot(OpKind kind, const std::string& hint) const {
  return make_error(ErrorKind::kUsage, std::string("this NCCL cannot ") + traits(kind).name + hint);
}

}  // namespace pycomms
