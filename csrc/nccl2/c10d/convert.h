// torch's words for types, reductions and operations, and ours.
// Pure functions, any thread. Must not know: communicators.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "nccl2/core/op.h"
#include "nccl2/driver/nccl_api.h"

namespace pycomms::c10d_backend {

// The engine's type, or kNoType for one that it can only move as bytes.
inline constexpr auto kNoType = static_cast<DataType>(-1);
DataType to_data_type(at::ScalarType type);

// Throws when the reduction makes no sense for the type. PREMUL_SUM is a sum here: see Reduction.
RedOp to_red_op(const char* op, const ::c10d::ReduceOp& reduction, at::ScalarType type);

::c10d::OpType to_op_type(OpKind kind);

}  // namespace pycomms::c10d_backend
