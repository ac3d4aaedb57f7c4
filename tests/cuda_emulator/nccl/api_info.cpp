// Exported: what a communicator, a result and this library are.

#include "call_counts.h"
#include "group.h"
#include "hostccl/nccl_abi_newer.h"
#include "refusal.h"

using namespace nccl_emulator;
using nccl_abi::kInvalidArgument;
using nccl_abi::kSuccess;

namespace {

// Calls read(inner communicator), once there is one.
template <typename Read>
Result with_inner(Comm comm, const void* out, Read read) {
  NCCL_FIND(handle, comm);
  if (out == nullptr) return refuse(kInvalidArgument, "the place for the answer is null");
  const pycomms::GateHolder inside(handle->gate());
  const InnerComm inner = inside ? handle->inner() : nullptr;
  if (inner == nullptr) return refuse(kInvalidArgument, "the communicator is still being made, or closed");
  return told(read(inner));
}

}  // namespace

NCCL_EXPORT Result ncclGetVersion(int* version) {
  NCCL_COUNT_CALL();
  return told(inner_ncclGetVersion(version));
}

NCCL_EXPORT const char* ncclGetErrorString(Result result) {
  NCCL_COUNT_CALL();
  return inner_ncclGetErrorString(result);
}

NCCL_EXPORT const char* ncclGetLastError(Comm comm) {
  NCCL_COUNT_CALL();
  thread_local std::string text;
  text = last_error();
  if (comm == nullptr) return text.c_str();
  if (const auto handle = Handle::find(comm)) {
    if (std::string of_comm = handle->error_text(); !of_comm.empty()) text = of_comm;
  }
  return text.c_str();
}

NCCL_EXPORT Result ncclCommGetAsyncError(Comm comm, Result* async_error) {
  NCCL_COUNT_CALL();
  NCCL_FIND(handle, comm);
  if (async_error == nullptr) return refuse(kInvalidArgument, "asyncError is null");
  *async_error = handle->poll();
  return kSuccess;
}

NCCL_EXPORT Result ncclCommCount(Comm comm, int* count) {
  NCCL_COUNT_CALL();
  return with_inner(comm, count, [count](InnerComm inner) { return inner_ncclCommCount(inner, count); });
}

NCCL_EXPORT Result ncclCommUserRank(Comm comm, int* rank) {
  NCCL_COUNT_CALL();
  return with_inner(comm, rank, [rank](InnerComm inner) { return inner_ncclCommUserRank(inner, rank); });
}

NCCL_EXPORT Result ncclCommCuDevice(Comm comm, int* device) {
  NCCL_COUNT_CALL();
  NCCL_FIND(handle, comm);
  if (device == nullptr) return refuse(kInvalidArgument, "device is null");
  *device = handle->device();
  return kSuccess;
}

NCCL_EXPORT Result ncclCommQueryProperties(Comm comm, nccl_abi::CommProperties* properties) {
  NCCL_COUNT_CALL();
  if (properties == nullptr || properties->magic != nccl_abi::kConfigMagic) {
    return refuse(kInvalidArgument, "props was not initialised with NCCL_COMM_PROPERTIES_INITIALIZER");
  }
  NCCL_FIND(handle, comm);
  const int device = handle->device();
  return with_inner(comm, properties, [properties, device](InnerComm inner) {
    properties->rank = inner->impl.rank();
    properties->ranks = inner->impl.nranks();
    properties->cuda_device = properties->nvml_device = device;
    properties->device_api = properties->multimem = false;
    properties->gin_type = properties->railed_gin_type = 0;  // none
    properties->lsa_teams = inner->impl.nranks();            // nobody can reach another's memory
    properties->host_rma = true;
    return kSuccess;
  });
}

// --- groups

NCCL_EXPORT Result ncclGroupStart() {
  NCCL_COUNT_CALL();
  start_group();
  return kSuccess;
}

NCCL_EXPORT Result ncclGroupEnd() {
  NCCL_COUNT_CALL();
  return end_group();
}

NCCL_EXPORT Result ncclGroupSimulateEnd(nccl_abi::SimulationInfo* info) {
  NCCL_COUNT_CALL();
  if (info != nullptr && info->magic != nccl_abi::SimulationInfo().magic) {
    return refuse(kInvalidArgument, "simInfo was not initialised with NCCL_SIM_INFO_INITIALIZER");
  }
  float microseconds = 0;
  const Result simulated = simulate_group(&microseconds);
  if (simulated == kSuccess && info != nullptr) info->estimated_us = microseconds;
  return simulated;
}
