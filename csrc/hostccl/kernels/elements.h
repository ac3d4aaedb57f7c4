// How the elements of each type are held in memory (Raw) and in registers while they are reduced (Accumulator).
// Every lane depends on its own element only, so a result never depends on where in a vector an element lies.
// Included as vector.h says. Must not know: reductions.
#pragma once

#include "narrow_float.h"
#include "vector.h"

namespace hostccl {
namespace {

template <class T, int kCount = 1>
struct Parts {
  static constexpr int kParts = kCount;
  Vec<T> part[kCount];
};

// float32, float64 and the integers, reduced as they are.
template <class T>
struct Native {
  using Value = T;
  using Raw = Vec<T>;
  using Accumulator = Parts<T>;
  static constexpr size_t kBytes = sizeof(T);

  PYCOMMS_ALWAYS_INLINE static Accumulator widen(Raw raw) { return {{raw}}; }
  PYCOMMS_ALWAYS_INLINE static Raw narrow(Accumulator acc) { return acc.part[0]; }
};

// torch's bool: any nonzero byte is true.
struct Bool : Native<uint8_t> {
  PYCOMMS_ALWAYS_INLINE static Accumulator widen(Raw raw) { return {{(Raw)(raw != 0) & uint8_t{1}}}; }
};

// Real and imaginary parts alternate.
template <class T>
struct Complex : Native<T> {
  static constexpr size_t kBytes = 2 * sizeof(T);
};

// bfloat16 is the upper half of a float32. A vector of pairs is taken apart with masks and shifts, which are cheaper than
// moving lanes: part 0 has the elements of the lower halves, part 1 those of the upper halves.
struct Bfloat16 {
  using Value = float;
  using Raw = Vec<uint32_t>;
  using Accumulator = Parts<float, 2>;
  static constexpr size_t kBytes = 2;
  static constexpr uint32_t kUpper = 0xffff0000u;

  PYCOMMS_ALWAYS_INLINE static Accumulator widen(Raw raw) {
    return {{(Vec<float>)(raw << 16), (Vec<float>)(raw & kUpper)}};
  }
  PYCOMMS_ALWAYS_INLINE static Raw narrow(Accumulator acc) {
    return (rounded(acc.part[0]) >> 16) | (rounded(acc.part[1]) & kUpper);
  }
  // To nearest even in the upper half. The accumulators' NaN (operations.h) has room for the carry.
  PYCOMMS_ALWAYS_INLINE static Raw rounded(Vec<float> wide) {
    const Raw bits = (Raw)wide;
    return bits + 0x7fffu + ((bits >> 16) & 1u);
  }
};

struct Float16 {
  using Value = float;
  using Raw = Vec<uint16_t, kVectorBytes / 2>;
  using Accumulator = Parts<float>;
  static constexpr size_t kBytes = 2;

#if defined(__AVX512F__)
  // The masked forms, with all lanes on: gcc 12 warns about the others.
  static constexpr __mmask16 kAll = 0xffff;
  PYCOMMS_ALWAYS_INLINE static Accumulator widen(Raw raw) {
    return {{(Vec<float>)_mm512_maskz_cvtph_ps(kAll, (__m256i)raw)}};
  }
  PYCOMMS_ALWAYS_INLINE static Raw narrow(Accumulator acc) {
    return (Raw)_mm512_maskz_cvtps_ph(kAll, (__m512)acc.part[0], _MM_FROUND_TO_NEAREST_INT);
  }
#elif defined(__F16C__)
  PYCOMMS_ALWAYS_INLINE static Accumulator widen(Raw raw) { return {{(Vec<float>)_mm256_cvtph_ps((__m128i)raw)}}; }
  PYCOMMS_ALWAYS_INLINE static Raw narrow(Accumulator acc) {
    return (Raw)_mm256_cvtps_ph((__m256)acc.part[0], _MM_FROUND_TO_NEAREST_INT);
  }
#else
  using Format = NarrowFloat<5, 10, true>;
  PYCOMMS_ALWAYS_INLINE static Accumulator widen(Raw raw) {
    return {{Format::widen(__builtin_convertvector(raw, Vec<uint32_t>))}};
  }
  PYCOMMS_ALWAYS_INLINE static Raw narrow(Accumulator acc) {
    return __builtin_convertvector(Format::narrow(acc.part[0]), Raw);
  }
#endif
};

template <class Format>
struct Float8 {
  using Value = float;
  using Raw = Vec<uint8_t, kVectorBytes / 4>;
  using Accumulator = Parts<float>;
  static constexpr size_t kBytes = 1;
  using Between = Vec<uint16_t, kVectorBytes / 2>;  // gcc converts lane by lane where the widths differ fourfold

  PYCOMMS_ALWAYS_INLINE static Accumulator widen(Raw raw) {
    const Between between = __builtin_convertvector(raw, Between);
    return {{Format::widen(__builtin_convertvector(between, Vec<uint32_t>))}};
  }
  PYCOMMS_ALWAYS_INLINE static Raw narrow(Accumulator acc) {
    const Between between = __builtin_convertvector(Format::narrow(acc.part[0]), Between);
    return __builtin_convertvector(between, Raw);
  }
};
using Float8e4m3 = Float8<NarrowFloat<4, 3, false>>;
using Float8e5m2 = Float8<NarrowFloat<5, 2, true>>;

}  // namespace
}  // namespace hostccl
