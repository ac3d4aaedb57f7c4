// The frame around every operation of the backend: it makes the Work, decides where the operation runs, keeps its tensors
// alive, and tells the observers. Included by the files that define operations.
#pragma once

#include <ATen/record_function.h>
#include <c10/core/DeviceGuard.h>

#include "nccl2/c10d/backend.h"
#include "nccl2/c10d/convert.h"
#include "nccl2/c10d/device_streams.h"
#include "nccl2/c10d/errors.h"
#include "nccl2/c10d/reduction.h"
#include "nccl2/c10d/tensor_checks.h"
#include "nccl2/c10d/work.h"
#include "nccl2/core/launch.h"

namespace pycomms::c10d_backend {

void check_device(const char* op, at::Device device, at::ArrayRef<at::Tensor> tensors);
// What is put on `stream` from now on runs behind all that is on `other`.
Status order_behind(DeviceEvents& events, const c10::Stream& stream, const c10::Stream& other);

// A call that issues `n` operations as one group of the engine: each(i, engine, comm, stream) -> EngineResult.
template <typename Each>
auto grouped(size_t n, Each each) {
  return [n, each](const Engine& engine, CommHandle comm, StreamHandle stream) {
    EngineResult first = engine.nccl.group_start();
    for (size_t i = 0; i < n && first == nccl_abi::kSuccess; ++i) first = each(i, engine, comm, stream);
    const EngineResult ended = engine.nccl.group_end();
    return first == nccl_abi::kSuccess ? ended : first;
  };
}

inline c10::intrusive_ptr<Work> Backend::make_work(OpKind kind, TensorList outputs, at::ArrayRef<at::Tensor> inputs) {
  if (!at::hasCallbacks()) [[likely]]
    return c10::make_intrusive<Work>(rank_, kind, std::move(outputs), nullptr);
  const std::vector<at::Tensor> shown = inputs.vec();
  return c10::make_intrusive<Work>(rank_, kind, std::move(outputs), &shown);
}

// call(engine, comm, stream) -> EngineResult; it is called once, before the frame returns.
template <typename Call>
WorkPtr Backend::collective(const OpArgs& op, TensorList outputs, at::ArrayRef<at::Tensor> inputs, Call&& call) {
  const at::Tensor* const any = !outputs.empty() ? &outputs[0] : !inputs.empty() ? &inputs[0] : nullptr;
  if (any != nullptr && any->is_cuda()) {
    const at::Device device = any->device();
    return on_device(op, device, std::move(outputs), inputs, call);
  }
  if (checks_values()) [[unlikely]]
    check_values_of(op.kind, op.has_input ? inputs : at::ArrayRef<at::Tensor>());
  const int64_t timeout = timeout_ns(op.timeout) + ephemeral_.total();
  auto work = make_work(op.kind, std::move(outputs), inputs);

  const bool in_block = is_in_block();
  if (in_block && estimating_) refuse_estimate(op.kind);
  const bool runs_here = !op.is_async && !in_block && can_run_inline(*communicator_);
  const uint64_t expected = communicator_->sequence() + 1;
  const recorder::Entry entry = record(
      *communicator_, {op.kind, op.recorded, timeout, op.is_async, in_block, runs_here}, inputs, work->outputs());
  if (runs_here) {
    const bool watched = is_watched();
    const int64_t started = watched ? now_ns() : 0;
    const Error error = run_inline(*communicator_, op.kind, timeout, call);
    end_record(entry, error, communicator_->sequence() < expected);
    throw_if(error);
    work->set_ended(communicator_->sequence());
    if (watched) watch_ended(*work, op.kind, started);
    return work;
  }

  auto state = in_block ? block_ : std::make_shared<TensorOp>(op.kind);
  state->keep_all(inputs);
  state->keep_all(work->outputs());
  state->record_end_in(entry);
  work->follow(state);
  if (const Error error = enqueue(*communicator_, state, timeout, call)) {
    end_record(entry, error, communicator_->sequence() < expected);
    throw_error(error);
  }
  if (!in_block && is_watched()) watch(state);
  if (!op.is_async && !in_block) work->wait();
  return work;
}

// A synchronous operation runs on the current stream, where the caller's next kernels are ordered behind it; an asynchronous
// one on the group's own, between what is on the current stream now and whatever waits for the Work.
template <typename Call>
WorkPtr Backend::on_device(const OpArgs& op, at::Device device, TensorList outputs, at::ArrayRef<at::Tensor> inputs,
                           Call&& call) {
  check_device(traits(op.kind).name, device, outputs);
  check_device(traits(op.kind).name, device, inputs);
  const bool in_block = is_in_block();
  check_thread_of_block(traits(op.kind).name, in_block);
  if (checks_values()) [[unlikely]]
    throw_if(reports_->take());
  const auto group = device_group(device);
  DeviceCommunicator& operations = group->operations();
  const c10::OptionalDeviceGuard here(device);
  const c10::Stream current = current_stream(device);
  if (options_->register_segments || group->communicator().memory()->is_stale()) [[unlikely]]
    refresh_memory(*group, op.kind);
  const IssueOptions options{.timeout_ns = timeout_ns(op.timeout) + ephemeral_.total(), .timed = is_watched()};
  auto work = make_work(op.kind, std::move(outputs), inputs);

  // All of a block runs where its first operation does.
  const bool is_first = !in_block || device_block_ == nullptr;
  const c10::Stream stream = !is_first ? device_block_->issued_on() : op.is_async ? group->internal_stream() : current;
  const Status ordered = order_behind(operations.events(), stream, current);
  if (!ordered.is_ok()) throw_error(operations.device_error(op.kind, 0, ordered.message()));
  OpSteps steps = steps_of(op, inputs, checks_values() && operations.events().is_capturing(native(stream)));
  steps.prepare(stream);
  if (in_block && is_first) device_block_ = open_device_block(operations, stream, options);
  auto state = in_block ? device_block_ : std::make_shared<TensorOp>(op.kind);
  if (is_first) state->set_streams(stream, current);
  if (op.is_async || in_block) {
    state->keep_all(inputs);
    state->keep_all(work->outputs());
  }
  work->follow(state);
  if (checks_values()) [[unlikely]]
    report_values_of(*state);
  if (options_->blocking_wait) work->block_in_wait();
  const uint64_t expected = in_block ? state->sequence() : group->communicator().sequence() + 1;
  const recorder::Entry entry =
      record(group->communicator(),
             {op.kind, op.recorded, options.timeout_ns, op.is_async, in_block, false, expected, stream_number(stream)},
             inputs, work->outputs());
  state->record_end_in(entry);
  if (in_block) {
    if (const Error error = operations.add_to_block(*state, call)) {
      end_record(entry, error, false);
      throw_error(error);
    }
    steps.attach_to(*state);
    return work;
  }
  steps.attach_to(*state);
  if (const Error error = operations.submit(state, native(stream), options, call)) {
    end_record(entry, error, group->communicator().sequence() < expected);
    throw_error(error);
  }
  if (is_watched()) watch(state);
  return work;
}

// call(engine, comm, callback, arg, status) -> EngineResult
template <typename Call>
WorkPtr Backend::request(OpKind kind, const at::Tensor& tensor, const RecordedArgs& recorded, Call&& call) {
  const bool in_block = is_in_block();
  if (in_block && estimating_) refuse_estimate(kind);
  auto state = in_block ? block_ : std::make_shared<TensorOp>(kind);
  const bool inspects = checks_values() && is_receive(kind);
  if (checks_values()) [[unlikely]]
    check_values_of(kind, inspects ? at::ArrayRef<at::Tensor>() : at::ArrayRef<at::Tensor>(tensor));
  if (inspects && !in_block) inspect_received(kind, tensor, *state);  // it may end at once
  state->keep(tensor);
  auto work = make_work(kind, {tensor}, tensor);
  work->follow(state);
  const int64_t timeout = communicator_->timeout() + ephemeral_.total();
  const at::ArrayRef<at::Tensor> data(tensor), none;
  const recorder::Entry entry = record(*communicator_, {kind, recorded, timeout, true, in_block, false},
                                       is_receive(kind) ? none : data, is_receive(kind) ? data : none);
  state->record_end_in(entry);
  const Error error = post(*communicator_, kind, state, timeout,
                           [&](const Engine& engine, CommHandle comm, StreamCallback callback, void* arg) {
                             return call(engine, comm, callback, arg, in_block ? nullptr : &state->received);
                           });
  if (error) {
    end_record(entry, error, false);
    throw_error(error);
  }
  if (inspects && in_block) inspect_received(kind, tensor, *state);  // only of what has become a part of it
  if (!in_block && is_watched()) watch(state);
  return work;
}

}  // namespace pycomms::c10d_backend
