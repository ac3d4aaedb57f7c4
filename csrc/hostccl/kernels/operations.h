// What a reduction does to vectors of accumulators: combine() two of them, prepare() an input, finish() a result.
// Every NaN that leaves finish() is the same one: which operand's payload an addition keeps is the compiler's choice, and
// the bits of a result must not depend on it.
// Included as vector.h says. Must not know: memory, element types.
#pragma once

#include <utility>

#include "kernels.h"
#include "vector.h"

namespace hostccl {
namespace {

template <class T>
PYCOMMS_ALWAYS_INLINE T quiet_nan() {
  if constexpr (sizeof(T) == 4) return __builtin_bit_cast(T, uint32_t{0x7fc00000u});
  if constexpr (sizeof(T) == 8) return __builtin_bit_cast(T, uint64_t{0x7ff8000000000000u});
}

// Arithmetic that wraps.
template <class T>
struct Wrapping {
  using type = T;
};
template <class T>
  requires std::is_integral_v<T>
struct Wrapping<T> {
  using type = std::make_unsigned_t<T>;
};

// What one call of reduce() needs beside its inputs, made once before the loop.
template <class T>
struct Constants {
  const double* factors;
  int divisor;
  bool divide_by_product;  // it is a power of two: the product with its reciprocal has the same bits as the quotient
  T reciprocal;

  PYCOMMS_ALWAYS_INLINE explicit Constants(const ReduceArgs& args)
      : factors(args.factors),
        divisor(args.divisor != 0 ? args.divisor : args.ninputs),
        divide_by_product((divisor & (divisor - 1)) == 0),
        reciprocal(static_cast<T>(std::is_integral_v<T> ? 0 : 1.0 / divisor)) {}

  // Truncated towards zero; beyond 64 bits the nearest value that has 64 bits.
  PYCOMMS_ALWAYS_INLINE T factor(int input) const {
    const double f = factors[input];
    if constexpr (std::is_floating_point_v<T>) {
      return static_cast<T>(f);
    } else {
      if (f != f) return T{0};
      if (f >= 0x1p64) return static_cast<T>(UINT64_MAX);
      if (f >= 0) return static_cast<T>(static_cast<uint64_t>(f));
      return static_cast<T>(f <= -0x1p63 ? INT64_MIN : static_cast<int64_t>(f));
    }
  }
};

struct Operation {
  template <class T>
  PYCOMMS_ALWAYS_INLINE static Vec<T> prepare(Vec<T> x, T) {
    return x;
  }
  template <class T>
  PYCOMMS_ALWAYS_INLINE static Vec<T> finish(Vec<T> acc, const Constants<T>&) {
    if constexpr (std::is_floating_point_v<T>) acc = acc != acc ? splat<Vec<T>>(quiet_nan<T>()) : acc;
    return acc;
  }
  static constexpr bool kHasFactors = false;
};

struct Sum : Operation {
  template <class T>
  PYCOMMS_ALWAYS_INLINE static Vec<T> combine(Vec<T> a, Vec<T> b) {
    using U = Vec<typename Wrapping<T>::type>;
    return (Vec<T>)((U)a + (U)b);
  }
};

struct Prod : Operation {
  template <class T>
  PYCOMMS_ALWAYS_INLINE static Vec<T> combine(Vec<T> a, Vec<T> b) {
    using U = Vec<typename Wrapping<T>::type>;
    return (Vec<T>)((U)a * (U)b);
  }
};

struct Max : Operation {
  template <class T>
  PYCOMMS_ALWAYS_INLINE static Vec<T> combine(Vec<T> a, Vec<T> b) {
    const Vec<T> larger = a > b ? a : b;  // b if either is NaN
    if constexpr (std::is_integral_v<T>) return larger;
    return a != a ? a : larger;
  }
};

struct Min : Operation {
  template <class T>
  PYCOMMS_ALWAYS_INLINE static Vec<T> combine(Vec<T> a, Vec<T> b) {
    const Vec<T> smaller = a < b ? a : b;
    if constexpr (std::is_integral_v<T>) return smaller;
    return a != a ? a : smaller;
  }
};

struct BitAnd : Operation {
  template <class T>
  PYCOMMS_ALWAYS_INLINE static Vec<T> combine(Vec<T> a, Vec<T> b) {
    return a & b;
  }
};

struct BitOr : Operation {
  template <class T>
  PYCOMMS_ALWAYS_INLINE static Vec<T> combine(Vec<T> a, Vec<T> b) {
    return a | b;
  }
};

struct BitXor : Operation {
  template <class T>
  PYCOMMS_ALWAYS_INLINE static Vec<T> combine(Vec<T> a, Vec<T> b) {
    return a ^ b;
  }
};

struct Avg : Sum {
  template <class T>
  PYCOMMS_ALWAYS_INLINE static Vec<T> finish(Vec<T> acc, const Constants<T>& constants) {
    if constexpr (std::is_floating_point_v<T>) {
      if (constants.divide_by_product) {
        acc *= constants.reciprocal;
      } else {
        acc /= static_cast<T>(constants.divisor);
      }
      return Operation::finish<T>(acc, constants);
    } else {
      using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
      T lanes[kVectorBytes / sizeof(T)];
      __builtin_memcpy(lanes, &acc, sizeof acc);
      for (T& lane : lanes) lane = static_cast<T>(Wide{lane} / static_cast<Wide>(constants.divisor));
      __builtin_memcpy(&acc, lanes, sizeof acc);
      return acc;
    }
  }
};

struct PreMulSum : Sum {
  static constexpr bool kHasFactors = true;

  template <class T>
  PYCOMMS_ALWAYS_INLINE static Vec<T> prepare(Vec<T> x, T factor) {
    return Prod::combine<T>(x, splat<Vec<T>>(factor));
  }
};

// Real and imaginary parts alternate: (ar br - ai bi, ar bi + ai br).
struct ComplexProd : Operation {
  template <class T>
  PYCOMMS_ALWAYS_INLINE static Vec<T> combine(Vec<T> a, Vec<T> b) {
    return multiply<T>(a, b, std::make_index_sequence<kVectorBytes / sizeof(T)>{});
  }

  template <class T, size_t... kLanes>
  PYCOMMS_ALWAYS_INLINE static Vec<T> multiply(Vec<T> a, Vec<T> b, std::index_sequence<kLanes...>) {
    const Vec<T> real = __builtin_shufflevector(b, b, (kLanes & ~size_t{1})...);
    const Vec<T> imaginary = __builtin_shufflevector(b, b, (kLanes | 1)...);
    const Vec<T> swapped = __builtin_shufflevector(a, a, (kLanes ^ 1)...);
    const Vec<T> signs = {(kLanes & 1 ? T{1} : T{-1})...};
    return a * real + swapped * imaginary * signs;
  }
};

}  // namespace
}  // namespace hostccl
