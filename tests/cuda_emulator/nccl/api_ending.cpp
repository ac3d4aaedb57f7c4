// Exported: how communicators end, and what they are told on the way.

#include "base/thread.h"
#include "call_counts.h"
#include "group.h"
#include "refusal.h"

using namespace nccl_emulator;
using nccl_abi::kInvalidArgument;
using nccl_abi::kInvalidUsage;
using nccl_abi::kSuccess;

namespace {

Result finalize(Handle& handle) {
  const pycomms::GateHolder inside(handle.gate());
  return inside ? told(inner_ncclCommFinalize(handle.inner())) : kSuccess;
}

}  // namespace

NCCL_EXPORT Result ncclCommFinalize(Comm comm) {
  NCCL_COUNT_CALL();
  NCCL_FIND(handle, comm);
  RETURN_IF_REFUSED(handle->check_ready(__func__));
  if (!handle->change(State::kReady, State::kFinalized)) return refuse(kInvalidUsage, "called by another thread too");
  if (handle->is_blocking()) return finalize(*handle);
  handle->begin_call();
  auto thread = pycomms::start_thread("nccl-finalize", [handle] {
    static_cast<void>(finalize(*handle));  // a failure is the communicator's too
    handle->end_call();
  });
  if (!thread.is_ok()) {
    handle->end_call();
    return refuse(nccl_abi::kSystemError, thread.status().message());
  }
  thread.value().detach();  // it keeps the handle, and closing has a deadline
  return nccl_abi::kInProgress;
}

NCCL_EXPORT Result ncclCommDestroy(Comm comm) {
  NCCL_COUNT_CALL();
  if (comm == nullptr) return kSuccess;
  NCCL_FIND(handle, comm);
  return at_the_end([handle = handle] { return handle->close(/*abort=*/false); });
}

// In a group: all communicators are told to stop at once, and given back at the end.
NCCL_EXPORT Result ncclCommAbort(Comm comm) {
  NCCL_COUNT_CALL();
  if (comm == nullptr) return kSuccess;
  NCCL_FIND(handle, comm);
  handle->cancel("ncclCommAbort");
  return at_the_end([handle = handle] { return handle->close(/*abort=*/true); });
}

// NCCL revokes one member; hostccl's failures are everybody's, so here the others hear of it at once.
NCCL_EXPORT Result ncclCommRevoke(Comm comm, int flags) {
  NCCL_COUNT_CALL();
  NCCL_FIND(handle, comm);
  if (flags != 0) return refuse(kInvalidArgument, "revokeFlags must be NCCL_REVOKE_DEFAULT");
  if (!handle->change(State::kReady, State::kRevoked) && !handle->change(State::kSuspended, State::kRevoked)) {
    return refuse(kInvalidUsage, std::string("ncclCommRevoke: the communicator is ") + state_name(handle->state()));
  }
  handle->cancel("ncclCommRevoke");
  return handle->is_blocking() ? kSuccess : nccl_abi::kInProgress;
}
