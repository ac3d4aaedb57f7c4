// torch's types and reductions in NCCL's words, which are fewer than hostccl's: bool travels as bytes that are 0 or 1, complex
// numbers as pairs, and what is only moved as bytes. Pure functions, any thread.
#pragma once

#include <c10/core/ScalarType.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "nccl2/driver/nccl_api.h"

namespace pycomms::c10d_backend {

// What the engine takes the elements of a tensor for.
struct Unit {
  DataType type;
  size_t per_element;  // of `type` in one element of the tensor
};

Unit to_nccl_moved(at::ScalarType type);
// Of 16-bit integers, which NCCL lacks, our engine's name: such reductions are composed (composed_reduction.h). Throws
// TypeError where there is nothing that could compute with the type.
Unit to_nccl_reduced(const char* op, at::ScalarType type);
// For what needs no composing. Throws where the reduction makes no sense for the type.
RedOp to_nccl_red_op(const char* op, const ::c10d::ReduceOp& reduction, at::ScalarType type);

}  // namespace pycomms::c10d_backend
