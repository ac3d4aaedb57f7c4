// What a thread sets for a few calls of CUDA and puts back: the current device, and leave to make calls that a graph
// capture forbids. Any thread. Must not know: torch, communicators.
#pragma once

#include "nccl2/driver/cuda_api.h"

namespace pycomms {

class OnDevice {
 public:
  OnDevice(const CudaApi& api, int device) : api_(api) {
    if (api_.get_device(&before_) == cuda_abi::kSuccess && before_ != device) {
      switched_ = api_.set_device(device) == cuda_abi::kSuccess;
    }
  }
  ~OnDevice() {
    if (switched_) static_cast<void>(api_.set_device(before_));
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  const CudaApi& api_;
  int before_ = 0;
  bool switched_ = false;
};

// For calls that have nothing to do with what is captured, such as registering or freeing other memory. Does nothing where
// no CUDA is loaded.
class RelaxedCapture {
 public:
  RelaxedCapture() {
    Result<const CudaApi*> api = loaded_cuda();
    if (!api.is_ok()) return;
    api_ = api.value();
    static_cast<void>(api_->exchange_capture_mode(&mode_));
  }
  ~RelaxedCapture() {
    if (api_ != nullptr) static_cast<void>(api_->exchange_capture_mode(&mode_));
  }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  const CudaApi* api_ = nullptr;
  cuda_abi::CaptureMode mode_ = cuda_abi::kCaptureRelaxed;
};

}  // namespace pycomms
