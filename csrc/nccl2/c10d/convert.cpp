#include "nccl2/c10d/convert.h"

#include <array>
#include <string>

#include "nccl2/c10d/compat.h"
#include "nccl2/c10d/errors.h"

namespace pycomms::c10d_backend {
namespace {

using ::c10d::ReduceOp;

constexpr size_t kScalarTypes = static_cast<size_t>(at::ScalarType::NumOptions) + 1;

constexpr auto kDataTypes = [] {
  std::array<DataType, kScalarTypes> table{};
  table.fill(kNoType);
  const auto set = [&table](at::ScalarType from, DataType to) { table[static_cast<size_t>(from)] = to; };
  set(at::kByte, nccl_abi::kUint8);
  set(at::kChar, nccl_abi::kInt8);
  set(at::kShort, nccl_abi::kInt16);
  set(at::kInt, nccl_abi::kInt32);
  set(at::kLong, nccl_abi::kInt64);
  set(at::kUInt16, nccl_abi::kUint16);
  set(at::kUInt32, nccl_abi::kUint32);
  set(at::kUInt64, nccl_abi::kUint64);
  set(at::kHalf, nccl_abi::kFloat16);
  set(at::kBFloat16, nccl_abi::kBfloat16);
  set(at::kFloat, nccl_abi::kFloat32);
  set(at::kDouble, nccl_abi::kFloat64);
  set(at::kBool, nccl_abi::kBool);
  set(at::kComplexFloat, nccl_abi::kComplex64);
  set(at::kComplexDouble, nccl_abi::kComplex128);
  set(at::kFloat8_e4m3fn, nccl_abi::kFloat8e4m3);
  set(at::kFloat8_e5m2, nccl_abi::kFloat8e5m2);
  return table;
}();

bool is_integral(at::ScalarType type) { return at::isIntegralType(type, /*includeBool=*/true); }

RedOp bitwise(const char* op, const char* name, RedOp red_op, at::ScalarType type) {
  if (is_integral(type)) return red_op;
  throw_value_error(op, std::string("ReduceOp.") + name + " works on integers and bool, not on " + c10::toString(type));
}

RedOp ordered(const char* op, const char* name, RedOp red_op, at::ScalarType type) {
  if (!at::isComplexType(type)) return red_op;
  throw_value_error(op,
                    std::string("ReduceOp.") + name + " needs numbers that have an order, not " + c10::toString(type));
}

}  // namespace

DataType to_data_type(at::ScalarType type) {
  const auto index = static_cast<size_t>(type);
  return index < kDataTypes.size() ? kDataTypes[index] : kNoType;
}

RedOp to_red_op(const char* op, const ReduceOp& reduction, at::ScalarType type) {
  switch (reduction.op_) {
    case ReduceOp::SUM:
      return nccl_abi::kSum;
    case ReduceOp::AVG:
      if (type == at::kBool) throw_type_error(op, "ReduceOp.AVG has no meaning for bool");
      return nccl_abi::kAvg;
    case ReduceOp::PRODUCT:
      return nccl_abi::kProd;
    case ReduceOp::MIN:
      return ordered(op, "MIN", nccl_abi::kMin, type);
    case ReduceOp::MAX:
      return ordered(op, "MAX", nccl_abi::kMax, type);
    case ReduceOp::BAND:
      return bitwise(op, "BAND", nccl_abi::kBitAnd, type);
    case ReduceOp::BOR:
      return bitwise(op, "BOR", nccl_abi::kBitOr, type);
    case ReduceOp::BXOR:
      return bitwise(op, "BXOR", nccl_abi::kBitXor, type);
    case ReduceOp::PREMUL_SUM:
      return nccl_abi::kSum;
    case ReduceOp::UNUSED:
      break;
  }
  throw_value_error(op, "unknown ReduceOp");
}

::c10d::OpType to_op_type(OpKind kind) {
  using ::c10d::OpType;
  switch (kind) {
    case OpKind::kBroadcast:
      return OpType::BROADCAST;
    case OpKind::kAllReduce:
      return OpType::ALLREDUCE;
    case OpKind::kAllReduceCoalesced:
      return OpType::ALLREDUCE_COALESCED;
    case OpKind::kAllReduceSparse:
      return OpType::_ALLREDUCE_SPARSE;
    case OpKind::kReduce:
      return OpType::REDUCE;
    case OpKind::kAllGather:
      return OpType::ALLGATHER;
    case OpKind::kAllGatherSingle:
      return OpType::_ALLGATHER_BASE;
    case OpKind::kAllGatherCoalesced:
      return OpType::ALLGATHER_COALESCED;
    case OpKind::kAllGatherSingleCoalesced:
#if PYCOMMS_TORCH_AT_LEAST(2, 14)
      return OpType::ALLGATHER_INTO_TENSOR_COALESCED;
#else
      return OpType::ALLGATHER_COALESCED;
#endif
    case OpKind::kGather:
    case OpKind::kGatherSingle:
      return OpType::GATHER;
    case OpKind::kScatter:
      return OpType::SCATTER;
    case OpKind::kReduceScatter:
      return OpType::REDUCE_SCATTER;
    case OpKind::kReduceScatterSingle:
      return OpType::_REDUCE_SCATTER_BASE;
    case OpKind::kReduceScatterSingleCoalesced:
#if PYCOMMS_TORCH_AT_LEAST(2, 13)
      return OpType::REDUCE_SCATTER_TENSOR_COALESCED;
#else
      return OpType::COALESCED;
#endif
    case OpKind::kAllToAll:
      return OpType::ALLTOALL;
    case OpKind::kAllToAllSingle:
      return OpType::ALLTOALL_BASE;
    case OpKind::kBarrier:
      return OpType::BARRIER;
    case OpKind::kSend:
      return OpType::SEND;
    case OpKind::kRecv:
      return OpType::RECV;
    case OpKind::kRecvAnySource:
      return OpType::RECVANYSOURCE;
    case OpKind::kCoalesced:
      return OpType::COALESCED;
    case OpKind::kConnect:
    case OpKind::kSplit:
    case OpKind::kRegisterPool:
    case OpKind::kDeregisterPool:
    case OpKind::kShrink:
    case OpKind::kGrow:
    case OpKind::kRegroup:
    case OpKind::kWindow:
    case OpKind::kWindowClose:
    case OpKind::kAttr:
    case OpKind::kRemote:
    case OpKind::kPut:
    case OpKind::kGet:
    case OpKind::kPutV:
    case OpKind::kGetV:
    case OpKind::kAccumulate:
    case OpKind::kGetAccumulate:
    case OpKind::kFetchAdd:
    case OpKind::kSwap:
    case OpKind::kCompareSwap:
    case OpKind::kFlush:
    case OpKind::kSignal:
    case OpKind::kWaitSignal:
    case OpKind::kReadSignal:
    case OpKind::kLock:
    case OpKind::kUnlock:
    case OpKind::kSuspend:
    case OpKind::kResume:
      return OpType::UNKNOWN;
  }
  return OpType::UNKNOWN;
}

}  // namespace pycomms::c10d_backend
