// What an operation of Backend brings along beside its engine call: the check of its values, and steps on a GPU.
#include "nccl2/c10d/frame.h"

namespace pycomms::c10d_backend {

CheckedOp Backend::checked(OpKind kind) const { return {*options_->nan_check, kind, rank_, communicator_->group()}; }

void Backend::check_values_of(OpKind kind, at::ArrayRef<at::Tensor> inputs) const {
  throw_if(reports_->take());
  throw_if(check_values(checked(kind), communicator_->sequence() + 1, inputs,
                        ". Nothing was sent, and the operation is not counted"));
}

void Backend::report_values_of(TensorOp& state) {
  state.report_to(reports_);
  if (block_ != nullptr)
    block_->report_to(reports_);  // its Work is the one to wait for if tensors of the CPU are in it, too
}

void Backend::inspect_received(OpKind kind, const at::Tensor& tensor, TensorOp& state) const {
  state.inspect_with(
      [op = checked(kind), tensor](uint64_t sequence) { return check_values(op, sequence, tensor, ""); });
}

// Under capture nobody would ever look at the answer of a check.
OpSteps Backend::steps_of(const OpArgs& op, at::ArrayRef<at::Tensor> inputs, bool captured) const {
  OpSteps steps;
  for (const Reduction& reduction : op.reductions) {
    if (reduction.steps() != nullptr) [[unlikely]]
      steps.add(reduction.steps());
  }
  if (checks_values() && !captured && op.has_input) [[unlikely]]
    steps.add_check(std::make_shared<DeviceValueCheck>(checked(op.kind), inputs));
  return steps;
}

}  // namespace pycomms::c10d_backend
