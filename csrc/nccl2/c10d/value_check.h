// Looks for NaN, and if asked for infinities, in what operations send and in what receives bring. On the CPU the answer is
// there at once. On a GPU it is written by kernels on the operation's stream, and known when the operation has passed.
// Integers hold neither and cost nothing. Must not know: communicators, Work.
#pragma once

#include <ATen/core/Tensor.h>

#include <mutex>
#include <string>
#include <vector>

#include "nccl2/c10d/device_steps.h"
#include "nccl2/c10d/options.h"
#include "nccl2/core/error.h"
#include "nccl2/core/op.h"

namespace pycomms::c10d_backend {

// Of what an error speaks.
struct CheckedOp {
  NanCheck check;
  OpKind kind;
  int rank;
  std::string group;
};

// An error when one of the tensors, which are on the CPU, holds what is looked for. consequence: what became of the operation.
Error check_values(const CheckedOp& op, uint64_t sequence, at::ArrayRef<at::Tensor> tensors, const char* consequence);

class DeviceValueCheck final : public DeviceSteps {
 public:
  // A receive is looked at when it has come, everything else before it is sent.
  DeviceValueCheck(CheckedOp op, at::ArrayRef<at::Tensor> tensors) : op_(std::move(op)), tensors_(tensors.vec()) {}

  // Once the operation has passed. Any thread.
  Error verdict(uint64_t sequence) const;

 private:
  void before() override {
    if (!is_receive(op_.kind)) look();
  }
  void behind() override {
    if (is_receive(op_.kind)) look();
  }
  void look();

  const CheckedOp op_;
  std::vector<at::Tensor> tensors_;  // until they are looked at
  std::vector<std::string> names_;   // of those that can hold any
  at::Tensor found_;                 // for each of these, in pinned memory of the host
};

// What was found on a GPU, until somebody is told: the operation itself may have nobody who waits for it. Any thread.
class ValueReports {
 public:
  void add(const Error& error);
  // What nobody has been told yet.
  Error take();
  // Somebody has been told.
  void told(const Error& error);

 private:
  std::mutex mutex_;
  Error first_;  // guarded by mutex_
};

}  // namespace pycomms::c10d_backend
