// One-sided windows of libhostccl.so: memory of a rank that the others read, write and update without its taking part.
// The last part of the ABI (hostccl.h); NCCL's own windows put and signal only, on streams.
//
// Every call runs on the calling thread and has ended when it returns; `timeout_ns` bounds it where it may wait. Offsets and
// sizes are bytes from the window's beginning. An error concerns the call: the communicator stays as it is, nobody else hears of
// it, and hostcclLastFailure tells more. A window goes on working when members other than the one asked have died; it ends with
// window_close, or when the communicator is cancelled, aborted or destroyed.
//
// Order: what one rank does to one other rank happens there in the order of the calls. Nothing else is ordered but by signals,
// locks and flushes (docs/rma.md).
// Threads: any thread may call anything but window_free, which nobody may race. Must not know: torch, CUDA.
#pragma once

#include "hostccl.h"

namespace hostccl {

class Window;
using WindowHandle = Window*;

// A run of bytes in a window.
struct WindowPiece {
  uint64_t offset;
  uint64_t bytes;
};

// What an update makes of the old value and the operand. Bit operations: integers only.
enum class WindowOp : int {
  kSum = 0,
  kProd = 1,
  kMax = 2,
  kMin = 3,
  kBitAnd = 4,
  kBitOr = 5,
  kBitXor = 6,
  kReplace = 7,
  kFetch = 8,  // leaves it: reads each element in one piece
};

// How a rank's window is reached from here.
enum class WindowReach : int {
  kSelf = 0,
  kMapped = 1,  // loads and stores in shared memory
  kServed = 2,  // over TCP, by a thread of the target's process
};

struct WindowAttr {
  WindowReach reach;
  size_t bytes;
  void* data;      // where its memory is mapped here; null when served
  bool is_closed;  // its rank has closed it, and this one has heard so
};

// What happens to a signal: a number for each (target, slot, source), at first 0.
enum class SignalChange : int { kAdd = 0, kSet = 1 };
struct WindowSignal {
  int slot;
  SignalChange change;
  int64_t value;
};

struct WindowOptions {
  int slots = 64;  // of signals, 1 to 4096; the same on all ranks
  // `data` lies at `offset` of the file `fd` of this process; -1: in memory of ncclMemAlloc, or in private memory, which is
  // served to all other ranks over TCP.
  int fd = -1;
  uint64_t offset = 0;
};

#define PYCOMMS_HOSTCCL_WINDOW_FUNCTIONS(X)                                                                              \
  /* Collective. `bytes` may differ from rank to rank, 0 too. The memory stays the caller's, who keeps it until the */   \
  /* window is closed and nobody has it mapped. Fails without harm when some ranks do not come in time. */               \
  X(window_create, hostcclWindowCreate, Result,                                                                          \
    (CommHandle comm, void* data, size_t bytes, const WindowOptions* options, int64_t timeout_ns,                        \
     WindowHandle* window))                                                                                              \
  /* Collective when `together`: returns when all have come, and what all have done is done. Otherwise ends it here; */  \
  /* the others find it closed. It is closed whatever is returned; calls that wait in it end. */                         \
  X(window_close, hostcclWindowClose, Result, (WindowHandle window, int together, int64_t timeout_ns))                   \
  /* The handle, once no call is inside; an open window is closed alone. */                                              \
  X(window_free, hostcclWindowFree, void, (WindowHandle window))                                                         \
  X(window_attr, hostcclWindowAttr, Result, (WindowHandle window, int peer, WindowAttr* attr))                           \
  /* Where the memory of `peer` is mapped here, for longer than the window lives: until hostcclWindowUnmap(*hold). */    \
  X(window_map, hostcclWindowMap, Result, (WindowHandle window, int peer, void** data, void** hold))                     \
  X(window_unmap, hostcclWindowUnmap, void, (void* hold))                                                                \
  /* The pieces one after the other from `source`; then the signal, unless it is null, which the target sees last. */    \
  X(window_put, hostcclWindowPut, Result,                                                                                \
    (WindowHandle window, int peer, const WindowPiece* pieces, size_t npieces, const void* source,                       \
     const WindowSignal* signal, int64_t timeout_ns))                                                                    \
  X(window_get, hostcclWindowGet, Result,                                                                                \
    (WindowHandle window, int peer, const WindowPiece* pieces, size_t npieces, void* destination, int64_t timeout_ns))   \
  /* Each element by itself is updated in one step, whoever else updates it. `old` takes what was there; null: not */    \
  /* wanted. int32, int64, uint32, uint64, float32, float64; offsets are multiples of the element's size. */             \
  X(window_update, hostcclWindowUpdate, Result,                                                                          \
    (WindowHandle window, int peer, const WindowPiece* pieces, size_t npieces, DataType type, WindowOp op,               \
     const void* operands, void* old, int64_t timeout_ns))                                                               \
  /* One element: becomes `desired` if it has the bits of `expected`. */                                                 \
  X(window_compare_swap, hostcclWindowCompareSwap, Result,                                                               \
    (WindowHandle window, int peer, uint64_t offset, DataType type, const void* expected, const void* desired,           \
     void* old, int64_t timeout_ns))                                                                                     \
  /* When it returns, what this rank has done to `peer` (-1: to all) is done there. */                                   \
  X(window_flush, hostcclWindowFlush, Result, (WindowHandle window, int peer, int64_t timeout_ns))                       \
  X(window_signal, hostcclWindowSignal, Result,                                                                          \
    (WindowHandle window, int peer, const WindowSignal* signal, int64_t timeout_ns))                                     \
  /* Waits until the signals of all these peers (all_of: nonzero), or of one of them, are at least `count`, and takes */ \
  /* `count` from them, or from that one, whose place in `peers` is *which. Timeout 0 asks once. */                      \
  X(window_wait_signal, hostcclWindowWaitSignal, Result,                                                                 \
    (WindowHandle window, const int* peers, size_t npeers, int all_of, int slot, int64_t count, int64_t timeout_ns,      \
     size_t* which))                                                                                                     \
  /* What is left of the signals of `peer` here. */                                                                      \
  X(window_read_signal, hostcclWindowReadSignal, Result, (WindowHandle window, int peer, int slot, int64_t* value))      \
  /* The lock of the window of `peer`, exclusive or shared. *broken: the rank that has died with it, or -1. */           \
  X(window_lock, hostcclWindowLock, Result,                                                                              \
    (WindowHandle window, int peer, int shared, int64_t timeout_ns, int* broken))                                        \
  /* What was done under it is done. */                                                                                  \
  X(window_unlock, hostcclWindowUnlock, Result, (WindowHandle window, int peer, int shared, int64_t timeout_ns))

}  // namespace hostccl

// C linkage: the names are looked up with dlsym.
extern "C" {
#define PYCOMMS_DECLARE(member, symbol, result, parameters) result symbol parameters;
namespace hostccl {
PYCOMMS_HOSTCCL_WINDOW_FUNCTIONS(PYCOMMS_DECLARE)
}
#undef PYCOMMS_DECLARE
}
