// One call of an ATen op that came in for CUDA: its arguments, its device, and the ways of running its CPU kernel.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <vector>

#include "aten/queue.h"

namespace cuemu_aten {

class Call {
 public:
  // Takes the arguments off the stack. Throws when devices are mixed: with the kernel we replace torch's check of that.
  Call(const c10::OperatorHandle& op, torch::jit::Stack& stack);

  // Each of these either does not apply, and has done nothing, or does the call and leaves its results on the stack.
  // In-place: the shapes are known, the kernel is queued.
  bool queue_in_place(torch::jit::Stack& stack) const;
  // Out variants: shapes from the meta kernel, the outputs are resized, the kernel is queued.
  bool queue_out(torch::jit::Stack& stack) const;
  // Functional: shapes from the meta kernel, the results are allocated, the kernel is queued.
  bool queue_functional(torch::jit::Stack& stack) const;
  // What remains: the stream is drained and the kernel runs at once. Impossible under capture.
  void run_now(torch::jit::Stack& stack) const;

  c10::Device device() const { return device_; }

 private:
  using Stack = torch::jit::Stack;

  static c10::Device find_device(const c10::FunctionSchema& schema, const Stack& inputs);
  bool is_written(size_t argument) const;
  // The argument that a result is an alias of; -1: none.
  int source_of_result(size_t result) const;
  bool returns_only_new_tensors() const;
  // Runs the meta kernel. Empty when there is none or it refuses, for example because the shape depends on the data.
  std::optional<Stack> run_meta(Stack inputs) const;
  Stack meta_inputs() const;
  // The arguments for the CPU kernel when it runs later: nothing in them may change on the host meanwhile.
  Stack queued_inputs() const;
  void substitute_generator(Stack& inputs) const;
  void push_aliases(Stack& stack) const;
  std::string name() const { return schema_.name(); }

  const c10::OperatorHandle op_;
  const c10::FunctionSchema& schema_;
  const Stack inputs_;
  const c10::Device device_;
  const Queue queue_;
};

}  // namespace cuemu_aten
