// The engine as tables of function pointers: NCCL's C API, and hostccl's extensions where the library has them.
// A member that the library does not export is null, and the capability counts as absent. Immutable after load.
// Must not know: torch, CUDA, which engine it is.
#pragma once

#include <string>

#include "base/status.h"
#include "hostccl/hostccl.h"
#include "hostccl/hostccl_windows.h"
#include "hostccl/nccl_abi_newer.h"

#define PYCOMMS_TABLE_MEMBER(member, symbol, result, parameters) result(*member) parameters = nullptr;

namespace nccl_abi {
struct Functions {
  PYCOMMS_NCCL_FUNCTIONS(PYCOMMS_TABLE_MEMBER)
  PYCOMMS_NCCL_NEWER_FUNCTIONS(PYCOMMS_TABLE_MEMBER)
};
}  // namespace nccl_abi

namespace hostccl {
struct Functions {
  PYCOMMS_HOSTCCL_FUNCTIONS(PYCOMMS_TABLE_MEMBER)
};
struct WindowFunctions {
  PYCOMMS_HOSTCCL_WINDOW_FUNCTIONS(PYCOMMS_TABLE_MEMBER)
};
}  // namespace hostccl

#undef PYCOMMS_TABLE_MEMBER

namespace pycomms {

using nccl_abi::CommHandle;
using nccl_abi::DataType;
using nccl_abi::RedOp;
using nccl_abi::StreamHandle;
using nccl_abi::UniqueId;
using EngineResult = nccl_abi::Result;  // `Result` alone is pycomms::Result<T>
using NcclApi = nccl_abi::Functions;
using HostcclApi = hostccl::Functions;
using HostWindowApi = hostccl::WindowFunctions;

struct Engine {
  NcclApi nccl;
  HostcclApi host;
  HostWindowApi windows;
  std::string path;
  int version = 0;

  // True when the library is hostccl on its own streams: it can run operations on the calling thread and explain its failures.
  bool is_host() const { return host.stream_create != nullptr; }
};

// What a communicator has in progress, or what has become of it; or why it cannot be asked.
inline EngineResult async_state(const NcclApi& nccl, CommHandle comm) {
  EngineResult state = nccl_abi::kSuccess;
  const EngineResult asked = nccl.comm_get_async_error(comm, &state);
  return asked == nccl_abi::kSuccess ? state : asked;
}

// Opens the shared library at `path` (its symbols stay private to the table; it is never unloaded, for its threads may
// outlive any object of ours) and fills the tables. An error when a function of NCCL's API is missing.
Result<const Engine*> load_engine(const std::string& path);

// The libnccl that torch has loaded; the first call counts. An error when there is none, when there are two different ones
// in the process, or when it is too old. What it lacks of newer functions is composed of others (nccl_composed.h).
Result<const Engine*> loaded_nccl();

}  // namespace pycomms
