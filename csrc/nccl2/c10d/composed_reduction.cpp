#include "nccl2/c10d/composed_reduction.h"

#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty.h>

#include <algorithm>

namespace pycomms::c10d_backend {
namespace {

// The elements in the order in which they lie in memory: they follow each other without gaps.
at::Tensor flat(const at::Tensor& tensor) { return at::as_strided(tensor, {tensor.numel()}, {1}); }

// One share for each rank; the last ones may be shorter, or empty.
std::vector<at::Tensor> cut(const at::Tensor& elements, int size) {
  const int64_t count = elements.numel();
  const int64_t each = (count + size - 1) / size;
  std::vector<at::Tensor> shares;
  for (int64_t rank = 0; rank < size; ++rank) {
    const int64_t from = std::min(count, rank * each);
    shares.push_back(elements.narrow(0, from, std::min(each, count - from)));
  }
  return shares;
}

}  // namespace

ComposedReduction::ComposedReduction(::c10d::ReduceOp::RedOpType reduction, std::optional<int16_t> factor,
                                     const Reduced& what)
    : reduction_(reduction),
      factor_(factor),
      in_(what.in.vec()),
      out_(what.out),
      spread_(what.spread),
      root_(what.root),
      rank_(what.rank),
      size_(what.size) {}

void ComposedReduction::before() {
  if (in_.size() == 1) {
    shares_ = cut(flat(in_[0]), size_);
  } else {
    for (const at::Tensor& piece : in_) shares_.push_back(flat(piece));
  }
  if (factor_.has_value()) {
    for (at::Tensor& share : shares_) share = scaled(share, *factor_);
  }
  rows_ = at::empty({size_, shares_[rank_].numel()}, in_[0].options());
  exchange_.emplace(size_);
  for (int rank = 0; rank < size_; ++rank) {
    exchange_->send(rank, shares_[rank]);
    exchange_->receive(rank, rows_.select(0, rank));
  }
}

void ComposedReduction::behind() {
  if (moves_ != 1) return;
  result_ = fold(reduction_, rows_);
  const at::Tensor out = flat(out_);
  if (spread_ == Spread::kInPieces) {
    out.copy_(result_);
    return;
  }
  exchange_.emplace(size_);
  const std::vector<at::Tensor> parts = cut(out, size_);
  for (int rank = 0; rank < size_; ++rank) {
    if (goes_to(rank)) exchange_->send(rank, result_);
    if (goes_to(rank_)) exchange_->receive(rank, parts[rank]);
  }
}

}  // namespace pycomms::c10d_backend
