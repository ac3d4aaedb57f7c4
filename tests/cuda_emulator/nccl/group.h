// Groups: what is called between ncclGroupStart and ncclGroupEnd is remembered and begins together at the end. An operation
// alone is a group of one. Threads: a group belongs to the thread that opened it.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "handle.h"
#include "making.h"

namespace nccl_emulator {

// An operation, bound to its arguments but for hostccl's communicator.
struct Operation {
  std::shared_ptr<Handle> handle;
  StreamHandle stream;
  size_t bytes;  // of the caller's piece: for estimates
  std::function<Result(InnerComm)> issue;
};

struct Group {
  int depth = 0;
  std::vector<Operation> operations;
  std::vector<Making> makings;
  std::vector<std::function<Result()>> endings;  // of communicators and reductions: after all others
};

// Of the calling thread; null: none is open.
Group* open_group();

void start_group();
Result end_group();
// Ends it without running what is in it. *microseconds: 10 for each operation and one for each 10 kB of the callers' pieces.
Result simulate_group(float* microseconds);

size_t bytes_of(size_t count, DataType type);

// Issues it, now or when the group ends.
Result issue(const char* function, Comm comm, StreamHandle stream, size_t bytes,
             std::function<Result(InnerComm)> operation);
// Runs it now, or when the group ends.
Result at_the_end(std::function<Result()> ending);

}  // namespace nccl_emulator
