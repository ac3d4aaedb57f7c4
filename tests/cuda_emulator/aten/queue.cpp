#include "aten/queue.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <exception>
#include <memory>
#include <utility>

#include "abi.h"
#include "emulator.h"

extern "C" {
cuda_abi::Error cudaStreamIsCapturing(cuda_abi::StreamHandle stream, cuda_abi::CaptureStatus* status);
const char* cudaGetErrorString(cuda_abi::Error error);
}

namespace cuemu_aten {
namespace {

using Work = std::function<void()>;

void check(int error) {
  if (error == cuda_abi::kSuccess) return;
  const char* text = cudaGetErrorString(static_cast<cuda_abi::Error>(error));
  throw c10::AcceleratorError({__func__, __FILE__, __LINE__}, error, std::string("CUDA error: ") + text);
}

// An index that is out of range is what a kernel would assert on.
int run(void* arg) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  try {
    (*static_cast<Work*>(arg))();
    return cuda_abi::kSuccess;
  } catch (const c10::IndexError& error) {
    cuemu_explain(error.what_without_backtrace());
    return cuda_abi::kAssert;
  } catch (const c10::Error& error) {
    cuemu_explain(error.what_without_backtrace());
  } catch (const std::exception& error) {
    cuemu_explain(error.what());
  }
  return cuda_abi::kLaunchFailure;
}

void destroy(void* arg) { delete static_cast<Work*>(arg); }

}  // namespace

Queue::Queue(c10::Device device) : stream_(c10::impl::VirtualGuardImpl(device.type()).getStream(device)) {}

bool Queue::is_capturing() const {
  auto status = cuda_abi::kCaptureNone;
  check(cudaStreamIsCapturing(static_cast<cuda_abi::StreamHandle>(stream_.native_handle()), &status));
  return status != cuda_abi::kCaptureNone;
}

void Queue::add(const std::string& what, Work work) const {
  auto owned = std::make_unique<Work>(std::move(work));
  check(cuemu_launch(stream_.native_handle(), what.c_str(), run, destroy, owned.get()));
  static_cast<void>(owned.release());
}

}  // namespace cuemu_aten
