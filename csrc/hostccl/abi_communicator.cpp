// NCCL's functions for the life of a communicator, memory and errors; and hostccl's own for time and failures.

#include <algorithm>
#include <string>

#include "hostccl/abi.h"
#include "hostccl/bootstrap.h"
#include "hostccl/shared_buffers.h"

namespace hostccl {
namespace {

constexpr int64_t kCloseTimeout = 30 * pycomms::kSecond;

// In a forked child nothing is torn down: the threads are the parent's, and a mutex that one of them held when we were
// forked stays locked here for ever.
bool is_left_to_the_parent(const Comm* comm) { return comm->impl.is_foreign(); }

}  // namespace
}  // namespace hostccl

namespace nccl_abi {

// --- life of a communicator

PYCOMMS_EXPORT Result ncclGetVersion(int* version) {
  if (version == nullptr) return hostccl::refuse("version is null");
  *version = kConfigVersion;
  return kSuccess;
}

PYCOMMS_EXPORT Result ncclGetUniqueId(UniqueId* id) {
  if (id == nullptr) return hostccl::refuse("uniqueId is null");
  auto made = hostccl::create_unique_id();
  if (!made.is_ok()) return hostccl::refuse(made.status().message(), kSystemError);
  *id = made.value();
  return kSuccess;
}

PYCOMMS_EXPORT Result ncclCommInitRankConfig(CommHandle* comm, int nranks, UniqueId id, int rank, Config* config) {
  using namespace hostccl;
  if (comm == nullptr) return refuse("comm is null");
  if (nranks < 1) return refuse("nranks is " + std::to_string(nranks) + ", expected at least 1");
  if (rank < 0 || rank >= nranks) {
    return refuse("rank is " + std::to_string(rank) + ", expected 0 to " + std::to_string(nranks - 1));
  }
  RETURN_IF_REFUSED(check_config(config));
  *comm = new Comm(rank, nranks);
  (*comm)->impl.start_join(id, init_timeout_ns());
  return finish_init(*comm, config);
}

PYCOMMS_EXPORT Result ncclCommInitRank(CommHandle* comm, int nranks, UniqueId id, int rank) {
  return ncclCommInitRankConfig(comm, nranks, id, rank, nullptr);
}

PYCOMMS_EXPORT Result ncclCommFinalize(CommHandle comm) {
  if (comm == nullptr) return hostccl::refuse("the communicator is null");
  return hostccl::done(comm, comm->impl.close(pycomms::Deadline::after(hostccl::kCloseTimeout)));
}

PYCOMMS_EXPORT Result ncclCommDestroy(CommHandle comm) {
  if (comm == nullptr || hostccl::is_left_to_the_parent(comm)) return kSuccess;
  const Result left = comm->impl.close(pycomms::Deadline::after(hostccl::kCloseTimeout));
  // Somebody is still inside after the deadline: leaking the object is better than pulling it away.
  if (left == kTimeout)
    return hostccl::refuse("operations were still running when the communicator was destroyed", left);
  delete comm;
  return kSuccess;
}

PYCOMMS_EXPORT Result ncclCommAbort(CommHandle comm) {
  if (comm == nullptr || hostccl::is_left_to_the_parent(comm)) return kSuccess;
  const Result left = comm->impl.abort(pycomms::Deadline::after(hostccl::kCloseTimeout));
  if (left == kTimeout) return hostccl::refuse("operations did not end after the communicator was aborted", left);
  delete comm;
  return kSuccess;
}

PYCOMMS_EXPORT const char* ncclGetErrorString(Result result) {
  switch (result) {
    case kSuccess:
      return "no error";
    case kUnhandledCudaError:
      return "unhandled cuda error";
    case kSystemError:
      return "the operating system refused something";
    case kInternalError:
      return "internal error";
    case kInvalidArgument:
      return "invalid argument";
    case kInvalidUsage:
      return "invalid usage";
    case kRemoteError:
      return "a member failed or left";
    case kInProgress:
      return "in progress";
    case kTimeout:
      return "a deadline passed";
  }
  return "unknown result code";
}

PYCOMMS_EXPORT const char* ncclGetLastError(CommHandle comm) {
  thread_local std::string text;
  text = hostccl::last_failure().text;
  if (comm != nullptr && comm->impl.async_error() > kSuccess && comm->impl.async_error() != kInProgress) {
    text = comm->impl.failure().text;
  }
  return text.c_str();
}

PYCOMMS_EXPORT Result ncclCommGetAsyncError(CommHandle comm, Result* async_error) {
  if (comm == nullptr || async_error == nullptr) return hostccl::refuse("comm or asyncError is null");
  *async_error = comm->impl.async_error();
  return kSuccess;
}

PYCOMMS_EXPORT Result ncclCommCount(CommHandle comm, int* count) {
  if (comm == nullptr || count == nullptr) return hostccl::refuse("comm or count is null");
  *count = comm->impl.nranks();
  return kSuccess;
}

PYCOMMS_EXPORT Result ncclCommCuDevice(CommHandle comm, int* device) {
  if (comm == nullptr || device == nullptr) return hostccl::refuse("comm or device is null");
  *device = -1;  // the host
  return kSuccess;
}

PYCOMMS_EXPORT Result ncclCommUserRank(CommHandle comm, int* rank) {
  if (comm == nullptr || rank == nullptr) return hostccl::refuse("comm or rank is null");
  *rank = comm->impl.rank();
  return kSuccess;
}

// --- memory

PYCOMMS_EXPORT Result ncclMemAlloc(void** ptr, size_t size) {
  if (ptr == nullptr) return hostccl::refuse("ptr is null");
  auto memory = hostccl::allocate_shared(size);
  if (!memory.is_ok()) return hostccl::refuse(memory.status().message(), kSystemError);
  *ptr = memory.value();
  return kSuccess;
}

PYCOMMS_EXPORT Result ncclMemFree(void* ptr) {
  if (ptr == nullptr || hostccl::free_shared(ptr)) return kSuccess;
  return hostccl::refuse("ptr was not made by ncclMemAlloc");
}

}  // namespace nccl_abi

