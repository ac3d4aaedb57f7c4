#include "nccl2/c10d/device_group.h"

#include <c10/util/Exception.h>

#include <array>
#include <mutex>

#include "nccl2/c10d/device_streams.h"
#include "nccl2/c10d/errors.h"
#include "nccl2/driver/cuda_runtime.h"

namespace pycomms::c10d_backend {
namespace {

constexpr size_t kMaxDevices = 64;

// One for each device and process; never destroyed, for events may outlive static destruction.
CudaRuntime& cuda_runtime(c10::Device device) {
  static std::mutex mutex;
  static std::array<CudaRuntime*, kMaxDevices> all{};
  const auto index = static_cast<size_t>(device.index());
  TORCH_CHECK_VALUE(index < kMaxDevices, "pycomms: no such GPU: ", device);
  const std::lock_guard lock(mutex);
  if (all[index] == nullptr) {
    Result<const CudaApi*> api = loaded_cuda();
    TORCH_CHECK(api.is_ok(), "pycomms: ", api.status().message());
    all[index] = new CudaRuntime(*api.value(), device.index());
  }
  return *all[index];
}

const Engine& nccl_engine() {
  static Result<const Engine*> engine = loaded_nccl();
  TORCH_CHECK(engine.is_ok(), "pycomms: ", engine.status().message());
  return *engine.value();
}

std::shared_ptr<DeviceCommunicator> supervised(c10::Device device, std::shared_ptr<Communicator> communicator,
                                               DeviceEvents& events, std::function<Error()> members) {
  communicator->set_memory(std::make_shared<Registrations>(communicator->engine(), device.index()));
  auto result = std::make_shared<DeviceCommunicator>(std::move(communicator), events, std::move(members));
  const Status added = Supervisor::instance().add(result);
  TORCH_CHECK(added.is_ok(), "pycomms: ", added.message());
  return result;
}

}  // namespace

std::shared_ptr<DeviceGroup> DeviceGroup::make(c10::Device device, bool high_priority, CommunicatorOptions options,
                                               std::function<Error()> members) {
  CudaRuntime& runtime = cuda_runtime(device);
  auto communicator = std::make_shared<Communicator>(nccl_engine(), runtime, std::move(options));
  auto operations = supervised(device, std::move(communicator), runtime, std::move(members));
  return std::shared_ptr<DeviceGroup>(
      new DeviceGroup(device, stream_from_pool(device, high_priority), std::move(operations)));
}

std::shared_ptr<DeviceGroup> DeviceGroup::around(const DeviceGroup& parent, std::unique_ptr<Communicator> communicator,
                                                 bool high_priority, std::function<Error()> members) {
  auto operations =
      supervised(parent.device(), std::move(communicator), parent.operations().events(), std::move(members));
  return std::shared_ptr<DeviceGroup>(
      new DeviceGroup(parent.device(), stream_from_pool(parent.device(), high_priority), std::move(operations)));
}

}  // namespace pycomms::c10d_backend
