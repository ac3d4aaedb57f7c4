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
    case ReduceOp::BXOR:
    case ReduceOp::PREMUL_SUM:
    case ReduceOp::UNUSED:
      break;
  }
  throw_value_error(op, "this reduction of bool tensors does not exist on a GPU; on the CPU BXOR does");
}

}  // namespace

NcclUnit to_nccl_moved(at::ScalarType type) {
  if (has_nccl_type(type)) return {to_data_type(type), 1};
  return {nccl_abi::kUint8, c10::elementSize(type)};
}

NcclUnit to_nccl_reduced(const char* op, at::ScalarType type) {
  if (has_nccl_type(type)) [[likely]]
    return {to_data_type(type), 1};
  if (type == at::kBool) return {nccl_abi::kUint8, 1};
  if (type == at::kComplexFloat) return {nccl_abi::kFloat32, 2};
  if (type == at::kComplexDouble) return {nccl_abi::kFloat64, 2};
  throw_type_error(op, std::string("NCCL cannot compute with ") + c10::toString(type) +
                           "; convert the tensor, or reduce it on the CPU");
}

RedOp to_nccl_red_op(const char* op, const ::c10d::ReduceOp& reduction, at::ScalarType type) {
  using ::c10d::ReduceOp;
  const ReduceOp::RedOpType kind = reduction.op_;
  if (type == at::kBool) return on_bool(op, kind);
  if (kind == ReduceOp::BAND || kind == ReduceOp::BOR || kind == ReduceOp::BXOR) {
    throw_value_error(op, "NCCL has no bitwise reductions; they work on CPU tensors");
  }
  if (at::isComplexType(type) && kind == ReduceOp::PRODUCT) {
    throw_type_error(op, "NCCL cannot multiply complex numbers; ReduceOp.PRODUCT of them works on CPU tensors");
  }
  return to_red_op(op, reduction, type);
}

}  // namespace pycomms::c10d_backend
