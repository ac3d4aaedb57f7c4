// What the exported functions share: argument checks, and the last error of the thread.
// Included by abi_*.cpp only. Any thread.
#pragma once

#include <cstdint>
#include <string>

#include "hostccl/communicator.h"
#include "hostccl/failures.h"
#include "hostccl/hostccl.h"
#include "hostccl/issue.h"

#define PYCOMMS_EXPORT extern "C" __attribute__((visibility("default")))

#define RETURN_IF_REFUSED(expression)                                        \
  do {                                                                       \
    if (const Result r_ = (expression); r_ != nccl_abi::kSuccess) return r_; \
  } while (false)

namespace nccl_abi {

struct Comm {
  hostccl::Communicator impl;
  Comm(int rank, int nranks) : impl(rank, nranks) {}
};

}  // namespace nccl_abi

namespace hostccl {

using nccl_abi::Comm;

// The failure of the last call of this thread.
Failure& last_failure();
// A wrong call: keeps the text, returns `result`.
Result refuse(const std::string& text, Result result = nccl_abi::kInvalidArgument);
// After a call: keeps the communicator's failure if it failed, or that the stream's owner refused. comm: null when there
// were several.
Result done(Comm* comm, Result result);

// How long the initialisations that this thread starts may take.
int64_t& init_timeout_ns();
// At the beginning and the end of a call that makes a communicator.
Result check_config(const nccl_abi::Config* config);
Result finish_init(Comm* comm, const nccl_abi::Config* config);

Result check_ready(Comm* comm);
// check_ready, and a known datatype.
Result check_call(Comm* comm, DataType type);
Result check_rank(const Comm* comm, const char* name, int rank);
Result check_pointer(const char* name, const void* pointer, size_t count);

}  // namespace hostccl
