// Exported: collectives, point to point, and premultiplied sums.

#include "call_counts.h"
#include "group.h"
#include "refusal.h"

using namespace nccl_emulator;

NCCL_EXPORT Result ncclAllReduce(const void* send, void* recv, size_t count, DataType type, RedOp op, Comm comm,
                                 StreamHandle stream) {
  NCCL_COUNT_CALL();
  return issue(__func__, comm, stream, bytes_of(count, type),
               [=](InnerComm inner) { return inner_ncclAllReduce(send, recv, count, type, op, inner, stream); });
}

NCCL_EXPORT Result ncclReduce(const void* send, void* recv, size_t count, DataType type, RedOp op, int root, Comm comm,
                              StreamHandle stream) {
  NCCL_COUNT_CALL();
  return issue(__func__, comm, stream, bytes_of(count, type),
               [=](InnerComm inner) { return inner_ncclReduce(send, recv, count, type, op, root, inner, stream); });
}

NCCL_EXPORT Result ncclBroadcast(const void* send, void* recv, size_t count, DataType type, int root, Comm comm,
                                 StreamHandle stream) {
  NCCL_COUNT_CALL();
  return issue(__func__, comm, stream, bytes_of(count, type),
               [=](InnerComm inner) { return inner_ncclBroadcast(send, recv, count, type, root, inner, stream); });
}

NCCL_EXPORT Result ncclBcast(void* buffer, size_t count, DataType type, int root, Comm comm, StreamHandle stream) {
  NCCL_COUNT_CALL();
  return issue(__func__, comm, stream, bytes_of(count, type),
               [=](InnerComm inner) { return inner_ncclBroadcast(buffer, buffer, count, type, root, inner, stream); });
}

NCCL_EXPORT Result ncclReduceScatter(const void* send, void* recv, size_t count, DataType type, RedOp op, Comm comm,
                                     StreamHandle stream) {
  NCCL_COUNT_CALL();
  return issue(__func__, comm, stream, bytes_of(count, type),
               [=](InnerComm inner) { return inner_ncclReduceScatter(send, recv, count, type, op, inner, stream); });
}

NCCL_EXPORT Result ncclAllGather(const void* send, void* recv, size_t count, DataType type, Comm comm,
                                 StreamHandle stream) {
  NCCL_COUNT_CALL();
  return issue(__func__, comm, stream, bytes_of(count, type),
               [=](InnerComm inner) { return inner_ncclAllGather(send, recv, count, type, inner, stream); });
}

NCCL_EXPORT Result ncclAlltoAll(const void* send, void* recv, size_t count, DataType type, Comm comm,
                                StreamHandle stream) {
  NCCL_COUNT_CALL();
  return issue(__func__, comm, stream, bytes_of(count, type),
               [=](InnerComm inner) { return inner_ncclAlltoAll(send, recv, count, type, inner, stream); });
}

NCCL_EXPORT Result ncclGather(const void* send, void* recv, size_t count, DataType type, int root, Comm comm,
                              StreamHandle stream) {
  NCCL_COUNT_CALL();
  return issue(__func__, comm, stream, bytes_of(count, type),
               [=](InnerComm inner) { return inner_ncclGather(send, recv, count, type, root, inner, stream); });
}

NCCL_EXPORT Result ncclScatter(const void* send, void* recv, size_t count, DataType type, int root, Comm comm,
                               StreamHandle stream) {
  NCCL_COUNT_CALL();
  return issue(__func__, comm, stream, bytes_of(count, type),
               [=](InnerComm inner) { return inner_ncclScatter(send, recv, count, type, root, inner, stream); });
}

NCCL_EXPORT Result ncclSend(const void* send, size_t count, DataType type, int peer, Comm comm, StreamHandle stream) {
  NCCL_COUNT_CALL();
  return issue(__func__, comm, stream, bytes_of(count, type),
               [=](InnerComm inner) { return inner_ncclSend(send, count, type, peer, inner, stream); });
}

NCCL_EXPORT Result ncclRecv(void* recv, size_t count, DataType type, int peer, Comm comm, StreamHandle stream) {
  NCCL_COUNT_CALL();
  return issue(__func__, comm, stream, bytes_of(count, type),
               [=](InnerComm inner) { return inner_ncclRecv(recv, count, type, peer, inner, stream); });
}

NCCL_EXPORT Result ncclRedOpCreatePreMulSum(RedOp* op, void* scalar, DataType type, ScalarResidence residence,
                                            Comm comm) {
  NCCL_COUNT_CALL();
  NCCL_FIND(handle, comm);
  RETURN_IF_REFUSED(handle->check_ready(__func__));
  const pycomms::GateHolder inside(handle->gate());
  if (!inside) return refuse(nccl_abi::kInvalidUsage, "the communicator is closed");
  return told(inner_ncclRedOpCreatePreMulSum(op, scalar, type, residence, handle->inner()));
}

// An operation that a group or a stall keeps back has still to look the reduction up: then the communicator gives it back.
NCCL_EXPORT Result ncclRedOpDestroy(RedOp op, Comm comm) {
  NCCL_COUNT_CALL();
  NCCL_FIND(handle, comm);
  if (handle->is_stalled()) return nccl_abi::kSuccess;
  return at_the_end([handle = handle, op] {
    const pycomms::GateHolder inside(handle->gate());
    if (!inside || handle->inner() == nullptr || handle->is_stalled()) return nccl_abi::kSuccess;
    return told(inner_ncclRedOpDestroy(op, handle->inner()));
  });
}
