// torch's words for types, reductions and operations, and ours.
// Pure functions, any thread. Must not know: communicators.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <array>

#include "nccl2/core/op.h"
#include "nccl2/driver/nccl_api.h"

namespace pycomms::c10d_backend {

// The engine's type, or kNoType for one that it can only move as bytes.
inline constexpr auto kNoType = static_cast<DataType>(-1);
DataType to_data_type(at::ScalarType type);

// Throws when the reduction makes no sense for the type. PREMUL_SUM needs a communicator: see PremulSum.
RedOp to_red_op(const char* op, const ::c10d::ReduceOp& reduction, at::ScalarType type);

::c10d::OpType to_op_type(OpKind kind);

// The reduction of one engine call; makes and frees the engine's object for PREMUL_SUM.
class Reduction {
 public:
  // In the words of the engine that serves the tensor's device.
  Reduction(const char* op, const ::c10d::ReduceOp& reduction, const at::Tensor& tensor);

  // run(RedOp) -> EngineResult
  template <typename Run>
  EngineResult with(const Engine& engine, CommHandle comm, DataType type, Run&& run) {
    if (!is_premul_) [[likely]]
      return run(op_);
    RedOp op{};
    EngineResult result =
        engine.nccl.red_op_create_pre_mul_sum(&op, factor_.data(), type, nccl_abi::kScalarHostImmediate, comm);
    if (result != nccl_abi::kSuccess) return result;
    result = run(op);
    static_cast<void>(engine.nccl.red_op_destroy(op, comm));
    return result;
  }

 private:
  RedOp op_ = nccl_abi::kSum;
  bool is_premul_ = false;
  alignas(16) std::array<char, 16> factor_{};  // one element of the tensor's type
};

}  // namespace pycomms::c10d_backend
