// What the reduction kernels must compute, one element at a time and with other means than theirs: small floats are taken
// apart with ldexp and rounded with nearbyint, integers live in 64 bits. Results are exact bits, NaN included.
// Must not know: vectors, csrc/hostccl/kernels beyond its interface.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "hostccl/kernels/kernels.h"

namespace reference {

using hostccl::Reduction;
using nccl_abi::DataType;
using Bytes = std::vector<unsigned char>;

template <class T>
T get(const Bytes& bytes, size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void put(Bytes& bytes, size_t i, T value) {
  std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
}

struct SmallFormat {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;
  int bytes;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  uint32_t sign_bit() const { return 1u << (exponent_bits + mantissa_bits); }
  uint32_t infinity() const { return ((1u << exponent_bits) - 1) << mantissa_bits; }
  uint32_t nan() const { return has_infinity ? infinity() | 1u << (mantissa_bits - 1) : sign_bit() - 1; }
};

inline constexpr SmallFormat kFloat16{5, 10, true, 2};
inline constexpr SmallFormat kBfloat16{8, 7, true, 2};
inline constexpr SmallFormat kFloat8e4m3{4, 3, false, 1};
inline constexpr SmallFormat kFloat8e5m2{5, 2, true, 1};

inline float decode(const SmallFormat& f, uint32_t code) {
  const bool negative = code & f.sign_bit();
  const uint32_t magnitude = code & (f.sign_bit() - 1);
  const int exponent = static_cast<int>(magnitude >> f.mantissa_bits);
  const int mantissa = static_cast<int>(magnitude & ((1u << f.mantissa_bits) - 1));
  double value;
  if (f.has_infinity ? magnitude > f.infinity() : magnitude == f.nan()) {
    value = std::numeric_limits<double>::quiet_NaN();
  } else if (f.has_infinity && magnitude == f.infinity()) {
    value = std::numeric_limits<double>::infinity();
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, 1 - f.bias() - f.mantissa_bits);
  } else {
    value = std::ldexp(mantissa + (1 << f.mantissa_bits), exponent - f.bias() - f.mantissa_bits);
  }
  return static_cast<float>(negative ? -value : value);
}

inline uint32_t encode(const SmallFormat& f, float wide) {
  if (std::isnan(wide)) return f.nan();
  const uint32_t sign = std::signbit(wide) ? f.sign_bit() : 0;
  const uint32_t overflow = sign | (f.has_infinity ? f.infinity() : f.nan() - 1);
  if (std::isinf(wide)) return overflow;
  if (wide == 0) return sign;
  int exponent = std::ilogb(wide);
  if (exponent < 1 - f.bias()) exponent = 1 - f.bias();
  // In units of the last place; a whole number of at most mantissa_bits + 1 bits, or one more after a carry.
  const double units = std::nearbyint(std::ldexp(std::fabs(double{wide}), f.mantissa_bits - exponent));
  // The exponent's place takes the implicit leading bit, and a carry, by itself.
  const double code = std::ldexp(exponent + f.bias() - 1, f.mantissa_bits) + units;
  const uint32_t limit = f.has_infinity ? f.infinity() : f.nan();
  return code >= limit ? overflow : sign | static_cast<uint32_t>(code);
}

// Rounded to T at once: no product may be fused with an addition.
template <class T>
T product(T a, T b) {
  volatile T rounded = a * b;
  return rounded;
}

template <class T>
T canonical(T value) {
  return std::isnan(value) ? std::numeric_limits<T>::quiet_NaN() : value;
}

template <class T>
T larger(T a, T b) {
  if (a != a || b != b) return std::numeric_limits<T>::quiet_NaN();
  return a > b ? a : b;
}

template <class T>
T smaller(T a, T b) {
  if (a != a || b != b) return std::numeric_limits<T>::quiet_NaN();
  return a < b ? a : b;
}

template <class T>
T reduce_floats(Reduction reduction, const std::vector<T>& x, const double* factors) {
  const bool scaled = reduction == Reduction::kPreMulSum;
  T acc = scaled ? product(x[0], static_cast<T>(factors[0])) : x[0];
  for (size_t j = 1; j < x.size(); ++j) {
    if (reduction == Reduction::kProd) {
      acc = product(acc, x[j]);
    } else if (reduction == Reduction::kMax) {
      acc = larger(acc, x[j]);
    } else if (reduction == Reduction::kMin) {
      acc = smaller(acc, x[j]);
    } else {
      acc += scaled ? product(x[j], static_cast<T>(factors[j])) : x[j];
    }
  }
  if (reduction == Reduction::kAvg) acc /= static_cast<T>(x.size());
  return canonical(acc);
}

template <class T>
T reduce_integers(Reduction reduction, const std::vector<T>& x, const double* factors) {
  using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
  const auto scale = [&](size_t j) {
    return reduction == Reduction::kPreMulSum ? static_cast<uint64_t>(static_cast<int64_t>(factors[j])) : 1;
  };
  uint64_t acc = static_cast<uint64_t>(x[0]) * scale(0);
  for (size_t j = 1; j < x.size(); ++j) {
    const uint64_t next = static_cast<uint64_t>(x[j]);
    switch (reduction) {
      case Reduction::kSum:
      case Reduction::kAvg:
      case Reduction::kPreMulSum:
        acc += next * scale(j);
        break;
      case Reduction::kProd:
        acc *= next;
        break;
      case Reduction::kMax:
        acc = static_cast<Wide>(acc) > static_cast<Wide>(next) ? acc : next;
        break;
      case Reduction::kMin:
        acc = static_cast<Wide>(acc) < static_cast<Wide>(next) ? acc : next;
        break;
      case Reduction::kBitAnd:
        acc &= next;
        break;
      case Reduction::kBitOr:
        acc |= next;
        break;
      case Reduction::kBitXor:
        acc ^= next;
        break;
    }
  }
  const T wrapped = static_cast<T>(acc);
  if (reduction != Reduction::kAvg) return wrapped;
  return static_cast<T>(static_cast<Wide>(wrapped) / static_cast<Wide>(x.size()));
}

inline uint8_t reduce_bools(Reduction reduction, const std::vector<uint8_t>& x) {
  bool acc = x[0];
  for (size_t j = 1; j < x.size(); ++j) {
    const bool next = x[j];
    if (reduction == Reduction::kBitXor) {
      acc = acc != next;
    } else if (reduction == Reduction::kProd || reduction == Reduction::kMin || reduction == Reduction::kBitAnd) {
      acc = acc && next;
    } else {
      acc = acc || next;
    }
  }
  return acc;
}

template <class T>
std::vector<T> column(const std::vector<Bytes>& inputs, size_t i) {
  std::vector<T> x;
  for (const Bytes& input : inputs) x.push_back(get<T>(input, i));
  return x;
}

template <class T>
void complex_product(const std::vector<Bytes>& inputs, size_t i, Bytes& out) {
  T real = get<T>(inputs[0], 2 * i), imaginary = get<T>(inputs[0], 2 * i + 1);
  for (size_t j = 1; j < inputs.size(); ++j) {
    const T a = real, b = imaginary, c = get<T>(inputs[j], 2 * i), d = get<T>(inputs[j], 2 * i + 1);
    real = product(a, c) - product(b, d);
    imaginary = product(a, d) + product(b, c);
  }
  put(out, 2 * i, canonical(real));
  put(out, 2 * i + 1, canonical(imaginary));
}

inline Bytes reduce(DataType type, Reduction reduction, const std::vector<Bytes>& inputs, size_t count,
                    const double* factors) {
  Bytes out(count * hostccl::element_size(type));
  const auto integers = [&]<class T>(T) {
    for (size_t i = 0; i < count; ++i) put(out, i, reduce_integers(reduction, column<T>(inputs, i), factors));
  };
  const auto floats = [&]<class T>(T) {
    for (size_t i = 0; i < out.size() / sizeof(T); ++i) {
      put(out, i, reduce_floats(reduction, column<T>(inputs, i), factors));
    }
  };
  const auto small = [&]<class Code>(const SmallFormat& format, Code) {
    for (size_t i = 0; i < count; ++i) {
      std::vector<float> x;
      for (const Bytes& input : inputs) x.push_back(decode(format, get<Code>(input, i)));
      put(out, i, static_cast<Code>(encode(format, reduce_floats(reduction, x, factors))));
    }
  };
  const auto complex = [&]<class T>(T zero) {
    if (reduction != Reduction::kProd) return floats(zero);
    for (size_t i = 0; i < count; ++i) complex_product<T>(inputs, i, out);
  };
  switch (type) {
    case DataType::kInt8:
      integers(int8_t{});
      break;
    case DataType::kUint8:
      integers(uint8_t{});
      break;
    case DataType::kInt16:
      integers(int16_t{});
      break;
    case DataType::kUint16:
      integers(uint16_t{});
      break;
    case DataType::kInt32:
      integers(int32_t{});
      break;
    case DataType::kUint32:
      integers(uint32_t{});
      break;
    case DataType::kInt64:
      integers(int64_t{});
      break;
    case DataType::kUint64:
      integers(uint64_t{});
      break;
    case DataType::kFloat32:
      floats(float{});
      break;
    case DataType::kFloat64:
      floats(double{});
      break;
    case DataType::kFloat16:
      small(kFloat16, uint16_t{});
      break;
    case DataType::kBfloat16:
      small(kBfloat16, uint16_t{});
      break;
    case DataType::kFloat8e4m3:
      small(kFloat8e4m3, uint8_t{});
      break;
    case DataType::kFloat8e5m2:
      small(kFloat8e5m2, uint8_t{});
      break;
    case DataType::kComplex64:
      complex(float{});
      break;
    case DataType::kComplex128:
      complex(double{});
      break;
    case DataType::kBool:
      for (size_t i = 0; i < count; ++i) out[i] = reduce_bools(reduction, column<uint8_t>(inputs, i));
      break;
  }
  return out;
}

}  // namespace reference
