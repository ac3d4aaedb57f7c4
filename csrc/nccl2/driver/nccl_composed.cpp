#include "nccl2/driver/nccl_composed.h"

namespace pycomms {
namespace {

const NcclApi* nccl = nullptr;

size_t element_bytes(DataType type) {
  switch (type) {
    case nccl_abi::kInt8:
    case nccl_abi::kUint8:
    case nccl_abi::kFloat8e4m3:
    case nccl_abi::kFloat8e5m2:
    case nccl_abi::kBool:
      return 1;
    case nccl_abi::kFloat16:
    case nccl_abi::kBfloat16:
    case nccl_abi::kInt16:
    case nccl_abi::kUint16:
      return 2;
    case nccl_abi::kInt32:
    case nccl_abi::kUint32:
    case nccl_abi::kFloat32:
      return 4;
    case nccl_abi::kInt64:
    case nccl_abi::kUint64:
    case nccl_abi::kFloat64:
    case nccl_abi::kComplex64:
      return 8;
    case nccl_abi::kComplex128:
      return 16;
  }
  return 0;
}

struct Position {
  int size = 0;
  int rank = 0;
};

EngineResult find_position(CommHandle comm, Position& position) {
  const EngineResult counted = nccl->comm_count(comm, &position.size);
  return counted != nccl_abi::kSuccess ? counted : nccl->comm_user_rank(comm, &position.rank);
}

// each(rank, my rank) for every member, within one group.
template <typename Each>
EngineResult for_each_rank(CommHandle comm, Each each) {
  Position me;
  EngineResult first = find_position(comm, me);
  if (first != nccl_abi::kSuccess) return first;
  if ((first = nccl->group_start()) != nccl_abi::kSuccess) return first;
  auto keep = [&first](EngineResult result) {
    if (first == nccl_abi::kSuccess && result != nccl_abi::kInProgress) first = result;
  };
  for (int rank = 0; rank < me.size; ++rank) keep(each(rank, me.rank));
  const EngineResult ended = nccl->group_end();
  return first != nccl_abi::kSuccess ? first : ended;
}

EngineResult first_of(EngineResult a, EngineResult b) {
  return a == nccl_abi::kSuccess || a == nccl_abi::kInProgress ? b : a;
}

EngineResult send_if_any(const void* data, size_t count, DataType type, int peer, CommHandle comm,
                         StreamHandle stream) {
  return count == 0 ? nccl_abi::kSuccess : nccl->send(data, count, type, peer, comm, stream);
}

EngineResult recv_if_any(void* data, size_t count, DataType type, int peer, CommHandle comm, StreamHandle stream) {
  return count == 0 ? nccl_abi::kSuccess : nccl->recv(data, count, type, peer, comm, stream);
}

EngineResult all_gather_v(const void* send, void* const* recv, const size_t* counts, DataType type, CommHandle comm,
                          StreamHandle stream) {
  return for_each_rank(comm, [=](int root, int me) {
    if (counts[root] == 0) return nccl_abi::kSuccess;
    return nccl->broadcast(root == me ? send : recv[root], recv[root], counts[root], type, root, comm, stream);
  });
}

EngineResult reduce_scatter_v(const void* const* send, void* recv, const size_t* counts, DataType type, RedOp op,
                              CommHandle comm, StreamHandle stream) {
  return for_each_rank(comm, [=](int root, int me) {
    if (counts[root] == 0) return nccl_abi::kSuccess;
    return nccl->reduce(send[root], root == me ? recv : nullptr, counts[root], type, op, root, comm, stream);
  });
}

EngineResult all_to_all_v(const void* const* send, const size_t* send_counts, void* const* recv,
                          const size_t* recv_counts, DataType type, CommHandle comm, StreamHandle stream) {
  return for_each_rank(comm, [=](int peer, int) {
    return first_of(send_if_any(send[peer], send_counts[peer], type, peer, comm, stream),
                    recv_if_any(recv[peer], recv_counts[peer], type, peer, comm, stream));
  });
}

EngineResult gather_list(const void* send, void* const* recv, size_t count, DataType type, int root, CommHandle comm,
                         StreamHandle stream) {
  return for_each_rank(comm, [=](int peer, int me) {
    const EngineResult sent = peer == root ? send_if_any(send, count, type, root, comm, stream) : nccl_abi::kSuccess;
    return me == root ? first_of(sent, recv_if_any(recv[peer], count, type, peer, comm, stream)) : sent;
  });
}

EngineResult scatter_list(const void* const* send, void* recv, size_t count, DataType type, int root, CommHandle comm,
                          StreamHandle stream) {
  return for_each_rank(comm, [=](int peer, int me) {
    const EngineResult sent =
        me == root ? send_if_any(send[peer], count, type, peer, comm, stream) : nccl_abi::kSuccess;
    return peer == root ? first_of(sent, recv_if_any(recv, count, type, root, comm, stream)) : sent;
  });
}

// --- what NCCL has names for since 2.28

EngineResult all_to_all(const void* send, void* recv, size_t count, DataType type, CommHandle comm,
                        StreamHandle stream) {
  const size_t bytes = count * element_bytes(type);
  return for_each_rank(comm, [=](int peer, int) {
    const size_t at = static_cast<size_t>(peer) * bytes;
    return first_of(send_if_any(static_cast<const char*>(send) + at, count, type, peer, comm, stream),
                    recv_if_any(static_cast<char*>(recv) + at, count, type, peer, comm, stream));
  });
}

EngineResult gather(const void* send, void* recv, size_t count, DataType type, int root, CommHandle comm,
                    StreamHandle stream) {
  const size_t bytes = count * element_bytes(type);
  return for_each_rank(comm, [=](int peer, int me) {
    const EngineResult sent = peer == root ? send_if_any(send, count, type, root, comm, stream) : nccl_abi::kSuccess;
    if (me != root) return sent;
    return first_of(sent, recv_if_any(static_cast<char*>(recv) + static_cast<size_t>(peer) * bytes, count, type, peer,
                                      comm, stream));
  });
}

EngineResult scatter(const void* send, void* recv, size_t count, DataType type, int root, CommHandle comm,
                     StreamHandle stream) {
  const size_t bytes = count * element_bytes(type);
  return for_each_rank(comm, [=](int peer, int me) {
    const EngineResult sent = me == root
                                  ? send_if_any(static_cast<const char*>(send) + static_cast<size_t>(peer) * bytes,
                                                count, type, peer, comm, stream)
                                  : nccl_abi::kSuccess;
    return peer == root ? first_of(sent, recv_if_any(recv, count, type, root, comm, stream)) : sent;
  });
}

template <typename Function>
void fill(Function& member, Function ours) {
  if (member == nullptr) member = ours;
}

}  // namespace

void compose_missing(Engine& engine) {
  nccl = &engine.nccl;
  fill(engine.host.all_gather_v, &all_gather_v);
  fill(engine.host.reduce_scatter_v, &reduce_scatter_v);
  fill(engine.host.all_to_all_v, &all_to_all_v);
  fill(engine.host.gather_list, &gather_list);
  fill(engine.host.scatter_list, &scatter_list);
  fill(engine.nccl.all_to_all, &all_to_all);
  fill(engine.nccl.gather, &gather);
  fill(engine.nccl.scatter, &scatter);
}

}  // namespace pycomms
