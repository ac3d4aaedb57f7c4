// Exported: last errors and their words.

#include "abi.h"
#include "api/entry.h"
#include "device.h"
#include "error_text.h"

namespace cuda_abi {
namespace {

using namespace cuemu;

// The error of a failed device stays.
Error or_failure(Error error) {
  const Error failure = current_device().failure().code;
  return failure != kSuccess ? failure : error;
}

}  // namespace

CUEMU_EXPORT Error cudaGetLastError() {
  static FaultPoint& point = fault_point("cudaGetLastError");
  point.pass();
  return or_failure(take_last_error());
}

CUEMU_EXPORT Error cudaPeekAtLastError() {
  static FaultPoint& point = fault_point("cudaPeekAtLastError");
  point.pass();
  return or_failure(peek_last_error());
}

CUEMU_EXPORT const char* cudaGetErrorName(Error error) { return error_name(error); }

CUEMU_EXPORT const char* cudaGetErrorString(Error error) { return error_text(error); }

}  // namespace cuda_abi
