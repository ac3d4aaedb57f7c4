#include "nccl2/c10d/reduction.h"

#include <ATen/ops/scalar_tensor.h>

#include <cmath>
#include <cstring>
#include <string>

#include "nccl2/c10d/convert.h"
#include "nccl2/c10d/errors.h"
#include "nccl2/c10d/nccl_types.h"

namespace pycomms::c10d_backend {
namespace {

using PreMulSumSupplement = ::c10d::NCCLPreMulSumSupplement;  // torch 2.13 and newer keep this name beside a new one

// The factor of a premultiplied sum as one element of the tensor's type, on the CPU. The engine reads it as a double.
at::Tensor premul_factor(const char* op, const PreMulSumSupplement& given, at::ScalarType type) {
  constexpr int64_t kExact = int64_t{1} << 53;  // every integer up to here is a double
  const bool is_wide = type == at::kLong || type == at::kUInt64;
  const auto refuse_large = [&] {
    throw_value_error(op,
                      std::string("the factor of ReduceOp.PREMUL_SUM is beyond 2^53 and would be rounded on its way, "
                                  "for a tensor of ") +
                          c10::toString(type) + "; multiply the tensor before a ReduceOp.SUM instead");
  };
  const at::Tensor& factor = given.tensor_factor;
  if (!factor.defined()) {
    if (is_wide && !(std::abs(given.double_factor) <= static_cast<double>(kExact))) refuse_large();
    return at::scalar_tensor(given.double_factor, at::TensorOptions().dtype(type));
  }
  if (factor.numel() != 1) {
    throw_value_error(op,
                      "the factor of ReduceOp.PREMUL_SUM must be one number, not " + std::to_string(factor.numel()));
  }
  if (factor.is_complex()) {
    throw_value_error(op, std::string("the factor of ReduceOp.PREMUL_SUM must be a real number, not ") +
                              c10::toString(factor.scalar_type()) +
                              "; multiply the tensor before a ReduceOp.SUM instead");
  }
  const at::Tensor element = factor.to(at::kCPU, type).contiguous();
  if (is_wide) {
    const auto value = *static_cast<const int64_t*>(element.const_data_ptr());  // of uint64: negative when it is large
    const bool fits = type == at::kUInt64 ? value >= 0 && value <= kExact : value >= -kExact && value <= kExact;
    if (!fits) refuse_large();
  }
  return element;
}

at::Tensor premul_factor(const char* op, const ::c10d::ReduceOp& reduction, at::ScalarType type) {
  if (type == at::kBool) throw_type_error(op, "ReduceOp.PREMUL_SUM has no meaning for bool");
  const auto* supplement = dynamic_cast<PreMulSumSupplement*>(reduction.supplement_.get());
  if (supplement == nullptr) throw_value_error(op, "ReduceOp.PREMUL_SUM without a factor");
  return premul_factor(op, *supplement, type);
}

}  // namespace

Reduction::Reduction(const char* op, const ::c10d::ReduceOp& reduction, const Reduced& what)
    : is_premul_(reduction.op_ == ::c10d::ReduceOp::PREMUL_SUM) {
  const at::ScalarType type = what.out.scalar_type();
  const bool is_composed = what.out.is_cuda() && needs_fold(reduction.op_, type);
  op_ = what.out.is_cuda() && !is_composed ? to_nccl_red_op(op, reduction, type) : to_red_op(op, reduction, type);
  if (is_premul_) {
    const at::Tensor factor = premul_factor(op, reduction, type);
    std::memcpy(factor_.data(), factor.const_data_ptr(), factor.itemsize());
  }
  if (!is_composed) [[likely]]
    return;
  std::optional<int16_t> factor;
  if (is_premul_) std::memcpy(&factor.emplace(), factor_.data(), sizeof(int16_t));
  composed_ = std::make_shared<ComposedReduction>(reduction.op_, factor, what);
}

}  // namespace pycomms::c10d_backend
