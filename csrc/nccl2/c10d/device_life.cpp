// What a group's communicator on a GPU can do beside operations: give its memory back for a while, tell what it holds, show
// the engine's own handle, and estimate how long a block would take.
#include <c10/core/DeviceGuard.h>

#include <array>
#include <utility>

#include "nccl2/c10d/backend.h"
#include "nccl2/c10d/errors.h"

namespace pycomms::c10d_backend {
namespace {

// torch's names for them.
constexpr std::array<std::pair<const char*, nccl_abi::MemoryStatistic>, 4> kStatistics = {{
    {"suspend", nccl_abi::kMemorySuspendable},
    {"suspended", nccl_abi::kMemoryIsSuspended},
    {"persist", nccl_abi::kMemoryPersistent},
    {"total", nccl_abi::kMemoryTotal},
}};

}  // namespace

DeviceGroup& Backend::need_device(const char* op) {
  const auto group = lanes_->device_if_made();
  if (group == nullptr) {
    throw_value_error(op, "group " + communicator_->group() +
                              " has no communicator on a GPU: it is made by the first operation on a GPU tensor, and "
                              "what there is for CPU tensors cannot do this");
  }
  return *group;  // the lanes keep it
}

void Backend::suspend() {
  const Visit inside(visitors_);
  DeviceGroup& group = need_device("suspend");
  refuse_in_block("suspend");
  const c10::OptionalDeviceGuard here(group.device());
  throw_if(group.communicator().suspend(Deadline::after(communicator_->timeout())));
}

void Backend::resume() {
  const Visit inside(visitors_);
  DeviceGroup& group = need_device("resume");
  refuse_in_block("resume");
  const c10::OptionalDeviceGuard here(group.device());
  throw_if(group.communicator().resume());
}

std::unordered_map<std::string, uint64_t> Backend::getMemoryStats() {
  const Visit inside(visitors_);
  DeviceGroup& group = need_device("memory_stats");
  const c10::OptionalDeviceGuard here(group.device());
  std::unordered_map<std::string, uint64_t> result;
  for (const auto& [name, statistic] : kStatistics) {
    throw_if(group.communicator().memory_statistic(statistic, &result[name]));
  }
  return result;
}

int64_t Backend::comm_ptr() {
  const Visit inside(visitors_);
  const CommHandle comm = need_device("comm_ptr").communicator().engine_handle();
  if (comm == nullptr) {
    throw_value_error("comm_ptr", "the communicator of group " + communicator_->group() + " is " +
                                      to_string(need_device("comm_ptr").communicator().state()) + ", not ready");
  }
  return static_cast<int64_t>(reinterpret_cast<intptr_t>(comm));
}

// --- Estimates -------------------------------------------------------------------------------------------------------

bool Backend::supportsTimeEstimation() const {
  const Visit inside(visitors_);
  const auto group = lanes_->device_if_made();
  if (group == nullptr) return serves_gpu();
  return group->communicator().engine().nccl.group_simulate_end != nullptr;
}

void Backend::start_time_estimate() {
  const Visit inside(visitors_);
  if (!supportsTimeEstimation())
    throw_value_error("_start_time_estimate", "only NCCL estimates times, from version 2.22 on");
  startCoalescing();
  estimating_ = true;
}

float Backend::end_time_estimate() {
  const Visit inside(visitors_);
  if (!is_in_block() || !estimating_) throw_value_error("_end_time_estimate", "no estimate has been started");
  check_end_of_block("_end_time_estimate");
  estimate_us_ = 0;
  Error failed;
  close_block(&failed);
  throw_if(failed);
  return estimate_us_;
}

void Backend::refuse_estimate(OpKind kind) {
  throw_value_error(traits(kind).name, "there are time estimates for GPU tensors only");
}

}  // namespace pycomms::c10d_backend
