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
                                               DeviceEvents& events, Members members) {
  communicator->set_memory(std::make_shared<Registrations>(communicator->engine(), device.index()));
  auto result = std::make_shared<DeviceCommunicator>(std::move(communicator), events, std::move(members));
  const Status added = Supervisor::instance().add(result);
  TORCH_CHECK(added.is_ok(), "pycomms: ", added.message());
  return result;
}

}  // namespace

DeviceEvents& device_events(c10::Device device) { return cuda_runtime(device); }

std::unique_ptr<Communicator> DeviceGroup::communicator_on(c10::Device device, CommunicatorOptions options) {
  return std::make_unique<Communicator>(nccl_engine(), cuda_runtime(device), std::move(options));
}

std::shared_ptr<DeviceGroup> DeviceGroup::make(c10::Device device, bool high_priority, CommunicatorOptions options,
                                               Members members) {
  return around(device, high_priority, communicator_on(device, std::move(options)), std::move(members));
}

std::shared_ptr<DeviceGroup> DeviceGroup::around(c10::Device device, bool high_priority,
                                                 std::unique_ptr<Communicator> communicator, Members members) {
  auto operations = supervised(device, std::move(communicator), cuda_runtime(device), std::move(members));
  return std::shared_ptr<DeviceGroup>(
      new DeviceGroup(device, stream_from_pool(device, high_priority), std::move(operations)));
}

}  // namespace pycomms::c10d_backend
