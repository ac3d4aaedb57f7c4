// The kinds of operation, and one table with what is known about each. A new operation is one line here.
// Must not know: engines, tensors.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace pycomms {

// X(kind, name, title in the profiler)
#define PYCOMMS_OPS(X)                                                                                         \
  X(kBroadcast, "broadcast", "nccl2:broadcast")                                                                \
  X(kAllReduce, "all_reduce", "nccl2:all_reduce")                                                              \
  X(kAllReduceCoalesced, "all_reduce_coalesced", "nccl2:all_reduce")                                           \
  X(kAllReduceSparse, "all_reduce_sparse", "nccl2:sparse_all_reduce")                                          \
  X(kReduce, "reduce", "nccl2:reduce")                                                                         \
  X(kAllGather, "all_gather", "nccl2:all_gather")                                                              \
  X(kAllGatherSingle, "all_gather_single", "nccl2:all_gather_into_tensor")                                     \
  X(kAllGatherCoalesced, "all_gather_coalesced", "nccl2:all_gather")                                           \
  X(kAllGatherSingleCoalesced, "all_gather_single_coalesced", "nccl2:all_gather_into_tensor")                  \
  X(kGather, "gather", "nccl2:gather")                                                                         \
  X(kGatherSingle, "gather_single", "nccl2:gather")                                                            \
  X(kScatter, "scatter", "nccl2:scatter")                                                                      \
  X(kReduceScatter, "reduce_scatter", "nccl2:reduce_scatter")                                                  \
  X(kReduceScatterSingle, "reduce_scatter_single", "nccl2:reduce_scatter_tensor")                              \
  X(kReduceScatterSingleCoalesced, "reduce_scatter_single_coalesced", "nccl2:reduce_scatter_tensor_coalesced") \
  X(kAllToAll, "all_to_all", "nccl2:all_to_all")                                                               \
  X(kAllToAllSingle, "all_to_all_single", "nccl2:all_to_all")                                                  \
  X(kBarrier, "barrier", "nccl2:barrier")                                                                      \
  X(kSend, "send", "nccl2:send")                                                                               \
  X(kRecv, "recv", "nccl2:recv")                                                                               \
  X(kRecvAnySource, "recv_any_source", "nccl2:recvAnySource")                                                  \
  X(kCoalesced, "coalesced", "nccl2:coalesced")                                                                \
  X(kConnect, "connect", "nccl2:connect")                                                                      \
  X(kSplit, "split", "nccl2:split")                                                                            \
  X(kShrink, "shrink", "nccl2:shrink")                                                                         \
  X(kGrow, "grow", "nccl2:grow")                                                                               \
  X(kRegroup, "regroup", "nccl2:regroup")                                                                      \
  X(kWindow, "window", "nccl2:window")                                                                         \
  X(kWindowClose, "window_close", "nccl2:window_close")                                                        \
  X(kAttr, "attr", "nccl2:attr")                                                                               \
  X(kRemote, "remote", "nccl2:remote")                                                                         \
  X(kPut, "put", "nccl2:put")                                                                                  \
  X(kGet, "get", "nccl2:get")                                                                                  \
  X(kPutV, "put_v", "nccl2:put_v")                                                                             \
  X(kGetV, "get_v", "nccl2:get_v")                                                                             \
  X(kAccumulate, "accumulate", "nccl2:accumulate")                                                             \
  X(kGetAccumulate, "get_accumulate", "nccl2:get_accumulate")                                                  \
  X(kFetchAdd, "fetch_add", "nccl2:fetch_add")                                                                 \
  X(kSwap, "swap", "nccl2:swap")                                                                               \
  X(kCompareSwap, "compare_swap", "nccl2:compare_swap")                                                        \
  X(kFlush, "flush", "nccl2:flush")                                                                            \
  X(kSignal, "signal", "nccl2:signal")                                                                         \
  X(kWaitSignal, "wait_signal", "nccl2:wait_signal")                                                           \
  X(kReadSignal, "read_signal", "nccl2:read_signal")                                                           \
  X(kLock, "lock", "nccl2:lock")                                                                               \
  X(kUnlock, "unlock", "nccl2:unlock")                                                                         \
  X(kSuspend, "suspend", "nccl2:suspend")                                                                      \
  X(kResume, "resume", "nccl2:resume")                                                                         \
  X(kRegisterPool, "register_mem_pool", "nccl2:register_mem_pool")                                             \
  X(kDeregisterPool, "deregister_mem_pool", "nccl2:deregister_mem_pool")

enum class OpKind : uint8_t {
#define PYCOMMS_OP_KIND(kind, name, title) kind,
  PYCOMMS_OPS(PYCOMMS_OP_KIND)
#undef PYCOMMS_OP_KIND
};

struct OpTraits {
  const char* name;
  const char* title;
};

inline constexpr auto kOpTraits = std::to_array<OpTraits>({
#define PYCOMMS_OP_TRAITS(kind, name, title) {name, title},
    PYCOMMS_OPS(PYCOMMS_OP_TRAITS)
#undef PYCOMMS_OP_TRAITS
});

constexpr const OpTraits& traits(OpKind kind) { return kOpTraits[static_cast<size_t>(kind)]; }

// Point-to-point operations have no place in the group's sequence: not every rank takes part.
constexpr bool is_point_to_point(OpKind kind) {
  return kind == OpKind::kSend || kind == OpKind::kRecv || kind == OpKind::kRecvAnySource;
}

// The data of a receive is of use to nobody but its own rank.
constexpr bool is_receive(OpKind kind) { return kind == OpKind::kRecv || kind == OpKind::kRecvAnySource; }

}  // namespace pycomms
