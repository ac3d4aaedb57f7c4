// The exported functions: checks arguments, turns them into operations, keeps the last error of the thread.
// Any thread. Nothing is issued and nobody is harmed when an argument is wrong.

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/shared_memory.h"
#include "hostccl/bootstrap.h"
#include "hostccl/communicator.h"
#include "hostccl/hostccl.h"
#include "hostccl/issue.h"
#include "hostccl/scalar.h"
#include "hostccl/stream.h"

#define PYCOMMS_EXPORT extern "C" __attribute__((visibility("default")))

namespace nccl_abi {

struct Comm {
  hostccl::Communicator impl;
  Comm(int rank, int nranks) : impl(rank, nranks) {}
};

}  // namespace nccl_abi

namespace hostccl {
namespace {

using nccl_abi::Comm;
using nccl_abi::Config;
using nccl_abi::UniqueId;

constexpr int64_t kDefaultInitTimeout = 1800 * pycomms::kSecond;
constexpr int64_t kCloseTimeout = 30 * pycomms::kSecond;

thread_local Failure last_failure;
thread_local int64_t init_timeout_ns = kDefaultInitTimeout;

Result refuse(const std::string& text, Result result = nccl_abi::kInvalidArgument) {
  last_failure = make_failure(FailureKind::kUsage, -1, text);
  return result;
}

// Keeps the communicator's failure as the last one of this thread.
Result done(Comm* comm, Result result) {
  if (result != nccl_abi::kSuccess && result != nccl_abi::kInProgress) last_failure = comm->impl.failure();
  return result;
}

Result check_ready(Comm* comm) {
  if (comm == nullptr) return refuse("the communicator is null");
  if (comm->impl.is_foreign()) {
    return refuse("this process was forked from the one that made the communicator, and cannot use it; make a new one",
                  nccl_abi::kInvalidUsage);
  }
  const Result state = comm->impl.async_error();
  if (state == nccl_abi::kInProgress) return refuse("the communicator is still being made", nccl_abi::kInvalidUsage);
  return done(comm, state);
}

Result check_rank(const Comm* comm, const char* name, int rank) {
  if (rank >= 0 && rank < comm->impl.nranks()) return nccl_abi::kSuccess;
  return refuse(std::string(name) + " is " + std::to_string(rank) + ", but the communicator has ranks 0 to " +
                std::to_string(comm->impl.nranks() - 1));
}

Result check_type(DataType type) {
  if (element_size(type) != 0) return nccl_abi::kSuccess;
  return refuse("datatype " + std::to_string(type) + " is unknown");
}

Result check_pointer(const char* name, const void* pointer, size_t count) {
  if (pointer != nullptr || count == 0) return nccl_abi::kSuccess;
  return refuse(std::string(name) + " is null, but " + std::to_string(count) + " elements are expected there");
}

Result resolve_reduction(const Comm* comm, RedOp op, Collective& collective) {
  switch (static_cast<int>(op)) {
    case nccl_abi::kSum: collective.reduction = Reduction::kSum; break;
    case nccl_abi::kProd: collective.reduction = Reduction::kProd; break;
    case nccl_abi::kMax: collective.reduction = Reduction::kMax; break;
    case nccl_abi::kMin: collective.reduction = Reduction::kMin; break;
    case nccl_abi::kAvg: collective.reduction = Reduction::kAvg; break;
    case nccl_abi::kBitAnd: collective.reduction = Reduction::kBitAnd; break;
    case nccl_abi::kBitOr: collective.reduction = Reduction::kBitOr; break;
    case nccl_abi::kBitXor: collective.reduction = Reduction::kBitXor; break;
    default:
      if (!comm->impl.find_premul(op, collective.type, collective.factor)) {
        return refuse("reduction " + std::to_string(op) + " is unknown, or was made for another datatype");
      }
      collective.reduction = Reduction::kPreMulSum;
  }
  if (supports(collective.type, collective.reduction)) return nccl_abi::kSuccess;
  return refuse(std::string(reduction_name(collective.reduction)) + " has no meaning for " + type_name(collective.type));
}

Parts one(const void* block, size_t count) { return {.block = const_cast<void*>(block), .count = count}; }

Parts listed(const void* const* list, const size_t* counts, size_t count) {
  return {.list = const_cast<void* const*>(list), .counts = counts, .count = count};
}

Parts listed(void* const* list, const size_t* counts, size_t count) {
  return {.list = list, .counts = counts, .count = count};
}

Result go(Comm* comm, const Collective& op, StreamHandle stream) {
  return done(comm, issue(comm->impl, op, static_cast<Stream*>(stream)));
}

#define RETURN_IF_REFUSED(expression)                                         \
  do {                                                                        \
    if (const Result r_ = (expression); r_ != nccl_abi::kSuccess) return r_;  \
  } while (false)

Result check_call(Comm* comm, DataType type) {
  RETURN_IF_REFUSED(check_ready(comm));
  return check_type(type);
}

// Memory that others could map: one region an allocation.
struct Allocations {
  std::mutex mutex;
  std::map<void*, std::shared_ptr<pycomms::SharedMapping>> regions;  // GUARDED_BY(mutex)
};
Allocations& allocations() {
  static auto* one = new Allocations();
  return *one;
}

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
    last_failure = make_failure(FailureKind::kTimeout, comm->impl.rank(), "");
    std::string text = "split: these ranks of the parent did not take part in time:";
    for (const int rank : call.missing) {
      add_rank(last_failure, rank);
      text += " " + std::to_string(rank);
    }
    set_text(last_failure, text + "; the parent is unharmed");
    return call.result;
  }
  if (call.result != nccl_abi::kSuccess) return done(comm, call.result);
  all.resize(call.reports.size());
  for (size_t i = 0; i < all.size(); ++i) std::memcpy(&all[i], call.reports[i].data(), sizeof(SplitReport));
  return nccl_abi::kSuccess;
}

}  // namespace
}  // namespace hostccl

