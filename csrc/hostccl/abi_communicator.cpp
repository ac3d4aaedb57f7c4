// NCCL's functions for the life of a communicator, memory and errors; and hostccl's own for time and failures.

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "hostccl/abi.h"
#include "hostccl/bootstrap.h"
#include "hostccl/shared_buffers.h"

namespace hostccl {
namespace {

using nccl_abi::Config;
using nccl_abi::UniqueId;

constexpr int64_t kDefaultInitTimeout = 1800 * pycomms::kSecond;
constexpr int64_t kCloseTimeout = 30 * pycomms::kSecond;

thread_local int64_t init_timeout_ns = kDefaultInitTimeout;

Result check_config(const Config* config) {
  if (config == nullptr || config->magic == nccl_abi::kConfigMagic) return nccl_abi::kSuccess;
  return refuse("config was not initialised with NCCL_CONFIG_INITIALIZER");
}

bool is_blocking(const Config* config) { return config == nullptr || config->blocking != 0; }

Result finish_init(Comm* comm, const Config* config) {
  if (!is_blocking(config)) return nccl_abi::kInProgress;
  return done(comm, comm->impl.wait_until_ready(pycomms::Deadline::after(pycomms::kForever)));
}

// What a member of a split reports.
struct SplitReport {
  int32_t color;
  int32_t key;
  UniqueId id;
  int32_t has_id;
};
static_assert(sizeof(SplitReport) <= kReportBytes);

Result split_report(Comm* comm, const SplitReport& mine, std::vector<SplitReport>& all) {
  Report report{};
  std::memcpy(report.data(), &mine, sizeof(mine));
  const RollCallResult call = comm->impl.roll_call(RollCallKind::kSplit, report, init_timeout_ns);
  if (call.result == nccl_abi::kTimeout && !call.missing.empty()) {
    last_failure() = make_failure(FailureKind::kTimeout, comm->impl.rank(), "");
    std::string text = "split: these ranks of the parent did not take part in time:";
    for (const int rank : call.missing) {
      add_rank(last_failure(), rank);
      text += " " + std::to_string(rank);
    }
    set_text(last_failure(), text + "; the parent is unharmed");
    return call.result;
  }
  if (call.result != nccl_abi::kSuccess) return done(comm, call.result);
  all.resize(call.reports.size());
  for (size_t i = 0; i < all.size(); ++i) std::memcpy(&all[i], call.reports[i].data(), sizeof(SplitReport));
  return nccl_abi::kSuccess;
}

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
  (*comm)->impl.start_join(id, init_timeout_ns);
  return finish_init(*comm, config);
}

PYCOMMS_EXPORT Result ncclCommInitRank(CommHandle* comm, int nranks, UniqueId id, int rank) {
  return ncclCommInitRankConfig(comm, nranks, id, rank, nullptr);
}

// The members of the parent are asked on the calling thread; only joining the new communicator is in the background.
PYCOMMS_EXPORT Result ncclCommSplit(CommHandle comm, int color, int key, CommHandle* newcomm, Config* config) {
  using namespace hostccl;
  if (newcomm == nullptr) return refuse("newcomm is null");
  *newcomm = nullptr;
  RETURN_IF_REFUSED(check_ready(comm));
  RETURN_IF_REFUSED(check_config(config));
  if (color < 0 && color != kSplitNoColor) return refuse("color is " + std::to_string(color) + ", expected >= 0 or -1");
  pycomms::GateHolder inside(comm->impl.gate());
  if (!inside) return refuse("the communicator is closed", kInvalidUsage);

  std::vector<SplitReport> all;
  RETURN_IF_REFUSED(split_report(comm, SplitReport{color, key, {}, 0}, all));
  std::vector<int> members;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (color != kSplitNoColor && all[rank].color == color) members.push_back(static_cast<int>(rank));
  }
  std::stable_sort(members.begin(), members.end(),
                   [&](int a, int b) { return all[static_cast<size_t>(a)].key < all[static_cast<size_t>(b)].key; });
  SplitReport second{color, key, {}, 0};
  if (!members.empty() && members.front() == comm->impl.rank()) {
    if (auto id = create_unique_id(); id.is_ok()) {
      second.id = id.value();
      second.has_id = 1;
    }
  }
  RETURN_IF_REFUSED(split_report(comm, second, all));
  if (members.empty()) return kSuccess;
  const SplitReport& leader = all[static_cast<size_t>(members.front())];
  if (leader.has_id == 0) {
    return refuse("split: rank " + std::to_string(members.front()) + " of the parent could not open a socket",
                  kSystemError);
  }
  const auto me = std::find(members.begin(), members.end(), comm->impl.rank());
  *newcomm = new Comm(static_cast<int>(me - members.begin()), static_cast<int>(members.size()));
  (*newcomm)->impl.set_timeout_ns(comm->impl.timeout_ns());
  (*newcomm)->impl.start_join(leader.id, init_timeout_ns);
  return finish_init(*newcomm, config);
}

PYCOMMS_EXPORT Result ncclCommFinalize(CommHandle comm) {
  if (comm == nullptr) return hostccl::refuse("the communicator is null");
  return hostccl::done(comm, comm->impl.close(pycomms::Deadline::after(hostccl::kCloseTimeout)));
}

PYCOMMS_EXPORT Result ncclCommDestroy(CommHandle comm) {
  if (comm == nullptr) return kSuccess;
  const Result left = comm->impl.close(pycomms::Deadline::after(hostccl::kCloseTimeout));
  // Somebody is still inside after the deadline: leaking the object is better than pulling it away.
  if (left == kTimeout)
    return hostccl::refuse("operations were still running when the communicator was destroyed", left);
  delete comm;
  return kSuccess;
}

PYCOMMS_EXPORT Result ncclCommAbort(CommHandle comm) {
  if (comm == nullptr) return kSuccess;
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
  init_timeout_ns = std::clamp<int64_t>(nanoseconds, 1, pycomms::kForever);
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
