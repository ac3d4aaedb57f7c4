// The steps of ATen that one call on GPU tensors brings along: what its composed reductions need, and the check of its values.
// Almost always there are none. Of the issuing thread. Must not know: communicators.
#pragma once

#include <utility>
#include <vector>

#include "nccl2/c10d/tensor_op.h"
#include "nccl2/c10d/value_check.h"

namespace pycomms::c10d_backend {

class OpSteps {
 public:
  void add(std::shared_ptr<DeviceSteps> steps) { all_.push_back(std::move(steps)); }
  void add_check(std::shared_ptr<DeviceValueCheck> check) {
    all_.push_back(check);
    check_ = std::move(check);
  }

  // Before the call is issued.
  void prepare(const c10::Stream& stream) {
    for (const auto& steps : all_) steps->prepare(stream);
  }
  // To the operation, before it is closed; to a block only what has become a part of it.
  void attach_to(TensorOp& op) {
    for (auto& steps : all_) op.follow_with(std::move(steps));
    if (check_ == nullptr) [[likely]]
      return;
    op.inspect_with([check = std::move(check_)](uint64_t sequence) { return check->verdict(sequence); });
  }

 private:
  std::vector<std::shared_ptr<DeviceSteps>> all_;
  std::shared_ptr<DeviceValueCheck> check_;
};

}  // namespace pycomms::c10d_backend