namespace hostccl {

// --- failures and time, beyond NCCL

PYCOMMS_EXPORT Result hostcclCommGetFailure(CommHandle comm, Failure* failure) {
  if (comm == nullptr || failure == nullptr) return refuse("comm or failure is null");
  *failure = comm->impl.failure();
  return nccl_abi::kSuccess;
}

PYCOMMS_EXPORT Result hostcclLastFailure(Failure* failure) {
  if (failure == nullptr) return refuse("failure is null");
  *failure = last_failure();
  return nccl_abi::kSuccess;
}

PYCOMMS_EXPORT int hostcclCommProgress(CommHandle comm) {
  if (comm == nullptr || comm->impl.is_foreign() || comm->impl.async_error() == nccl_abi::kInProgress) return 0;
  pycomms::GateHolder inside(comm->impl.gate());
  return inside && comm->impl.progress() ? 1 : 0;
}

PYCOMMS_EXPORT void hostcclSetInitTimeout(int64_t nanoseconds) {
  init_timeout_ns() = std::clamp<int64_t>(nanoseconds, 1, pycomms::kForever);
}

PYCOMMS_EXPORT Result hostcclCommSetTimeout(CommHandle comm, int64_t nanoseconds) {
  if (comm == nullptr) return refuse("the communicator is null");
  if (nanoseconds <= 0) return refuse("the timeout is " + std::to_string(nanoseconds) + " ns, expected more than 0");
  comm->impl.set_timeout_ns(std::min(nanoseconds, pycomms::kForever));
  return nccl_abi::kSuccess;
}

PYCOMMS_EXPORT Result hostcclCommCancel(CommHandle comm, const char* why) {
  if (comm == nullptr) return refuse("the communicator is null");
  comm->impl.cancel(why != nullptr ? why : "cancelled");
  return nccl_abi::kSuccess;
}

PYCOMMS_EXPORT Result hostcclCommFail(CommHandle comm, const Failure* failure) {
  if (comm == nullptr || failure == nullptr) return refuse("comm or failure is null");
  if (failure->kind == FailureKind::kNone || failure->kind == FailureKind::kUsage) {
    return refuse("the failure is none of a communicator");
  }
  pycomms::GateHolder inside(comm->impl.gate());
  if (!inside) return refuse("the communicator is closed", nccl_abi::kInvalidUsage);
  comm->impl.fail(*failure);
  return nccl_abi::kSuccess;
}

PYCOMMS_EXPORT Result hostcclCommNeedAll(CommHandle comm, const char* op) {
  if (comm == nullptr || op == nullptr) return refuse("comm or op is null");
  if (comm->impl.is_foreign()) return check_ready(comm);
  pycomms::GateHolder inside(comm->impl.gate());
  if (!inside) return refuse("the communicator is closed", nccl_abi::kInvalidUsage);
  return done(comm, comm->impl.need_all(op));
}

PYCOMMS_EXPORT Result hostcclCommNeedLiving(CommHandle comm, const char* op, int* has_closed) {
  if (comm == nullptr || op == nullptr || has_closed == nullptr) return refuse("comm, op or has_closed is null");
  *has_closed = 0;
  if (comm->impl.is_foreign()) return check_ready(comm);
  pycomms::GateHolder inside(comm->impl.gate());
  if (!inside) return refuse("the communicator is closed", nccl_abi::kInvalidUsage);
  bool closed = false;
  const Result living = comm->impl.need_living(op, &closed);
  *has_closed = closed ? 1 : 0;
  return done(comm, living);
}

PYCOMMS_EXPORT Result hostcclSetVectorWidth(const char* name) {
  if (name != nullptr && set_vector_width(name)) return nccl_abi::kSuccess;
  return refuse(std::string("vector width ") + (name ? name : "null") +
                " is not to be had here: expected baseline, avx2 or avx512, and no wider than this machine's " +
                vector_width());
}

PYCOMMS_EXPORT void hostcclSetInterruptHook(int (*hook)()) { set_interrupt_hook(hook); }

}  // namespace hostccl
