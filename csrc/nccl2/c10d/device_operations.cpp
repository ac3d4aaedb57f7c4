// Backend's operations on GPU tensors, as far as they are not like those on CPU tensors: blocks, barrier, and the group's GPU.
#include <ATen/ops/zeros.h>

#include "nccl2/c10d/frame.h"

namespace pycomms::c10d_backend {

namespace {

// The group whose block has an engine's group open on this thread: the engine would take whatever is issued meanwhile for
// a part of it. The flag spares the usual case the look.
constinit thread_local bool block_is_open_here = false;

c10::weak_intrusive_ptr<Backend>& owner_of_block_here() {
  thread_local c10::weak_intrusive_ptr<Backend> owner{c10::intrusive_ptr<Backend>()};
  return owner;
}

}  // namespace

void check_device(const char* op, at::Device device, at::ArrayRef<at::Tensor> tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (tensor.device() == device) [[likely]]
      continue;
    throw_value_error(op,
                      "all tensors must be on the same device, got " + device.str() + " and " + tensor.device().str());
  }
}

Status order_behind(DeviceEvents& events, const c10::Stream& stream, const c10::Stream& other) {
  if (stream == other) return {};
  const bool captured = events.is_capturing(native(other));
  Result<EventHandle> mark = events.record(native(other), false);
  if (!mark.is_ok()) return mark.status();
  Status ordered = events.wait(native(stream), mark.value());
  events.release(mark.value(), false, captured);
  return ordered;
}

bool Backend::serves_gpu() const {
  return lanes_->device_if_made() != nullptr ||
         (c10::impl::hasDeviceGuardImpl(at::kCUDA) && c10::impl::VirtualGuardImpl(at::kCUDA).deviceCount() > 0);
}

std::shared_ptr<DeviceGroup> Backend::device_group(at::Device device) {
  return lanes_->device(device, options_->is_high_priority_stream);
}

std::shared_ptr<TensorOp> Backend::open_device_block(DeviceCommunicator& operations, const c10::Stream& stream,
                                                     const IssueOptions& options) {
  if (estimating_ && operations.communicator()->engine().nccl.group_simulate_end == nullptr)
    throw_value_error("_start_time_estimate", "this NCCL cannot estimate times; 2.22 and newer can");
  auto block = std::make_shared<TensorOp>(OpKind::kCoalesced);
  block->set_open(true);
  throw_if(operations.open_block(block, native(stream), options));
  owner_of_block_here() =
      c10::weak_intrusive_ptr<Backend>(c10::intrusive_ptr<Backend>::unsafe_reclaim_from_nonowning(this));
  block_is_open_here = true;
  return block;
}

// Before an operation is issued: closes a block of another group that an exception has left open.
void Backend::check_thread_of_block(const char* op, bool in_block) {
  if (in_block && block_thread_.load(std::memory_order_relaxed) != std::this_thread::get_id())
    throw_value_error(op, "a coalesced block of this group is open in another thread");
  if (!block_is_open_here || device_block_ != nullptr) [[likely]]
    return;
  const auto owner = owner_of_block_here().lock();
  if (owner == nullptr || !owner->is_in_block()) return;
  throw_value_error(op, "a coalesced block of group " + owner->communicator_->group() +
                            " is open on this thread, and NCCL would make this a part of it; end the block first");
}

std::shared_ptr<TensorOp> Backend::close_device_block(Error* failed) {
  auto block = std::exchange(device_block_, nullptr);
  if (block == nullptr) return nullptr;
  block->set_open(false);
  block_is_open_here = false;
  DeviceCommunicator& operations = lanes_->device_if_made()->operations();
  *failed = estimating_ ? operations.estimate_block(block, &estimate_us_) : operations.close_block(block);
  return block;
}

// Blocks the host until all ranks have come and what is on this rank's current stream has passed.
WorkPtr Backend::device_barrier(at::Device device, const ::c10d::BarrierOptions& opts) {
  const c10::OptionalDeviceGuard here(device);
  at::Tensor token = at::zeros({1}, at::TensorOptions().device(device).dtype(at::kByte));
  auto work = on_device({OpKind::kBarrier, opts.asyncOp, opts.timeout}, device, {token}, token,
                        [&](const Engine& engine, CommHandle comm, StreamHandle stream) {
                          return engine.nccl.all_reduce(token.data_ptr(), token.data_ptr(), 1, nccl_abi::kUint8,
                                                        nccl_abi::kSum, comm, stream);
                        });
  static_cast<Work&>(*work).block_in_wait();
  return work;
}

}  // namespace pycomms::c10d_backend
