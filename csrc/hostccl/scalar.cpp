#include "hostccl/scalar.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace hostccl {
namespace {

template <typename T>
T load(const void* scalar) {
  T value;
  std::memcpy(&value, scalar, sizeof(value));
  return value;
}

// sign, exponent, mantissa from the top; all exponent bits set: infinity or NaN, but for float8_e4m3fn.
double decode(uint32_t bits, int exponent_bits, int mantissa_bits, bool has_infinity) {
  const auto mantissa = static_cast<int>(bits & ((1u << mantissa_bits) - 1));
  const auto exponent = static_cast<int>((bits >> mantissa_bits) & ((1u << exponent_bits) - 1));
  const double sign = (bits >> (mantissa_bits + exponent_bits)) & 1 ? -1 : 1;
  const int top = (1 << exponent_bits) - 1;
  const int bias = top >> 1;
  if (exponent == top && (has_infinity || mantissa == (1 << mantissa_bits) - 1)) {
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  }
  const int whole = exponent == 0 ? mantissa : mantissa + (1 << mantissa_bits);
  return sign * std::ldexp(whole, (exponent == 0 ? 1 : exponent) - bias - mantissa_bits);
}

}  // namespace

double read_scalar(const void* scalar, nccl_abi::DataType type) {
  switch (type) {
    case nccl_abi::kInt8:
      return load<int8_t>(scalar);
    case nccl_abi::kUint8:
    case nccl_abi::kBool:
      return load<uint8_t>(scalar);
    case nccl_abi::kInt16:
      return load<int16_t>(scalar);
    case nccl_abi::kUint16:
      return load<uint16_t>(scalar);
    case nccl_abi::kInt32:
      return load<int32_t>(scalar);
    case nccl_abi::kUint32:
      return load<uint32_t>(scalar);
    case nccl_abi::kInt64:
      return static_cast<double>(load<int64_t>(scalar));
    case nccl_abi::kUint64:
      return static_cast<double>(load<uint64_t>(scalar));
    case nccl_abi::kFloat32:
    case nccl_abi::kComplex64:
      return load<float>(scalar);
    case nccl_abi::kFloat64:
    case nccl_abi::kComplex128:
      return load<double>(scalar);
    case nccl_abi::kFloat16:
      return decode(load<uint16_t>(scalar), 5, 10, true);
    case nccl_abi::kBfloat16:
      return decode(load<uint16_t>(scalar), 8, 7, true);
    case nccl_abi::kFloat8e4m3:
      return decode(load<uint8_t>(scalar), 4, 3, false);
    case nccl_abi::kFloat8e5m2:
      return decode(load<uint8_t>(scalar), 5, 2, true);
  }
  return 0;
}

bool is_exact_scalar(const void* scalar, nccl_abi::DataType type) {
  constexpr int64_t kExact = int64_t{1} << 53;
  const auto* const bytes = static_cast<const char*>(scalar);
  switch (type) {
    case nccl_abi::kInt64:
      return load<int64_t>(scalar) >= -kExact && load<int64_t>(scalar) <= kExact;
    case nccl_abi::kUint64:
      return load<uint64_t>(scalar) <= uint64_t{kExact};
    case nccl_abi::kComplex64:
      return load<float>(bytes + sizeof(float)) == 0;
    case nccl_abi::kComplex128:
      return load<double>(bytes + sizeof(double)) == 0;
    case nccl_abi::kInt8:
    case nccl_abi::kUint8:
    case nccl_abi::kBool:
    case nccl_abi::kInt16:
    case nccl_abi::kUint16:
    case nccl_abi::kInt32:
    case nccl_abi::kUint32:
    case nccl_abi::kFloat16:
    case nccl_abi::kBfloat16:
    case nccl_abi::kFloat32:
    case nccl_abi::kFloat64:
    case nccl_abi::kFloat8e4m3:
    case nccl_abi::kFloat8e5m2:
      return true;
  }
  return false;
}

}  // namespace hostccl
