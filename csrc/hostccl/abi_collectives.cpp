// NCCL's collectives and reductions, and hostccl's own collectives: arguments in, operation out.

#include <algorithm>
#include <string>

#include "hostccl/abi.h"
#include "hostccl/external_streams.h"
#include "hostccl/scalar.h"
#include "hostccl/shared_buffers.h"

namespace hostccl {
namespace {

Result resolve_reduction(const Comm* comm, RedOp op, Collective& collective) {
  switch (static_cast<int>(op)) {
    case nccl_abi::kSum:
      collective.reduction = Reduction::kSum;
      break;
    case nccl_abi::kProd:
      collective.reduction = Reduction::kProd;
      break;
    case nccl_abi::kMax:
      collective.reduction = Reduction::kMax;
      break;
    case nccl_abi::kMin:
      collective.reduction = Reduction::kMin;
      break;
    case nccl_abi::kAvg:
      collective.reduction = Reduction::kAvg;
      break;
    case nccl_abi::kBitAnd:
      collective.reduction = Reduction::kBitAnd;
      break;
    case nccl_abi::kBitOr:
      collective.reduction = Reduction::kBitOr;
      break;
    case nccl_abi::kBitXor:
      collective.reduction = Reduction::kBitXor;
      break;
    default:
      if (!comm->impl.find_premul(op, collective)) {
        return refuse("reduction " + std::to_string(op) + " is unknown, or was made for another datatype");
      }
      collective.reduction = Reduction::kPreMulSum;
  }
  if (supports(collective.type, collective.reduction)) return nccl_abi::kSuccess;
  return refuse(std::string(reduction_name(collective.reduction)) + " has no meaning for " +
                type_name(collective.type));
}

Parts one(const void* block, size_t count) { return {.block = const_cast<void*>(block), .count = count}; }

Parts listed(const void* const* list, const size_t* counts, size_t count) {
  return {.list = const_cast<void* const*>(list), .counts = counts, .count = count};
}

Parts listed(void* const* list, const size_t* counts, size_t count) {
  return {.list = list, .counts = counts, .count = count};
}

Result go(Comm* comm, const Collective& op, StreamHandle stream) {
  const pycomms::GateHolder inside(comm->impl.gate());  // until the failure has been read
  if (!inside) return refuse("the communicator is closed", nccl_abi::kInvalidUsage);
  if (stream == nullptr && comm->impl.is_running_here() && external_streams() == nullptr) {
    return refuse("this thread is in the middle of another collective of this communicator (in a signal handler?)",
                  nccl_abi::kInvalidUsage);
  }
  return done(comm, issue(comm->impl, op, stream));
}

// Below this size staging is as fast, and looking the buffer up is not free.
constexpr size_t kWorthSharing = 128 * 1024;

SharedLocation find_if_large(const void* buffer, size_t bytes) {
  return bytes >= kWorthSharing ? find_shared(buffer, bytes) : SharedLocation{};
}

}  // namespace
}  // namespace hostccl

using hostccl::Collective;
using hostccl::Kind;

