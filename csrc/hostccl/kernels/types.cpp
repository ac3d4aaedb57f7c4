// Facts about data types and reductions. Any thread. Must not know: how anything is computed.
#include "kernels.h"

namespace hostccl {

using nccl_abi::DataType;

size_t element_size(DataType type) {
  switch (type) {
    case DataType::kInt8:
    case DataType::kUint8:
    case DataType::kFloat8e4m3:
    case DataType::kFloat8e5m2:
    case DataType::kBool:
      return 1;
    case DataType::kInt16:
    case DataType::kUint16:
    case DataType::kFloat16:
    case DataType::kBfloat16:
      return 2;
    case DataType::kInt32:
    case DataType::kUint32:
    case DataType::kFloat32:
      return 4;
    case DataType::kInt64:
    case DataType::kUint64:
    case DataType::kFloat64:
    case DataType::kComplex64:
      return 8;
    case DataType::kComplex128:
      return 16;
  }
  return 0;
}

const char* type_name(DataType type) {
  switch (type) {
    case DataType::kInt8:
      return "int8";
    case DataType::kUint8:
      return "uint8";
    case DataType::kInt16:
      return "int16";
    case DataType::kUint16:
      return "uint16";
    case DataType::kInt32:
      return "int32";
    case DataType::kUint32:
      return "uint32";
    case DataType::kInt64:
      return "int64";
    case DataType::kUint64:
      return "uint64";
    case DataType::kFloat8e4m3:
      return "float8_e4m3fn";
    case DataType::kFloat8e5m2:
      return "float8_e5m2";
    case DataType::kFloat16:
      return "float16";
    case DataType::kBfloat16:
      return "bfloat16";
    case DataType::kFloat32:
      return "float32";
    case DataType::kFloat64:
      return "float64";
    case DataType::kComplex64:
      return "complex64";
    case DataType::kComplex128:
      return "complex128";
    case DataType::kBool:
      return "bool";
  }
  return "unknown";
}

const char* reduction_name(Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum:
      return "sum";
    case Reduction::kProd:
      return "prod";
    case Reduction::kMax:
      return "max";
    case Reduction::kMin:
      return "min";
    case Reduction::kAvg:
      return "avg";
    case Reduction::kBitAnd:
      return "band";
    case Reduction::kBitOr:
      return "bor";
    case Reduction::kBitXor:
      return "bxor";
    case Reduction::kPreMulSum:
      return "premul_sum";
  }
  return "unknown";
}

namespace {

enum class Family { kNone, kInteger, kFloating, kComplex, kBool };

Family family(DataType type) {
  switch (type) {
    case DataType::kInt8:
    case DataType::kUint8:
    case DataType::kInt16:
    case DataType::kUint16:
    case DataType::kInt32:
    case DataType::kUint32:
    case DataType::kInt64:
    case DataType::kUint64:
      return Family::kInteger;
    case DataType::kFloat8e4m3:
    case DataType::kFloat8e5m2:
    case DataType::kFloat16:
    case DataType::kBfloat16:
    case DataType::kFloat32:
    case DataType::kFloat64:
      return Family::kFloating;
    case DataType::kComplex64:
    case DataType::kComplex128:
      return Family::kComplex;
    case DataType::kBool:
      return Family::kBool;
  }
  return Family::kNone;
}

}  // namespace

bool supports(DataType type, Reduction reduction) {
  const Family kind = family(type);
  if (kind == Family::kNone) return false;
  switch (reduction) {
    case Reduction::kSum:
    case Reduction::kProd:
      return true;
    case Reduction::kMax:
    case Reduction::kMin:
      return kind != Family::kComplex;
    case Reduction::kAvg:
    case Reduction::kPreMulSum:
      return kind != Family::kBool;
    case Reduction::kBitAnd:
    case Reduction::kBitOr:
    case Reduction::kBitXor:
      return kind == Family::kInteger || kind == Family::kBool;
  }
  return false;
}

}  // namespace hostccl