using hostccl::Collective;
using hostccl::DataType;
using hostccl::Kind;
using hostccl::RedOp;
using hostccl::Result;
using hostccl::StreamHandle;
using nccl_abi::Comm;
using nccl_abi::Config;
using nccl_abi::UniqueId;

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
  std::stable_sort(members.begin(), members.end(), [&](int a, int b) {
    return all[static_cast<size_t>(a)].key < all[static_cast<size_t>(b)].key;
  });
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
    return refuse("split: rank " + std::to_string(members.front()) + " of the parent could not open a socket", kSystemError);
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
  if (left == kTimeout) return hostccl::refuse("operations were still running when the communicator was destroyed", left);
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
    case kSuccess: return "no error";
    case kUnhandledCudaError: return "unhandled cuda error";
    case kSystemError: return "the operating system refused something";
    case kInternalError: return "internal error";
    case kInvalidArgument: return "invalid argument";
    case kInvalidUsage: return "invalid usage";
    case kRemoteError: return "a member failed or left";
    case kInProgress: return "in progress";
    case kTimeout: return "a deadline passed";
  }
  return "unknown result code";
}

PYCOMMS_EXPORT const char* ncclGetLastError(CommHandle comm) {
  thread_local std::string text;
  text = hostccl::last_failure.text;
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
  auto descriptor = pycomms::create_shared_memory("pycomms-mem", std::max<size_t>(size, 1));
  if (!descriptor.is_ok()) return hostccl::refuse(descriptor.status().message(), kSystemError);
  auto mapping = pycomms::SharedMapping::map(descriptor.value());
  if (!mapping.is_ok()) return hostccl::refuse(mapping.status().message(), kSystemError);
  *ptr = mapping.value()->data();
  auto& table = hostccl::allocations();
  std::lock_guard lock(table.mutex);
  table.regions[*ptr] = mapping.take();
  return kSuccess;
}

PYCOMMS_EXPORT Result ncclMemFree(void* ptr) {
  if (ptr == nullptr) return kSuccess;
  auto& table = hostccl::allocations();
  std::lock_guard lock(table.mutex);
  if (table.regions.erase(ptr) == 0) return hostccl::refuse("ptr was not made by ncclMemAlloc");
  return kSuccess;
}

