// The few names of the CUDA runtime that torch's header of its CUDA allocator mentions, so that allocator_events.cpp can
// include that header where no CUDA is installed (docs/adr/0007-allocator-events.md). Only the sizes of types matter: the
// functions appear in inline code of torch that we never call, and no value of an enumeration is used.
// Must not know: anything. Nothing but allocator_events.cpp may see these names.
#pragma once

#include <cstddef>

#define CUDA_VERSION 13000
#define CUDART_VERSION 13000

using cudaStream_t = struct CUstream_st*;
using cudaGraph_t = struct CUgraph_st*;
using cudaUserObject_t = struct CUuserObject_st*;
using cudaHostFn_t = void (*)(void*);

enum cudaError_t : unsigned { cudaSuccess = 0 };
enum cudaMemcpyKind : unsigned {};
enum cudaStreamCaptureMode : unsigned {};
enum cudaStreamCaptureStatus : unsigned {
  cudaStreamCaptureStatusNone = 0,
  cudaStreamCaptureStatusActive = 1,
  cudaStreamCaptureStatusInvalidated = 2,
};
enum : unsigned { cudaGraphUserObjectMove = 1, cudaUserObjectNoDestructorSync = 1 };

cudaError_t cudaGetLastError();
const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaMemGetInfo(size_t* free, size_t* total);
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status);
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority);
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest);
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode);
template <typename... Arguments>
cudaError_t cudaStreamGetCaptureInfo(Arguments... arguments);
cudaError_t cudaUserObjectCreate(cudaUserObject_t* object, void* data, cudaHostFn_t destroy, unsigned references,
                                 unsigned flags);
cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned count = 1);
cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned count, unsigned flags);
