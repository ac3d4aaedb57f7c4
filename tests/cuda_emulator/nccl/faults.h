/* What the emulated libnccl.so.2 offers beyond NCCL: faults on order, and counts. Plain C; found with dlsym, or from Python
 * through tests.cuda_emulator.nccl. All of it is about this process, works from any thread, and at once.
 *
 * The death of a rank needs no function: kill the process. Whoever waits for it learns of it within milliseconds.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  ncclEmulatorInit = 0,      /* ncclCommInitRank and its variants, ncclCommGrow of a newcomer */
  ncclEmulatorSplit = 1,     /* ncclCommSplit, ncclCommShrink, ncclCommGrow of a member */
  ncclEmulatorOperation = 2, /* a collective, send or receive; of a group: its end */
  ncclEmulatorPoints = 3
} ncclEmulatorPoint_t;

/* Of the coming calls at `point`, `skip` pass, and the `times` after them return ncclInProgress and have not begun. So do
 * the next `polls` calls of ncclCommGetAsyncError on a communicator that takes part; the one after begins the work. polls < 0:
 * it never begins, and only abort, revoke and destroy help. Blocking communicators cannot stay in progress: there `polls` < 0
 * makes the call return ncclInternalError after a minute, and otherwise nothing happens. A new plan for a point replaces the
 * old one. Returns 0 when the plan makes sense. */
int ncclEmulatorStayInProgress(int point, int64_t polls, uint64_t skip, uint64_t times);

/* Of the coming operations, `skip` pass and the next is issued but never ends on its stream, until its communicator is
 * aborted, revoked or destroyed. If `result` is not ncclSuccess that is the communicator's asynchronous error from then on,
 * with `text` for ncclGetLastError. Returns 0 when the plan makes sense. */
int ncclEmulatorFailOperation(uint64_t skip, int result, const char* text);

/* From now on ncclCommAbort gives its memory back as cudaFree does: it returns once all work on its device has ended, that of
 * other communicators included. In a group all are told to stop before the first waits. 0: not any more. */
void ncclEmulatorAbortWaitsForDevice(int waits);

void ncclEmulatorClearFaults(void); /* all plans that have not struck; what is stuck stays so */
uint64_t ncclEmulatorStruck(void);  /* how often a fault has struck */

uint64_t ncclEmulatorCalls(const char* function); /* how often the program has called an nccl* function */
void ncclEmulatorResetCalls(void);
void ncclEmulatorEachCall(void (*visit)(const char* function, uint64_t calls, void* arg), void* arg);

/* What the program has made and not given back. */
typedef struct {
  size_t communicators, windows, registrations;
} ncclEmulatorLive_t;
void ncclEmulatorCountLive(ncclEmulatorLive_t* live);

#ifdef __cplusplus
}
#endif
