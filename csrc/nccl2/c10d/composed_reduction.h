// A reduction of GPU tensors that NCCL cannot compute, made of what it can do. Each rank gets its share of everybody's data,
// folds it, and, unless the share is all that it is to have, sends the result on. The data moves as bytes, as much of it as in a
// reduction of NCCL's; memory is taken for as much as the input holds. All ranks get the bits that the share's owner
// has computed.
// Of the issuing thread. Must not know: how numbers are combined (fold.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "nccl2/c10d/device_steps.h"
#include "nccl2/c10d/exchange.h"
#include "nccl2/c10d/fold.h"

namespace pycomms::c10d_backend {

// Who is to have the result.
enum class Spread {
  kEverywhere,
  kAtRoot,
  kInPieces,  // each rank its own piece
};

// What one reduction reads and writes on this rank.
struct Reduced {
  at::ArrayRef<at::Tensor> in;  // one tensor or, for kInPieces, also one for each rank
  const at::Tensor& out;
  Spread spread;
  int root;
  int rank;
  int size;
};

class ComposedReduction final : public DeviceSteps {
 public:
  // factor: of a premultiplied sum.
  ComposedReduction(::c10d::ReduceOp::RedOpType reduction, std::optional<int16_t> factor, const Reduced& what);

  bool has_move() const override { return moves_ == 1 && spread_ != Spread::kInPieces; }
  EngineResult move(const Engine& engine, CommHandle comm, StreamHandle stream) override {
    ++moves_;
    return exchange_->run(engine, comm, stream);
  }

 private:
  void before() override;
  void behind() override;
  bool goes_to(int rank) const { return spread_ == Spread::kEverywhere || rank == root_; }

  const ::c10d::ReduceOp::RedOpType reduction_;
  const std::optional<int16_t> factor_;
  const std::vector<at::Tensor> in_;
  const at::Tensor out_;
  const Spread spread_;
  const int root_, rank_, size_;

  int moves_ = 0;
  std::vector<at::Tensor> shares_;  // of this rank's data: one for each rank
  at::Tensor rows_;                 // this rank's share of everybody's data
  at::Tensor result_;
  std::optional<Exchange> exchange_;  // the next one
};

}  // namespace pycomms::c10d_backend
