#include "nccl2/c10d/nccl_types.h"

#include <string>

#include "nccl2/c10d/convert.h"
#include "nccl2/c10d/errors.h"

namespace pycomms::c10d_backend {
namespace {

// NCCL's own types are numbered from zero, hostccl's additions from far above.
bool has_nccl_type(at::ScalarType type) {
  const DataType found = to_data_type(type);
  return found != kNoType && found < nccl_abi::kInt16;
}

RedOp on_bool(const char* op, ::c10d::ReduceOp::RedOpType reduction) {
  using ::c10d::ReduceOp;
  switch (reduction) {
    case ReduceOp::SUM:
    case ReduceOp::MAX:
    case ReduceOp::BOR:
      return nccl_abi::kMax;
    case ReduceOp::PRODUCT:
    case ReduceOp::MIN:
    case ReduceOp::BAND:
      return nccl_abi::kMin;
    case ReduceOp::AVG:
      throw_type_error(op, "ReduceOp.AVG has no meaning for bool");
    case ReduceOp::PREMUL_SUM:
      throw_type_error(op, "ReduceOp.PREMUL_SUM has no meaning for bool");
    case ReduceOp::BXOR:
    case ReduceOp::UNUSED:
      break;
  }
  throw_value_error(op, "unknown ReduceOp");
}

}  // namespace

Unit to_nccl_moved(at::ScalarType type) {
  if (has_nccl_type(type)) return {to_data_type(type), 1};
  return {nccl_abi::kUint8, c10::elementSize(type)};
}

Unit to_nccl_reduced(const char* op, at::ScalarType type) {
  if (has_nccl_type(type)) [[likely]]
    return {to_data_type(type), 1};
  if (type == at::kBool) return {nccl_abi::kUint8, 1};
  if (type == at::kComplexFloat) return {nccl_abi::kFloat32, 2};
  if (type == at::kComplexDouble) return {nccl_abi::kFloat64, 2};
  if (type == at::kShort || type == at::kUInt16) return {to_data_type(type), 1};
  throw_type_error(op, std::string("cannot reduce ") + c10::toString(type));
}

RedOp to_nccl_red_op(const char* op, const ::c10d::ReduceOp& reduction, at::ScalarType type) {
  return type == at::kBool ? on_bool(op, reduction.op_) : to_red_op(op, reduction, type);
}

}  // namespace pycomms::c10d_backend
