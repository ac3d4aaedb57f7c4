// What a group has for its tensors on one GPU: a communicator of libnccl, and the stream that asynchronous operations run on.
// Any thread. Must not know: the backend, operations.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <memory>

#include "nccl2/core/device_communicator.h"

namespace pycomms::c10d_backend {

// Marks on the streams of a GPU. Throws when this torch has no CUDA runtime.
DeviceEvents& device_events(c10::Device device);

class DeviceGroup {
 public:
  // Finds libnccl and the CUDA runtime that torch has loaded; throws when this torch has none.
  static std::shared_ptr<DeviceGroup> make(c10::Device device, bool high_priority, CommunicatorOptions options,
                                           Members members);
  // Around a communicator that was made of another group's.
  static std::shared_ptr<DeviceGroup> around(c10::Device device, bool high_priority,
                                             std::unique_ptr<Communicator> communicator, Members members);
  // Not connected, and nothing around it. Throws as make().
  static std::unique_ptr<Communicator> communicator_on(c10::Device device, CommunicatorOptions options);

  c10::Device device() const { return device_; }
  const c10::Stream& internal_stream() const { return internal_; }
  DeviceCommunicator& operations() const { return *operations_; }
  Communicator& communicator() const { return *operations_->communicator(); }

 private:
  DeviceGroup(c10::Device device, c10::Stream internal, std::shared_ptr<DeviceCommunicator> operations)
      : device_(device), internal_(internal), operations_(std::move(operations)) {}

  const c10::Device device_;
  const c10::Stream internal_;
  const std::shared_ptr<DeviceCommunicator> operations_;
};

}  // namespace pycomms::c10d_backend