// --- reductions

PYCOMMS_EXPORT Result ncclRedOpCreatePreMulSum(RedOp* op, void* scalar, DataType type, ScalarResidence, CommHandle comm) {
  using namespace hostccl;
  if (op == nullptr || scalar == nullptr) return refuse("op or scalar is null");
  RETURN_IF_REFUSED(check_call(comm, type));
  if (!supports(type, Reduction::kPreMulSum)) return refuse(std::string("premul_sum has no meaning for ") + type_name(type));
  *op = static_cast<RedOp>(comm->impl.add_premul(type, read_scalar(scalar, type)));
  return kSuccess;
}

PYCOMMS_EXPORT Result ncclRedOpDestroy(RedOp op, CommHandle comm) {
  if (comm == nullptr) return hostccl::refuse("the communicator is null");
  return comm->impl.remove_premul(op) ? kSuccess : hostccl::refuse("op was not made by ncclRedOpCreatePreMulSum");
}

// --- collectives

PYCOMMS_EXPORT Result ncclAllReduce(const void* send, void* recv, size_t count, DataType type, RedOp op, CommHandle comm,
                                    StreamHandle stream) {
  using namespace hostccl;
  RETURN_IF_REFUSED(check_call(comm, type));
  RETURN_IF_REFUSED(check_pointer("sendbuff", send, count));
  RETURN_IF_REFUSED(check_pointer("recvbuff", recv, count));
  Collective c{.kind = Kind::kAllReduce, .type = type, .send = one(send, count), .recv = one(recv, count)};
  RETURN_IF_REFUSED(resolve_reduction(comm, op, c));
  return go(comm, c, stream);
}

PYCOMMS_EXPORT Result ncclReduce(const void* send, void* recv, size_t count, DataType type, RedOp op, int root,
                                 CommHandle comm, StreamHandle stream) {
  using namespace hostccl;
  RETURN_IF_REFUSED(check_call(comm, type));
  RETURN_IF_REFUSED(check_rank(comm, "root", root));
  RETURN_IF_REFUSED(check_pointer("sendbuff", send, count));
  if (comm->impl.rank() == root) RETURN_IF_REFUSED(check_pointer("recvbuff", recv, count));
  Collective c{.kind = Kind::kReduce, .type = type, .root = root, .send = one(send, count), .recv = one(recv, count)};
  RETURN_IF_REFUSED(resolve_reduction(comm, op, c));
  return go(comm, c, stream);
}

PYCOMMS_EXPORT Result ncclBroadcast(const void* send, void* recv, size_t count, DataType type, int root, CommHandle comm,
                                    StreamHandle stream) {
  using namespace hostccl;
  RETURN_IF_REFUSED(check_call(comm, type));
  RETURN_IF_REFUSED(check_rank(comm, "root", root));
  if (comm->impl.rank() == root) RETURN_IF_REFUSED(check_pointer("sendbuff", send, count));
  RETURN_IF_REFUSED(check_pointer("recvbuff", recv, count));
  return go(comm, {.kind = Kind::kBroadcast, .type = type, .root = root, .send = one(send, count), .recv = one(recv, count)},
            stream);
}

PYCOMMS_EXPORT Result ncclReduceScatter(const void* send, void* recv, size_t count, DataType type, RedOp op,
                                        CommHandle comm, StreamHandle stream) {
  using namespace hostccl;
  RETURN_IF_REFUSED(check_call(comm, type));
  RETURN_IF_REFUSED(check_pointer("sendbuff", send, count));
  RETURN_IF_REFUSED(check_pointer("recvbuff", recv, count));
  Collective c{.kind = Kind::kReduceScatter, .type = type, .send = one(send, count), .recv = one(recv, count)};
  RETURN_IF_REFUSED(resolve_reduction(comm, op, c));
  return go(comm, c, stream);
}

