#include "nccl2/driver/cuda_runtime.h"

#include "nccl2/driver/cuda_scope.h"

namespace pycomms {

using cuda_abi::Error;

Result<StreamHandle> CudaRuntime::create_stream(const char*) {
  return Status(Code::kInvalidState, "operations on a GPU run on torch's streams");
}

Status CudaRuntime::failed(const char* call, Error error) const {
  return Status(Code::kSystem,
                std::string(call) + " on GPU " + std::to_string(device_) + ": " + api_.get_error_string(error));
}

Result<EventHandle> CudaRuntime::make(bool timed) {
  {
    const std::lock_guard lock(mutex_);
    auto& idle = idle_[timed ? 1 : 0];
    if (!idle.empty()) {
      const EventHandle event = idle.back();
      idle.pop_back();
      return event;
    }
  }
  const OnDevice here(api_, device_);
  EventHandle event = nullptr;
  const Error error = api_.event_create(&event, timed ? cuda_abi::kEventTimed : cuda_abi::kEventDisableTiming);
  if (error != Error::kSuccess) return failed("cudaEventCreateWithFlags", error);
  return event;
}

Result<EventHandle> CudaRuntime::record(StreamHandle stream, bool timed) {
  Result<EventHandle> event = make(timed);
  if (!event.is_ok()) return event;
  const Error error = api_.event_record(event.value(), stream);
  if (error == Error::kSuccess) return event;
  release(event.value(), timed, /*captured=*/true);
  return failed("cudaEventRecord", error);
}

Status CudaRuntime::wait(StreamHandle stream, EventHandle event) {
  const Error error = api_.stream_wait_event(stream, event, 0);
  return error == Error::kSuccess ? Status() : failed("cudaStreamWaitEvent", error);
}

DeviceEvents::State CudaRuntime::query(EventHandle event, std::string* why) {
  const Error error = api_.event_query(event);
  if (error == Error::kSuccess) return State::kPassed;
  if (error == Error::kNotReady) return State::kPending;
  *why = failed("cudaEventQuery", error).message();
  return State::kFailed;
}

Result<float> CudaRuntime::elapsed_ms(EventHandle start, EventHandle end) {
  float milliseconds = 0;
  const Error error = api_.event_elapsed(&milliseconds, start, end);
  if (error != Error::kSuccess) return failed("cudaEventElapsedTime", error);
  return milliseconds;
}

void CudaRuntime::release(EventHandle event, bool timed, bool captured) {
  if (captured) {
    static_cast<void>(api_.event_destroy(event));
    return;
  }
  const std::lock_guard lock(mutex_);
  idle_[timed ? 1 : 0].push_back(event);
}

bool CudaRuntime::is_capturing(StreamHandle stream) {
  cuda_abi::CaptureStatus status = cuda_abi::kNotCapturing;
  return api_.stream_is_capturing(stream, &status) == Error::kSuccess && status != cuda_abi::kNotCapturing;
}

void CudaRuntime::allow_queries_during_capture() {
  cuda_abi::CaptureMode mode = cuda_abi::kCaptureRelaxed;
  static_cast<void>(api_.exchange_capture_mode(&mode));
}

}  // namespace pycomms
