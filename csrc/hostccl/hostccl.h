// What libhostccl.so offers beyond NCCL's ABI: host streams, completion callbacks, failure details, and the operations
// that users of CPU tensors expect and NCCL has no name for. Meanings of NCCL's own functions are never changed.
//
// Ordering. A stream of nullptr means "on the calling thread": the call returns when the operation has ended. Any other
// stream is a queue with a thread of its own. Collectives of one communicator run in the order in which their streams
// reach them: whoever spreads them over several streams, or mixes streams and nullptr, must order them himself.
// Point-to-point requests (hostcclSend, hostcclRecv) are independent of each other and of the collectives: they match by
// (peer, tag), in order, and never wait for another operation's turn.
//
// Synchronization. Every collective compares its header with every member's before it returns, so every collective
// (broadcast too) waits until all members have entered it.
//
// Threads: any thread may call anything; two threads that issue collectives on one communicator must order themselves.
// Must not know: torch, CUDA.
#pragma once

#include "nccl_abi.h"

namespace hostccl {

using nccl_abi::CommHandle;
using nccl_abi::DataType;
using nccl_abi::RedOp;
using nccl_abi::Result;
using nccl_abi::StreamHandle;
using nccl_abi::UniqueId;

enum class FailureKind : int {
  kNone = 0,
  kMismatch = 1,     // members disagree about what the next operation is
  kPeerDead = 2,     // a member's process ended
  kTimeout = 3,      // a deadline passed
  kAborted = 4,      // the communicator was aborted, here or by a member
  kPeerClosed = 5,   // a member closed its communicator while others still needed it
  kInterrupted = 6,  // the interrupt hook asked to stop (Ctrl-C)
  kSystem = 7,       // the operating system refused something
  kUsage = 8,        // the arguments are wrong: nothing was issued, nobody was harmed
};

inline constexpr int kMaxFailedRanks = 64;

// The first error of a communicator. It is sticky, and the same on every member that it reached.
struct Failure {
  FailureKind kind;
  int reporter;       // the rank that saw it first
  uint64_t sequence;  // of the operation, 0 when it was none
  int nranks;         // how many of `ranks` are filled: dead, missing or disagreeing members
  int ranks[kMaxFailedRanks];
  char op[32];
  char text[1024];  // one complete sentence or more, ready to be shown
};

// Called once when the request or the stream's earlier work has ended, from the thread that saw it end; that thread may be
// in the middle of a collective. It must not throw, must not block and must not issue collectives.
using CompletionFn = void (*)(void* arg, Result result);

// Source rank and byte count of a receive, filled before the completion is called.
struct RecvStatus {
  int source;
  int tag;
  size_t bytes;
};

inline constexpr int kAnySource = -1;

inline constexpr size_t kAddressBytes = 128;   // of the text that says where a process is, with its zero
inline constexpr size_t kExchangeBytes = 192;  // at most, of what a rank brings to hostcclExchange

// Streams that belong to somebody else, a device's runtime, and how to queue work on them. Any thread calls these.
struct ExternalStreams {
  // Queues run(arg) on the stream; it is called again whenever a graph that captured it is launched. destroy(arg) is
  // called once, when it cannot be called any more. Not 0: refused, and neither will be called. `what` is for messages.
  // run returns 0, or not when its communicator is gone and a graph still asks for it.
  int (*launch)(StreamHandle stream, const char* what, int (*run)(void* arg), void (*destroy)(void* arg), void* arg);
  // Names the capture that the stream takes part in; 0: none. Null: nothing is ever captured.
  uint64_t (*capture_of)(StreamHandle stream);
  // Where work on a stream finds the bytes behind a caller's pointer. Null: where the pointer says.
  void* (*bytes)(const void* pointer);
};

#define PYCOMMS_HOSTCCL_FUNCTIONS(X)                                                                                     \
  /* Streams. A stream's thread starts at its first use; stream_destroy drains the queue, then ends it. */               \
  X(stream_create, hostcclStreamCreate, Result, (StreamHandle * stream, const char* name))                               \
  X(stream_destroy, hostcclStreamDestroy, Result, (StreamHandle stream))                                                 \
  /* fn is called after all earlier work of the stream, with the result of that work since the last callback. */         \
  /* *position is its place in the stream, for stream_help. */                                                           \
  X(stream_notify, hostcclStreamNotify, Result, (StreamHandle stream, CompletionFn fn, void* arg, uint64_t* position))   \
  /* Calls run(arg) after all earlier work of the stream. Not kSuccess: it was not queued. */                            \
  X(stream_run, hostcclStreamRun, Result, (StreamHandle stream, void (*run)(void* arg), void* arg))                      \
  /* Runs queued work up to that place on the calling thread if the stream's thread has not begun it: not what is */     \
  /* behind, which may wait for something that the caller has yet to do. Nonzero when it ran any. */                     \
  X(stream_help, hostcclStreamHelp, int, (StreamHandle stream, uint64_t position))                                       \
  /* From now on all streams are external, nullptr too: it names one of theirs. Before the first communicator. */        \
  /* The operations of a communicator run in the order of their issue, whatever their streams; those of a */             \
  /* captured graph in the order of their capture. One that fails makes the communicator fail. */                        \
  X(set_external_streams, hostcclSetExternalStreams, Result, (const ExternalStreams* streams))                           \
  /* Failure. kSuccess and kind == kNone while healthy. The text names op, ranks and sequence. */                        \
  X(comm_get_failure, hostcclCommGetFailure, Result, (CommHandle comm, Failure * failure))                               \
  /* The failure of the last call that this thread made, kUsage included. */                                             \
  X(last_failure, hostcclLastFailure, Result, (Failure * failure))                                                       \
  /* Meeting without a unique id from anybody. Where this process is found as long as it lives, from other hosts too; */ \
  /* letters, digits, '-' and '.'. */                                                                                    \
  X(address, hostcclAddress, Result, (char* text, size_t bytes))                                                         \
  /* The id of those who know where the first of them is and share a secret. Whoever has another agenda gets an id of */ \
  /* the same place, is told so there, and the meeting comes to nothing. */                                              \
  X(meeting_id, hostcclMeetingId, Result, (const char* address, const char* secret, const char* agenda, UniqueId* id))   \
  /* On the first rank, before it joins: calls the members together, of whom all addresses are known, by rank. The */    \
  /* end of one that has not come is everybody's failure at once. */                                                     \
  X(convene, hostcclConvene, Result,                                                                                     \
    (const UniqueId* id, const char* const* addresses, int count, int64_t timeout_ns))                                   \
  /* Each rank brings `bytes` and gets those of all, by rank. As hostcclMonitoredBarrier, and it is no collective: it */ \
  /* has no sequence number. */                                                                                          \
  X(exchange, hostcclExchange, Result,                                                                                   \
    (CommHandle comm, const void* mine, void* all, size_t bytes, int64_t timeout_ns, int* missing, int* nmissing))       \
  /* Moves pending point-to-point requests on, from the calling thread; nonzero when any moved. Never blocks. */         \
  X(comm_progress, hostcclCommProgress, int, (CommHandle comm))                                                          \
  /* How long the initialisations that this thread starts later may take, splits included. Default 30 min. */            \
  X(set_init_timeout, hostcclSetInitTimeout, void, (int64_t nanoseconds))                                                \
  /* Deadline of every operation issued later, counted from when it starts. At most 2^62 ns. Default 30 min. */          \
  X(comm_set_timeout, hostcclCommSetTimeout, Result, (CommHandle comm, int64_t nanoseconds))                             \
  /* Ends all operations in flight with kAborted and tells the members; the handle stays valid until destroy. */         \
  X(comm_cancel, hostcclCommCancel, Result, (CommHandle comm, const char* why))                                          \
  /* Fails the communicator with this failure, here and on the members, if it has not failed before: for what the */     \
  /* caller learned elsewhere. */                                                                                        \
  X(comm_fail, hostcclCommFail, Result, (CommHandle comm, const Failure* failure))                                       \
  /* For something beside the communicator that needs all its members: fails it when one has died or closed it. */       \
  /* `op` names it in the failure. The state is returned as by comm_get_async_error. Never blocks. */                    \
  X(comm_need_all, hostcclCommNeedAll, Result, (CommHandle comm, const char* op))                                        \
  /* For something beside it that may have had all that it needs of a member that has closed the communicator: fails */  \
  /* it only when one has died. *has_closed: whether one has closed it. */                                               \
  X(comm_need_living, hostcclCommNeedLiving, Result, (CommHandle comm, const char* op, int* has_closed))                 \
  /* "baseline", "avx2" or "avx512": uses no wider vectors than that; kInvalidArgument where there are none. */          \
  /* Before the first operation. All widths give the same bits. */                                                       \
  X(set_vector_width, hostcclSetVectorWidth, Result, (const char* name))                                                 \
  /* Polled every 50 ms by threads that block in a call on their own account; nonzero ends it: kInterrupted. */          \
  X(set_interrupt_hook, hostcclSetInterruptHook, void, (int (*hook)()))                                                  \
  /* Collectives with a count per rank, in elements, size of the communicator. Displacements in elements. */             \
  X(all_gather_v, hostcclAllGatherv, Result,                                                                             \
    (const void* send, void* const* recv, const size_t* counts, DataType type, CommHandle comm, StreamHandle stream))    \
  X(reduce_scatter_v, hostcclReduceScatterv, Result,                                                                     \
    (const void* const* send, void* recv, const size_t* counts, DataType type, RedOp op, CommHandle comm,                \
     StreamHandle stream))                                                                                               \
  X(all_to_all_v, hostcclAllToAllv, Result,                                                                              \
    (const void* const* send, const size_t* send_counts, void* const* recv, const size_t* recv_counts, DataType type,    \
     CommHandle comm, StreamHandle stream))                                                                              \
  X(gather_list, hostcclGatherList, Result,                                                                              \
    (const void* send, void* const* recv, size_t count, DataType type, int root, CommHandle comm,                        \
     StreamHandle stream))                                                                                               \
  X(scatter_list, hostcclScatterList, Result,                                                                            \
    (const void* const* send, void* recv, size_t count, DataType type, int root, CommHandle comm,                        \
     StreamHandle stream))                                                                                               \
  /* all_reduce in place over memory that lies at `offset` of the file `fd` of this process (a tensor after */           \
  /* share_memory_(), a memfd). Where every member does so and all can map all, nothing is staged. */                    \
  X(all_reduce_shared, hostcclAllReduceShared, Result,                                                                   \
    (void* data, size_t count, DataType type, RedOp op, int fd, uint64_t offset, CommHandle comm,                        \
     StreamHandle stream))                                                                                               \
  X(barrier, hostcclBarrier, Result, (CommHandle comm, StreamHandle stream))                                             \
  /* Barrier on the calling thread that does not fail the communicator on timeout: *missing (as long as the */           \
  /* communicator has members) lists who did not come, and the call returns kTimeout on every rank. */                   \
  X(monitored_barrier, hostcclMonitoredBarrier, Result,                                                                  \
    (CommHandle comm, int64_t timeout_ns, int* missing, int* nmissing))                                                  \
  /* Point to point. fn == nullptr: blocks until done. Otherwise returns at once and fn is called later. */              \
  X(send_tagged, hostcclSend, Result,                                                                                    \
    (const void* send, size_t count, DataType type, int peer, int tag, CommHandle comm, CompletionFn fn, void* arg))     \
  X(recv_tagged, hostcclRecv, Result,                                                                                    \
    (void* recv, size_t count, DataType type, int peer, int tag, CommHandle comm, CompletionFn fn, void* arg,            \
     RecvStatus* status))

}  // namespace hostccl

// C linkage: the names are looked up with dlsym.
extern "C" {
#define PYCOMMS_DECLARE(member, symbol, result, parameters) result symbol parameters;
namespace nccl_abi {
PYCOMMS_NCCL_FUNCTIONS(PYCOMMS_DECLARE)
}
namespace hostccl {
PYCOMMS_HOSTCCL_FUNCTIONS(PYCOMMS_DECLARE)
}
#undef PYCOMMS_DECLARE
}
