#include "error_text.h"

#include <mutex>
#include <set>
#include <string>

#include "device.h"

namespace cuemu {
namespace {

using namespace cuda_abi;

struct Words {
  Error code;
  const char* name;
  const char* sentence;
};

constexpr Words kWords[] = {
    {kSuccess, "cudaSuccess", "no error"},
    {kInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {kMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {kInitializationError, "cudaErrorInitializationError", "initialization error"},
    {kNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {kInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {kNoKernelImage, "cudaErrorNoKernelImageForDevice", "no kernel image is available for execution on the device"},
    {kPeerAccessUnsupported, "cudaErrorPeerAccessUnsupported",
     "peer access is not supported between these two devices"},
    {kOperatingSystem, "cudaErrorOperatingSystem", "OS call failed or operation not supported on this OS"},
    {kInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {kIllegalState, "cudaErrorIllegalState", "the operation cannot be performed in the present state"},
    {kNotReady, "cudaErrorNotReady", "device not ready"},
    {kIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {kLaunchTimeout, "cudaErrorLaunchTimeout", "the launch timed out and was terminated"},
    {kPeerAccessAlreadyEnabled, "cudaErrorPeerAccessAlreadyEnabled", "peer access is already enabled"},
    {kPeerAccessNotEnabled, "cudaErrorPeerAccessNotEnabled", "peer access has not been enabled"},
    {kAssert, "cudaErrorAssert", "device-side assert triggered"},
    {kHostMemoryAlreadyRegistered, "cudaErrorHostMemoryAlreadyRegistered",
     "part or all of the requested memory range is already mapped"},
    {kHostMemoryNotRegistered, "cudaErrorHostMemoryNotRegistered",
     "pointer does not correspond to a registered memory region"},
    {kLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {kNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {kStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {kStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {kStreamCaptureMerge, "cudaErrorStreamCaptureMerge", "operation would result in a merge of separate captures"},
    {kStreamCaptureUnmatched, "cudaErrorStreamCaptureUnmatched",
     "capture was not ended in the same stream as it began"},
    {kStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined", "capturing stream has unjoined work"},
    {kStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation",
     "dependency created on uncaptured work in another stream"},
    {kStreamCaptureImplicit, "cudaErrorStreamCaptureImplicit",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {kCapturedEvent, "cudaErrorCapturedEvent",
     "operation not permitted on an event last recorded in a capturing stream"},
    {kStreamCaptureWrongThread, "cudaErrorStreamCaptureWrongThread",
     "attempt to terminate a thread-local capture sequence from another thread"},
    {kUnknown, "cudaErrorUnknown", "unknown error"},
};

const Words* find(Error error) {
  for (const Words& words : kWords) {
    if (words.code == error) return &words;
  }
  return nullptr;
}

// A string that lives for ever: callers keep what cudaGetErrorString returns.
const char* keep(const std::string& text) {
  static auto& mutex = *new std::mutex;
  static auto& kept = *new std::set<std::string>;
  const std::lock_guard lock(mutex);
  return kept.insert(text).first->c_str();
}

}  // namespace

const char* error_name(Error error) {
  const Words* words = find(error);
  return words ? words->name : keep("cudaError(" + std::to_string(error) + ")");
}

const char* error_text(Error error) {
  const Words* words = find(error);
  const std::string sentence = words ? words->sentence : "error " + std::to_string(error);
  for (const Device* device : devices()) {
    const Failure failure = device->failure();
    if (failure.code == error && error != kSuccess && !failure.text.empty()) {
      return keep(sentence + " (cuda emulator: " + failure.text + ")");
    }
  }
  return words ? words->sentence : keep(sentence);
}

}  // namespace cuemu