namespace nccl_abi {

// --- reductions

PYCOMMS_EXPORT Result ncclRedOpCreatePreMulSum(RedOp* op, void* scalar, DataType type, ScalarResidence residence,
                                               CommHandle comm) {
  using namespace hostccl;
  if (op == nullptr || scalar == nullptr) return refuse("op or scalar is null");
  RETURN_IF_REFUSED(check_call(comm, type));
  if (!supports(type, Reduction::kPreMulSum))
    return refuse(std::string("premul_sum has no meaning for ") + type_name(type));
  const bool on_device = residence == kScalarDevice && external_streams() != nullptr;
  if (!on_device && !is_exact_scalar(scalar, type)) {
    return refuse("premul_sum: the factor travels as a double, so it must be real and an integer at most 2^53");
  }
  const PreMul made{type, on_device ? 1 : read_scalar(scalar, type), on_device ? scalar : nullptr};
  *op = static_cast<RedOp>(comm->impl.add_premul(made));
  return kSuccess;
}

PYCOMMS_EXPORT Result ncclRedOpDestroy(RedOp op, CommHandle comm) {
  if (comm == nullptr) return hostccl::refuse("the communicator is null");
  return comm->impl.remove_premul(op) ? kSuccess : hostccl::refuse("op was not made by ncclRedOpCreatePreMulSum");
}

// --- collectives

PYCOMMS_EXPORT Result ncclAllReduce(const void* send, void* recv, size_t count, DataType type, RedOp op,
                                    CommHandle comm, StreamHandle stream) {
  using namespace hostccl;
  RETURN_IF_REFUSED(check_call(comm, type));
  RETURN_IF_REFUSED(check_pointer("sendbuff", send, count));
  RETURN_IF_REFUSED(check_pointer("recvbuff", recv, count));
  Collective c{.kind = Kind::kAllReduce, .type = type, .send = one(send, count), .recv = one(recv, count)};
  RETURN_IF_REFUSED(resolve_reduction(comm, op, c));
  if (send == recv) c.shared = find_if_large(recv, count * element_size(type));
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

PYCOMMS_EXPORT Result ncclBroadcast(const void* send, void* recv, size_t count, DataType type, int root,
                                    CommHandle comm, StreamHandle stream) {
  using namespace hostccl;
  RETURN_IF_REFUSED(check_call(comm, type));
  RETURN_IF_REFUSED(check_rank(comm, "root", root));
  if (comm->impl.rank() == root) RETURN_IF_REFUSED(check_pointer("sendbuff", send, count));
  RETURN_IF_REFUSED(check_pointer("recvbuff", recv, count));
  return go(comm,
            {.kind = Kind::kBroadcast, .type = type, .root = root, .send = one(send, count), .recv = one(recv, count)},
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
  return go(comm,
            {.kind = Kind::kGather, .type = type, .root = root, .send = one(send, count), .recv = one(recv, count)},
            stream);
}

PYCOMMS_EXPORT Result ncclScatter(const void* send, void* recv, size_t count, DataType type, int root, CommHandle comm,
                                  StreamHandle stream) {
  using namespace hostccl;
  RETURN_IF_REFUSED(check_call(comm, type));
  RETURN_IF_REFUSED(check_rank(comm, "root", root));
  if (comm->impl.rank() == root) RETURN_IF_REFUSED(check_pointer("sendbuff", send, count));
  RETURN_IF_REFUSED(check_pointer("recvbuff", recv, count));
  return go(comm,
            {.kind = Kind::kScatter, .type = type, .root = root, .send = one(send, count), .recv = one(recv, count)},
            stream);
}

}  // namespace nccl_abi

namespace hostccl {

// --- collectives beyond NCCL's

PYCOMMS_EXPORT Result hostcclAllGatherv(const void* send, void* const* recv, const size_t* counts, DataType type,
                                        CommHandle comm, StreamHandle stream) {
  RETURN_IF_REFUSED(check_call(comm, type));
  if (recv == nullptr || counts == nullptr) return refuse("recv or counts is null");
  const size_t mine = counts[comm->impl.rank()];
  RETURN_IF_REFUSED(check_pointer("send", send, mine));
  return go(comm, {.kind = Kind::kAllGather, .type = type, .send = one(send, mine), .recv = listed(recv, counts, 0)},
            stream);
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
            {.kind = Kind::kAllToAll,
             .type = type,
             .send = listed(send, send_counts, 0),
             .recv = listed(recv, recv_counts, 0)},
            stream);
}

PYCOMMS_EXPORT Result hostcclGatherList(const void* send, void* const* recv, size_t count, DataType type, int root,
                                        CommHandle comm, StreamHandle stream) {
  RETURN_IF_REFUSED(check_call(comm, type));
  RETURN_IF_REFUSED(check_rank(comm, "root", root));
  RETURN_IF_REFUSED(check_pointer("send", send, count));
  if (comm->impl.rank() == root && recv == nullptr) return refuse("recv is null on the root");
  return go(comm,
            {.kind = Kind::kGather,
             .type = type,
             .root = root,
             .send = one(send, count),
             .recv = listed(recv, nullptr, count)},
            stream);
}

PYCOMMS_EXPORT Result hostcclScatterList(const void* const* send, void* recv, size_t count, DataType type, int root,
                                         CommHandle comm, StreamHandle stream) {
  RETURN_IF_REFUSED(check_call(comm, type));
  RETURN_IF_REFUSED(check_rank(comm, "root", root));
  RETURN_IF_REFUSED(check_pointer("recv", recv, count));
  if (comm->impl.rank() == root && send == nullptr) return refuse("send is null on the root");
  return go(comm,
            {.kind = Kind::kScatter,
             .type = type,
             .root = root,
             .send = listed(send, nullptr, count),
             .recv = one(recv, count)},
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

PYCOMMS_EXPORT Result hostcclAllReduceShared(void* data, size_t count, DataType type, RedOp op, int fd, uint64_t offset,
                                             CommHandle comm, StreamHandle stream) {
  RETURN_IF_REFUSED(check_call(comm, type));
  RETURN_IF_REFUSED(check_pointer("data", data, count));
  Collective c{.kind = Kind::kAllReduce, .type = type, .send = one(data, count), .recv = one(data, count)};
  RETURN_IF_REFUSED(resolve_reduction(comm, op, c));
  if (!locate(fd, offset, count * element_size(type), c.shared)) {
    return refuse("fd " + std::to_string(fd) + " is no file with " + std::to_string(count) + " elements at offset " +
                  std::to_string(offset));
  }
  return go(comm, c, stream);
}

}  // namespace hostccl