PYCOMMS_EXPORT Result ncclAllGather(const void* send, void* recv, size_t count, DataType type, CommHandle comm,
                                    StreamHandle stream) {
  using namespace hostccl;
  RETURN_IF_REFUSED(check_call(comm, type));
  RETURN_IF_REFUSED(check_pointer("sendbuff", send, count));
  RETURN_IF_REFUSED(check_pointer("recvbuff", recv, count));
  return go(comm, {.kind = Kind::kAllGather, .type = type, .send = one(send, count), .recv = one(recv, count)}, stream);
}

PYCOMMS_EXPORT Result ncclAlltoAll(const void* send, void* recv, size_t count, DataType type, CommHandle comm,
                                   StreamHandle stream) {
  using namespace hostccl;
  RETURN_IF_REFUSED(check_call(comm, type));
  RETURN_IF_REFUSED(check_pointer("sendbuff", send, count));
  RETURN_IF_REFUSED(check_pointer("recvbuff", recv, count));
  return go(comm, {.kind = Kind::kAllToAll, .type = type, .send = one(send, count), .recv = one(recv, count)}, stream);
}

PYCOMMS_EXPORT Result ncclGather(const void* send, void* recv, size_t count, DataType type, int root, CommHandle comm,
                                 StreamHandle stream) {
  using namespace hostccl;
  RETURN_IF_REFUSED(check_call(comm, type));
  RETURN_IF_REFUSED(check_rank(comm, "root", root));
  RETURN_IF_REFUSED(check_pointer("sendbuff", send, count));
  if (comm->impl.rank() == root) RETURN_IF_REFUSED(check_pointer("recvbuff", recv, count));
  return go(comm, {.kind = Kind::kGather, .type = type, .root = root, .send = one(send, count), .recv = one(recv, count)},
            stream);
}

PYCOMMS_EXPORT Result ncclScatter(const void* send, void* recv, size_t count, DataType type, int root, CommHandle comm,
                                  StreamHandle stream) {
  using namespace hostccl;
  RETURN_IF_REFUSED(check_call(comm, type));
  RETURN_IF_REFUSED(check_rank(comm, "root", root));
  if (comm->impl.rank() == root) RETURN_IF_REFUSED(check_pointer("sendbuff", send, count));
  RETURN_IF_REFUSED(check_pointer("recvbuff", recv, count));
  return go(comm, {.kind = Kind::kScatter, .type = type, .root = root, .send = one(send, count), .recv = one(recv, count)},
            stream);
}

PYCOMMS_EXPORT Result ncclSend(const void* send, size_t count, DataType type, int peer, CommHandle comm,
                               StreamHandle stream) {
  using namespace hostccl;
  RETURN_IF_REFUSED(check_call(comm, type));
  RETURN_IF_REFUSED(check_rank(comm, "peer", peer));
  RETURN_IF_REFUSED(check_pointer("sendbuff", send, count));
  const P2pRequest request{.is_send = true, .data = static_cast<std::byte*>(const_cast<void*>(send)),
                           .bytes = count * element_size(type), .type = type, .peer = peer,
                           .timeout_ns = comm->impl.timeout_ns()};
  return done(comm, issue(comm->impl, request, static_cast<Stream*>(stream)));
}

PYCOMMS_EXPORT Result ncclRecv(void* recv, size_t count, DataType type, int peer, CommHandle comm, StreamHandle stream) {
  using namespace hostccl;
  RETURN_IF_REFUSED(check_call(comm, type));
  RETURN_IF_REFUSED(check_rank(comm, "peer", peer));
  RETURN_IF_REFUSED(check_pointer("recvbuff", recv, count));
  const P2pRequest request{.data = static_cast<std::byte*>(recv), .bytes = count * element_size(type), .type = type,
                           .peer = peer, .timeout_ns = comm->impl.timeout_ns()};
  return done(comm, issue(comm->impl, request, static_cast<Stream*>(stream)));
}

PYCOMMS_EXPORT Result ncclGroupStart() { return hostccl::group_start(); }

PYCOMMS_EXPORT Result ncclGroupEnd() { return hostccl::group_end(); }

}  // namespace nccl_abi

