// How the ranks' numbers are combined in one engine call: by a reduction of the engine, by one that is made for the call
// (PREMUL_SUM), or, of GPU tensors, by what is composed of other operations. Whoever issues the call need not know which.
// Of the issuing thread. Must not know: which operation it is for.
#pragma once

#include <array>
#include <memory>

#include "nccl2/c10d/composed_reduction.h"

namespace pycomms::c10d_backend {

class Reduction {
 public:
  // In the words of the engine that serves the tensors' device. Throws when the reduction makes no sense for their type.
  Reduction(const char* op, const ::c10d::ReduceOp& reduction, const Reduced& what);

  // run(RedOp) -> EngineResult
  template <typename Run>
  EngineResult with(const Engine& engine, CommHandle comm, StreamHandle stream, DataType type, Run&& run) {
    if (composed_ != nullptr) [[unlikely]]
      return composed_->move(engine, comm, stream);
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

  // What it does before and behind the call; null when the engine does everything.
  const std::shared_ptr<ComposedReduction>& steps() const { return composed_; }

 private:
  RedOp op_ = nccl_abi::kSum;
  bool is_premul_ = false;
  alignas(16) std::array<char, 16> factor_{};  // one element of the tensors' type
  std::shared_ptr<ComposedReduction> composed_;
};

}  // namespace pycomms::c10d_backend
