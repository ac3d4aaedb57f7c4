#include "group.h"

#include <algorithm>
#include <deque>
#include <set>

#include "device_runtime.h"
#include "hang.h"
#include "refusal.h"

namespace nccl_emulator {
namespace {

using Operations = std::vector<Operation>;

constexpr float kMicrosecondsPerOperation = 10;
constexpr float kBytesPerMicrosecond = 10000;

thread_local Group group;

Result issue_one(const Operation& operation) {
  if (const std::optional<OperationFault> fault = next_operation_fault()) {
    if (fault->result != nccl_abi::kSuccess) operation.handle->break_down(*fault);
    return hang(operation.stream, operation.handle->release());
  }
  return told(operation.issue(operation.handle->inner()));
}

// Everything is issued, whatever fails: that is what NCCL's callers expect of a group.
Result issue_now(const Operations& operations) {
  std::deque<pycomms::GateHolder> inside;  // until the streams have it
  Result first = nccl_abi::kSuccess;
  auto keep = [&first](Result result) {
    if (first == nccl_abi::kSuccess) first = result;
  };
  const DeviceGuard device(operations.front().handle->device());
  inner_ncclGroupStart();
  for (const Operation& operation : operations) {
    inside.emplace_back(operation.handle->gate());
    keep(inside.back() ? issue_one(operation)
                       : refuse(nccl_abi::kInvalidUsage, "the communicator was closed meanwhile"));
  }
  keep(told(inner_ncclGroupEnd()));
  return first;
}

// Two streams are one group only if they are of one device: NCCL launches for each device on its own.
Result issue_by_device(const Operations& operations) {
  Result first = nccl_abi::kSuccess;
  std::set<int> devices;
  for (const Operation& operation : operations) devices.insert(operation.handle->device());
  for (const int device : devices) {
    Operations here;
    std::copy_if(operations.begin(), operations.end(), std::back_inserter(here),
                 [&](const Operation& operation) { return operation.handle->device() == device; });
    const Result result = issue_now(here);
    if (first == nccl_abi::kSuccess) first = result;
  }
  return first;
}

Result stall(Operations operations, int64_t polls) {
  const auto handles = [&operations] {
    std::set<std::shared_ptr<Handle>> all;
    for (const Operation& operation : operations) all.insert(operation.handle);
    return all;
  }();
  const auto break_down = [handles](Result result) {
    for (const auto& handle : handles) handle->break_down({result, last_error()});
  };
  const auto begin = [operations = std::move(operations), break_down] {
    if (const Result result = issue_by_device(operations); result != nccl_abi::kSuccess) break_down(result);
  };
  const auto give_up = [break_down] {
    break_down(refuse(nccl_abi::kInternalError, "the operation was given up before it had begun"));
  };
  const auto stall = std::make_shared<Stall>(polls, begin, give_up);
  for (const auto& handle : handles) handle->stall(stall);
  return nccl_abi::kInProgress;
}

Result begin(Operations operations) {
  const auto is_blocking = [](const Operation& operation) { return operation.handle->is_blocking(); };
  const bool all_block = std::all_of(operations.begin(), operations.end(), is_blocking);
  if (!all_block && std::any_of(operations.begin(), operations.end(), is_blocking)) {
    return refuse(nccl_abi::kInvalidArgument, "a group may not mix blocking and nonblocking communicators");
  }
  const std::optional<int64_t> polls = next_stall(Point::kOperation);
  if (!polls.has_value() || (all_block && *polls >= 0)) return issue_by_device(operations);
  if (!all_block) return stall(std::move(operations), *polls);
  return block_for_ever(operations.front().handle->release());
}

}  // namespace

Group* open_group() { return group.depth != 0 ? &group : nullptr; }

void start_group() { ++group.depth; }

Result end_group() {
  if (group.depth == 0) return refuse(nccl_abi::kInvalidUsage, "ncclGroupEnd: no group was started");
  if (--group.depth != 0) return nccl_abi::kSuccess;
  const Group ended = std::exchange(group, {});
  Result first = nccl_abi::kSuccess;
  auto keep = [&first](Result result) {
    if (first == nccl_abi::kSuccess || first == nccl_abi::kInProgress) {
      if (result != nccl_abi::kSuccess) first = result;
    }
  };
  if (!ended.makings.empty()) keep(make_all(ended.makings));
  if (!ended.operations.empty()) keep(begin(ended.operations));
  for (const auto& ending : ended.endings) keep(ending());
  return first;
}

Result simulate_group(float* microseconds) {
  if (group.depth != 1) return refuse(nccl_abi::kInvalidUsage, "ncclGroupSimulateEnd: not the end of a group");
  const Group ended = std::exchange(group, {});
  if (!ended.makings.empty()) {
    return refuse(nccl_abi::kInvalidUsage, "ncclGroupSimulateEnd: communicators cannot be made in a simulation");
  }
  *microseconds = 0;
  for (const Operation& operation : ended.operations) {
    *microseconds += kMicrosecondsPerOperation + static_cast<float>(operation.bytes) / kBytesPerMicrosecond;
  }
  Result first = nccl_abi::kSuccess;
  for (const auto& ending : ended.endings) {
    if (const Result result = ending(); first == nccl_abi::kSuccess) first = result;
  }
  return first;
}

size_t bytes_of(size_t count, DataType type) {
  switch (type) {
    case nccl_abi::kFloat16:
    case nccl_abi::kBfloat16:
      return 2 * count;
    case nccl_abi::kInt32:
    case nccl_abi::kUint32:
    case nccl_abi::kFloat32:
      return 4 * count;
    case nccl_abi::kInt64:
    case nccl_abi::kUint64:
    case nccl_abi::kFloat64:
      return 8 * count;
    default:
      return count;
  }
}

Result issue(const char* function, Comm comm, StreamHandle stream, size_t bytes,
             std::function<Result(InnerComm)> operation) {
  NCCL_FIND(handle, comm);
  RETURN_IF_REFUSED(handle->check_ready(function));
  Operation bound{handle, stream, bytes, std::move(operation)};
  if (group.depth != 0) {
    group.operations.push_back(std::move(bound));
    return nccl_abi::kSuccess;
  }
  Operations one;
  one.push_back(std::move(bound));
  return begin(std::move(one));
}

Result at_the_end(std::function<Result()> ending) {
  if (group.depth == 0) return ending();
  group.endings.push_back(std::move(ending));
  return nccl_abi::kSuccess;
}

}  // namespace nccl_emulator
