// The CUDA runtime as a table of function pointers: the library that torch has loaded, so that we build without CUDA's
// headers and run where there is none. Names and values are those of CUDA 12 and 13. Immutable after load.
// Must not know: torch, communicators.
#pragma once

#include "base/status.h"

namespace cuda_abi {

using Stream = void*;
using Event = void*;

enum Error : int { kSuccess = 0, kNotReady = 600 };
enum EventFlags : unsigned { kEventTimed = 0, kEventDisableTiming = 2 };
enum CaptureMode : int { kCaptureGlobal = 0, kCaptureThreadLocal = 1, kCaptureRelaxed = 2 };
enum CaptureStatus : int { kNotCapturing = 0, kCapturing = 1, kCaptureInvalidated = 2 };

// X(member, symbol, parameters); all return an Error.
#define PYCOMMS_CUDA_FUNCTIONS(X)                                                         \
  X(get_device, cudaGetDevice, (int* device))                                             \
  X(set_device, cudaSetDevice, (int device))                                              \
  X(device_synchronize, cudaDeviceSynchronize, ())                                        \
  X(event_create, cudaEventCreateWithFlags, (Event * event, unsigned flags))              \
  X(event_destroy, cudaEventDestroy, (Event event))                                       \
  X(event_record, cudaEventRecord, (Event event, Stream stream))                          \
  X(event_query, cudaEventQuery, (Event event))                                           \
  X(event_elapsed, cudaEventElapsedTime, (float* milliseconds, Event start, Event end))   \
  X(stream_wait_event, cudaStreamWaitEvent, (Stream stream, Event event, unsigned flags)) \
  X(stream_is_capturing, cudaStreamIsCapturing, (Stream stream, CaptureStatus * status))  \
  X(exchange_capture_mode, cudaThreadExchangeStreamCaptureMode, (CaptureMode * mode))

struct Functions {
#define PYCOMMS_TABLE_MEMBER(member, symbol, parameters) Error(*member) parameters = nullptr;
  PYCOMMS_CUDA_FUNCTIONS(PYCOMMS_TABLE_MEMBER)
#undef PYCOMMS_TABLE_MEMBER
  const char* (*get_error_string)(Error error) = nullptr;
};

}  // namespace cuda_abi

namespace pycomms {

using CudaApi = cuda_abi::Functions;

// The runtime that is loaded already. An error when none is.
Result<const CudaApi*> loaded_cuda();

}  // namespace pycomms
