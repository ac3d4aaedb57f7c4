#include "nccl2/c10d/fold.h"

#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/view_as_real.h>

#include <limits>

namespace pycomms::c10d_backend {
namespace {

using FoldOp = ::c10d::ReduceOp::RedOpType;

bool is_short(at::ScalarType type) { return type == at::kShort || type == at::kUInt16; }

// Bits have no sign: ATen computes with the signed types everywhere.
at::ScalarType integer_of_size(size_t bytes) {
  switch (bytes) {
    case 1:
      return at::kByte;
    case 2:
      return at::kShort;
    case 4:
      return at::kInt;
    default:
      return at::kLong;
  }
}

// For reductions whose result does not depend on the order: half as many rows with each kernel.
template <typename Combine>
at::Tensor fold_in_halves(const at::Tensor& rows, Combine combine) {
  for (int64_t left = rows.size(0); left > 1;) {
    const int64_t kept = (left + 1) / 2;
    const at::Tensor into = rows.narrow(0, 0, left - kept);
    combine(into, rows.narrow(0, kept, left - kept));
    left = kept;
  }
  return rows.select(0, 0);
}

// Smallest and largest of unsigned numbers are those of signed ones once the highest bit is turned over.
template <typename Choose>
at::Tensor fold_ordered(const at::Tensor& rows, bool is_unsigned, Choose choose) {
  const int64_t highest = std::numeric_limits<int16_t>::min();
  if (is_unsigned) rows.bitwise_xor_(highest);
  at::Tensor result = fold_in_halves(rows, choose);
  return is_unsigned ? result.bitwise_xor_(highest) : result;
}

at::Tensor average(const at::Tensor& sum, bool is_unsigned, int64_t count) {
  at::Tensor wide = sum.to(at::kInt);
  if (is_unsigned) wide.bitwise_and_(0xffff);
  return wide.div_(count, "trunc").to(at::kShort);
}

at::Tensor fold_integers(FoldOp reduction, const at::Tensor& rows, bool is_unsigned) {
  const auto add = [](const at::Tensor& a, const at::Tensor& b) { a.add_(b); };
  switch (reduction) {
    case FoldOp::SUM:
    case FoldOp::PREMUL_SUM:  // the numbers have been multiplied
      return fold_in_halves(rows, add);
    case FoldOp::AVG:
      return average(fold_in_halves(rows, add), is_unsigned, rows.size(0));
    case FoldOp::PRODUCT:
      return fold_in_halves(rows, [](const at::Tensor& a, const at::Tensor& b) { a.mul_(b); });
    case FoldOp::MIN:
      return fold_ordered(rows, is_unsigned, [](at::Tensor a, const at::Tensor& b) { at::minimum_out(a, a, b); });
    case FoldOp::MAX:
      return fold_ordered(rows, is_unsigned, [](at::Tensor a, const at::Tensor& b) { at::maximum_out(a, a, b); });
    case FoldOp::BAND:
      return fold_in_halves(rows, [](const at::Tensor& a, const at::Tensor& b) { a.bitwise_and_(b); });
    case FoldOp::BOR:
      return fold_in_halves(rows, [](const at::Tensor& a, const at::Tensor& b) { a.bitwise_or_(b); });
    case FoldOp::BXOR:
      return fold_in_halves(rows, [](const at::Tensor& a, const at::Tensor& b) { a.bitwise_xor_(b); });
    case FoldOp::UNUSED:
      break;
  }
  TORCH_INTERNAL_ASSERT(false, "not a reduction of integers");
}

// In the order of the ranks, for rounding depends on it; and each step a kernel of its own, for a compiler may contract a
// product and a sum in one kernel to something that rounds once.
at::Tensor fold_product(const at::Tensor& rows) {
  const at::Tensor product = at::view_as_real(rows.select(0, 0));
  const at::Tensor real = product.select(-1, 0), imaginary = product.select(-1, 1);
  for (int64_t rank = 1; rank < rows.size(0); ++rank) {
    const at::Tensor factor = at::view_as_real(rows.select(0, rank));
    const at::Tensor by_real = factor.select(-1, 0), by_imaginary = factor.select(-1, 1);
    const at::Tensor next_real = real.mul(by_real).sub_(imaginary.mul(by_imaginary));
    imaginary.mul_(by_real).add_(real.mul(by_imaginary));
    real.copy_(next_real);
  }
  product.masked_fill_(product.ne(product),
                       std::numeric_limits<double>::quiet_NaN());  // one NaN for all that there are
  return rows.select(0, 0);
}

}  // namespace

bool needs_fold(FoldOp reduction, at::ScalarType type) {
  if (is_short(type)) return true;
  if (at::isComplexType(type)) return reduction == FoldOp::PRODUCT;
  if (type == at::kBool) return reduction == FoldOp::BXOR;
  const bool is_bitwise = reduction == FoldOp::BAND || reduction == FoldOp::BOR || reduction == FoldOp::BXOR;
  return is_bitwise && at::isIntegralType(type, /*includeBool=*/false);
}

at::Tensor fold(FoldOp reduction, const at::Tensor& rows) {
  const at::ScalarType type = rows.scalar_type();
  if (at::isComplexType(type)) return fold_product(rows);
  if (type == at::kBool)
    return fold_integers(reduction, rows.view(at::kByte).ne(0), false);  // other bytes are true, too
  const at::Tensor integers = rows.view(integer_of_size(rows.element_size()));
  return fold_integers(reduction, integers, type == at::kUInt16).view(type);
}

at::Tensor scaled(const at::Tensor& elements, int16_t factor) {
  return elements.view(at::kShort).mul(factor).view(elements.scalar_type());
}

}  // namespace pycomms::c10d_backend
