// Conversion between float32 and the small IEEE-like formats, a vector at a time, exact and rounding to nearest even.
// No float32 subnormal appears on the way, so flush-to-zero modes of the calling thread change nothing.
// Included as vector.h says. Must not know: reductions.
#pragma once

#include "vector.h"

namespace hostccl {
namespace {

// kHasInfinity: the largest exponent means infinity and NaN (IEEE). Otherwise only the all-ones code is NaN and there is
// no infinity ("fn"): what does not fit, infinity too, becomes the largest number, as in torch 2.14 (older ones make NaN).
template <int kExponentBits, int kMantissaBits, bool kHasInfinity>
struct NarrowFloat {
  using Bits = Vec<uint32_t>;
  using Signed = Vec<int32_t>;
  using Floats = Vec<float>;

  static constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  static constexpr int kDropped = 23 - kMantissaBits;
  static constexpr int kSignShift = 31 - kExponentBits - kMantissaBits;
  static constexpr uint32_t kMagnitude = (1u << (kExponentBits + kMantissaBits)) - 1;
  static constexpr uint32_t kRebias = uint32_t(127 - kBias) << 23;
  // A float whose last mantissa bit weighs as much as the format's smallest subnormal.
  static constexpr uint32_t kSubnormalBase = uint32_t(127 + 1 - kBias + kDropped) << 23;
  static constexpr int32_t kSmallestNormal = int32_t(128 - kBias) << 23;
  static constexpr int32_t kInfinityCode = ((1 << kExponentBits) - 1) << kMantissaBits;
  static constexpr int32_t kNanCode =
      kHasInfinity ? kInfinityCode | (1 << (kMantissaBits - 1)) : static_cast<int32_t>(kMagnitude);
  static constexpr int32_t kOverflowCode = kHasInfinity ? kInfinityCode : kNanCode - 1;
  // From here on the code is the overflow's: the first power of two out of range, or the largest number itself.
  static constexpr int32_t kFirstOverflow =
      kHasInfinity ? int32_t(127 + kBias + 1) << 23 : int32_t(((kMagnitude - 1) << kDropped) + kRebias);

  PYCOMMS_ALWAYS_INLINE static Floats widen(Bits code) {
    const Bits magnitude = code & kMagnitude;
    const Bits sign = (code ^ magnitude) << kSignShift;
    const Signed order = (Signed)magnitude;
    const Bits normal = (magnitude << kDropped) + kRebias;
    const Bits subnormal = (Bits)((Floats)(magnitude | kSubnormalBase) - (Floats)splat<Bits>(kSubnormalBase));
    Bits wide = order < (1 << kMantissaBits) ? subnormal : normal;
    if constexpr (kHasInfinity) {
      wide = order >= kInfinityCode ? normal + kRebias : wide;
    } else {
      wide = order == kNanCode ? splat<Bits>(0x7fc00000u) : wide;
    }
    return (Floats)(wide | sign);
  }

  // NaN keeps its sign and loses its payload.
  PYCOMMS_ALWAYS_INLINE static Bits narrow(Floats wide) {
    const Bits bits = (Bits)wide;
    const Bits magnitude = bits & 0x7fffffffu;
    const Bits sign = (bits ^ magnitude) >> kSignShift;
    const Signed order = (Signed)magnitude;
    const Bits half = ((1u << (kDropped - 1)) - 1) + ((magnitude >> kDropped) & 1u);
    const Bits normal = (magnitude - kRebias + half) >> kDropped;
    const Floats base = (Floats)splat<Bits>(kSubnormalBase);
    const Bits subnormal = (Bits)((Floats)magnitude + base) - kSubnormalBase;
    Bits code = order < kSmallestNormal ? subnormal : normal;
    code = order >= kFirstOverflow ? splat<Bits>(kOverflowCode) : code;
    code = order > 0x7f800000 ? splat<Bits>(kNanCode) : code;
    return code | sign;
  }
};

}  // namespace
}  // namespace hostccl
