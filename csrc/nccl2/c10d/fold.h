// What a reduction that NCCL cannot compute does to the numbers of all ranks: kernels of ATen on the current stream, with the
// bits that our engine for CPU tensors gives.
// Pure functions, any thread. Must not know: communicators, which rank this is.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

namespace pycomms::c10d_backend {

// True where NCCL lacks the type or the reduction, and fold() has it.
bool needs_fold(::c10d::ReduceOp::RedOpType reduction, at::ScalarType type);

// rows: [world size, n], contiguous, in the order of the ranks; they are used up. Returns n elements of their type.
at::Tensor fold(::c10d::ReduceOp::RedOpType reduction, const at::Tensor& rows);

// The elements, of 16 bits, times a factor that is one of them; wraps.
at::Tensor scaled(const at::Tensor& elements, int16_t factor);

}  // namespace pycomms::c10d_backend
