// libnccl.so.2 as a program sees it, on fake streams: the table of functions that pycomms uses, those that it does not have,
// and worlds whose ranks are threads. Must not know: the library's insides.
#pragma once

#include <functional>
#include <string>

#include "fake_streams.h"
#include "faults.h"
#include "hostccl/nccl_abi_newer.h"
#include "nccl2/driver/nccl_api.h"

namespace nccl_test {

using nccl_abi::CommHandle;
using nccl_abi::Config;
using nccl_abi::DataType;
using nccl_abi::Result;
using nccl_abi::StreamHandle;
using nccl_abi::UniqueId;
using Window = void*;

#define NCCL_TEST_MORE_FUNCTIONS(X)                                                                     \
  X(ncclCommInitRankScalable, Result, (CommHandle*, int, int, int, UniqueId*, Config*))                 \
  X(ncclCommInitAll, Result, (CommHandle*, int, const int*))                                            \
  X(ncclCommShrink, Result, (CommHandle, int*, int, CommHandle*, Config*, int))                         \
  X(ncclCommGetUniqueId, Result, (CommHandle, UniqueId*))                                               \
  X(ncclCommGrow, Result, (CommHandle, int, const UniqueId*, int, CommHandle*, Config*))                \
  X(ncclCommRevoke, Result, (CommHandle, int))                                                          \
  X(ncclCommSuspend, Result, (CommHandle, int))                                                         \
  X(ncclCommResume, Result, (CommHandle))                                                               \
  X(ncclCommMemStats, Result, (CommHandle, nccl_abi::MemoryStatistic, uint64_t*))                       \
  X(ncclCommQueryProperties, Result, (CommHandle, nccl_abi::CommProperties*))                           \
  X(ncclCommRegister, Result, (CommHandle, void*, size_t, void**))                                      \
  X(ncclCommDeregister, Result, (CommHandle, void*))                                                    \
  X(ncclCommWindowRegister, Result, (CommHandle, void*, size_t, Window*, int))                          \
  X(ncclCommWindowDeregister, Result, (CommHandle, Window))                                             \
  X(ncclWinGetUserPtr, Result, (CommHandle, Window, void**))                                            \
  X(ncclGetPeerDevicePointer, Result, (Window, size_t, int, void**))                                    \
  X(ncclPutSignal, Result,                                                                              \
    (const void*, size_t, DataType, int, Window, size_t, int, int, unsigned, CommHandle, StreamHandle)) \
  X(ncclSignal, Result, (int, int, int, unsigned, CommHandle, StreamHandle))                            \
  X(ncclWaitSignal, Result, (int, nccl_abi::WaitSignal*, CommHandle, StreamHandle))                     \
  X(ncclGroupSimulateEnd, Result, (nccl_abi::SimulationInfo*))                                          \
  X(ncclGetLsaDevicePointer, Result, ())                                                                \
  X(ncclEmulatorStayInProgress, int, (int, int64_t, uint64_t, uint64_t))                                \
  X(ncclEmulatorFailOperation, int, (uint64_t, int, const char*))                                       \
  X(ncclEmulatorClearFaults, void, ())                                                                  \
  X(ncclEmulatorStruck, uint64_t, ())                                                                   \
  X(ncclEmulatorCalls, uint64_t, (const char*))                                                         \
  X(ncclEmulatorCountLive, void, (ncclEmulatorLive_t*))

struct More {
#define NCCL_TEST_MEMBER(name, result, parameters) result(*name) parameters = nullptr;
  NCCL_TEST_MORE_FUNCTIONS(NCCL_TEST_MEMBER)
#undef NCCL_TEST_MEMBER
};

const pycomms::NcclApi& nccl();
const More& more();

// Runs body(rank) on a thread for each rank; what went wrong, one line a rank.
std::string run_ranks(int nranks, const std::function<void(int)>& body);
// With a communicator for each, which the body may destroy or abort, or leave to us.
std::string run_world(int nranks, bool blocking, const std::function<void(int, CommHandle&)>& body);

UniqueId unique_id();
Config nonblocking();
Result async_error(CommHandle comm);
// Polls while the communicator is in progress.
Result settle(CommHandle comm);
void expect(bool holds, const std::string& what);
void expect_success(Result result, const std::string& what);
size_t live_communicators();

Result all_reduce(float* data, size_t count, CommHandle comm, fake::Stream& stream);

}  // namespace nccl_test