namespace hostccl {

// --- streams

PYCOMMS_EXPORT Result hostcclStreamCreate(StreamHandle* stream, const char* name) {
  if (stream == nullptr) return refuse("stream is null");
  *stream = new Stream(name != nullptr ? name : "pycomms-stream");
  return nccl_abi::kSuccess;
}

PYCOMMS_EXPORT Result hostcclStreamDestroy(StreamHandle stream) {
  delete static_cast<Stream*>(stream);
  return nccl_abi::kSuccess;
}

PYCOMMS_EXPORT Result hostcclStreamNotify(StreamHandle stream, CompletionFn fn, void* arg) {
  if (stream == nullptr || fn == nullptr) return refuse("stream or fn is null");
  static_cast<Stream*>(stream)->notify(fn, arg);
  return nccl_abi::kSuccess;
}

PYCOMMS_EXPORT int hostcclStreamHelp(StreamHandle stream) {
  return stream != nullptr && static_cast<Stream*>(stream)->help() ? 1 : 0;
}

// --- failures and time

PYCOMMS_EXPORT Result hostcclCommGetFailure(CommHandle comm, Failure* failure) {
  if (comm == nullptr || failure == nullptr) return refuse("comm or failure is null");
  *failure = comm->impl.failure();
  return nccl_abi::kSuccess;
}

PYCOMMS_EXPORT Result hostcclLastFailure(Failure* failure) {
  if (failure == nullptr) return refuse("failure is null");
  *failure = last_failure;
  return nccl_abi::kSuccess;
}

PYCOMMS_EXPORT int hostcclCommProgress(CommHandle comm) {
  if (comm == nullptr || comm->impl.async_error() == nccl_abi::kInProgress) return 0;
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

PYCOMMS_EXPORT void hostcclSetInterruptHook(int (*hook)()) { set_interrupt_hook(hook); }

// --- collectives beyond NCCL's

PYCOMMS_EXPORT Result hostcclAllGatherv(const void* send, void* const* recv, const size_t* counts, DataType type,
                                        CommHandle comm, StreamHandle stream) {
  RETURN_IF_REFUSED(check_call(comm, type));
  if (recv == nullptr || counts == nullptr) return refuse("recv or counts is null");
  const size_t mine = counts[comm->impl.rank()];
  RETURN_IF_REFUSED(check_pointer("send", send, mine));
  return go(comm, {.kind = Kind::kAllGather, .type = type, .send = one(send, mine), .recv = listed(recv, counts, 0)}, stream);
}

PYCOMMS_EXPORT Result hostcclReduceScatterv(const void* const* send, void* recv, const size_t* counts, DataType type,
                                            RedOp op, CommHandle comm, StreamHandle stream) {
  RETURN_IF_REFUSED(check_call(comm, type));
  if (send == nullptr || counts == nullptr) return refuse("send or counts is null");
  const size_t mine = counts[comm->impl.rank()];
  RETURN_IF_REFUSED(check_pointer("recv", recv, mine));
  Collective c{.kind = Kind::kReduceScatter, .type = type, .send = listed(send, counts, 0), .recv = one(recv, mine)};
  RETURN_IF_REFUSED(resolve_reduction(comm, op, c));
  return go(comm, c, stream);
}

PYCOMMS_EXPORT Result hostcclAllToAllv(const void* const* send, const size_t* send_counts, void* const* recv,
                                       const size_t* recv_counts, DataType type, CommHandle comm, StreamHandle stream) {
  RETURN_IF_REFUSED(check_call(comm, type));
  if (send == nullptr || send_counts == nullptr || recv == nullptr || recv_counts == nullptr) {
    return refuse("send, send_counts, recv or recv_counts is null");
  }
  return go(comm,
            {.kind = Kind::kAllToAll, .type = type, .send = listed(send, send_counts, 0), .recv = listed(recv, recv_counts, 0)},
            stream);
}

PYCOMMS_EXPORT Result hostcclGatherList(const void* send, void* const* recv, size_t count, DataType type, int root,
                                        CommHandle comm, StreamHandle stream) {
  RETURN_IF_REFUSED(check_call(comm, type));
  RETURN_IF_REFUSED(check_rank(comm, "root", root));
  RETURN_IF_REFUSED(check_pointer("send", send, count));
  if (comm->impl.rank() == root && recv == nullptr) return refuse("recv is null on the root");
  return go(comm, {.kind = Kind::kGather, .type = type, .root = root, .send = one(send, count), .recv = listed(recv, nullptr, count)},
            stream);
}

PYCOMMS_EXPORT Result hostcclScatterList(const void* const* send, void* recv, size_t count, DataType type, int root,
                                         CommHandle comm, StreamHandle stream) {
  RETURN_IF_REFUSED(check_call(comm, type));
  RETURN_IF_REFUSED(check_rank(comm, "root", root));
  RETURN_IF_REFUSED(check_pointer("recv", recv, count));
  if (comm->impl.rank() == root && send == nullptr) return refuse("send is null on the root");
  return go(comm, {.kind = Kind::kScatter, .type = type, .root = root, .send = listed(send, nullptr, count), .recv = one(recv, count)},
            stream);
}

PYCOMMS_EXPORT Result hostcclBarrier(CommHandle comm, StreamHandle stream) {
  RETURN_IF_REFUSED(check_ready(comm));
  return go(comm, Collective{}, stream);  // a barrier is what a collective is by default
}

PYCOMMS_EXPORT Result hostcclMonitoredBarrier(CommHandle comm, int64_t timeout_ns, int* missing, int* nmissing) {
  RETURN_IF_REFUSED(check_ready(comm));
  if (missing == nullptr || nmissing == nullptr) return refuse("missing or nmissing is null");
  pycomms::GateHolder inside(comm->impl.gate());
  if (!inside) return refuse("the communicator is closed", nccl_abi::kInvalidUsage);
  const RollCallResult call = comm->impl.roll_call(RollCallKind::kMonitoredBarrier, Report{}, timeout_ns);
  std::copy(call.missing.begin(), call.missing.end(), missing);
  *nmissing = static_cast<int>(call.missing.size());
  return call.missing.empty() ? done(comm, call.result) : call.result;
}

// --- point to point with tags

namespace {

Result post_tagged(Comm* comm, P2pRequest request) {
  constexpr int kReservedTags = 16;
  if (request.tag < INT_MIN + kReservedTags) return refuse("tag " + std::to_string(request.tag) + " is reserved");
  pycomms::GateHolder inside(comm->impl.gate());
  if (!inside) return refuse("the communicator is closed", nccl_abi::kInvalidUsage);
  request.timeout_ns = comm->impl.timeout_ns();
  return done(comm, comm->impl.post(request));
}

}  // namespace

PYCOMMS_EXPORT Result hostcclSend(const void* send, size_t count, DataType type, int peer, int tag, CommHandle comm,
                                  CompletionFn fn, void* arg) {
  RETURN_IF_REFUSED(check_call(comm, type));
  RETURN_IF_REFUSED(check_rank(comm, "peer", peer));
  RETURN_IF_REFUSED(check_pointer("send", send, count));
  return post_tagged(comm, {.is_send = true, .data = static_cast<std::byte*>(const_cast<void*>(send)),
                            .bytes = count * element_size(type), .type = type, .peer = peer, .tag = tag, .done = fn, .arg = arg});
}

PYCOMMS_EXPORT Result hostcclRecv(void* recv, size_t count, DataType type, int peer, int tag, CommHandle comm,
                                  CompletionFn fn, void* arg, RecvStatus* status) {
  RETURN_IF_REFUSED(check_call(comm, type));
  if (peer != kAnySource) RETURN_IF_REFUSED(check_rank(comm, "peer", peer));
  RETURN_IF_REFUSED(check_pointer("recv", recv, count));
  return post_tagged(comm, {.data = static_cast<std::byte*>(recv), .bytes = count * element_size(type), .type = type,
                            .peer = peer, .tag = tag, .done = fn, .arg = arg, .status = status});
}

}  // namespace hostccl
