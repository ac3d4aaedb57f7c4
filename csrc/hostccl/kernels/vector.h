// Vectors of kVectorBytes bytes in the compiler's own vector extension, and how they meet memory.
// Included by baseline.cpp, avx2.cpp and avx512.cpp only, each of which defines PYCOMMS_VECTOR_BYTES. All of it is in an
// unnamed namespace: code made for a wide machine must never be merged by the linker with that of another file.
// Must not know: element types, reductions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

// One function with many call sites must still be one loop body: the vectors live in registers.
#define PYCOMMS_ALWAYS_INLINE [[gnu::always_inline]] inline
#define PYCOMMS_ALWAYS_INLINE_LAMBDA __attribute__((always_inline))

namespace hostccl {
namespace {

constexpr size_t kVectorBytes = PYCOMMS_VECTOR_BYTES;

template <class T, size_t Bytes>
struct VectorOf {
  typedef T type __attribute__((vector_size(Bytes)));
};

template <class T, size_t Bytes = kVectorBytes>
using Vec = typename VectorOf<T, Bytes>::type;

template <class V>
using Lane = std::remove_cvref_t<decltype(V{}[0])>;

template <class V>
PYCOMMS_ALWAYS_INLINE V splat(Lane<V> value) {
  return V{} + value;
}

template <class F, int... kIndices>
PYCOMMS_ALWAYS_INLINE void repeat(const F& f, std::integer_sequence<int, kIndices...>) {
  (f(kIndices), ...);
}

// f(0) ... f(kTimes - 1), without a loop: arrays of vectors that are indexed in a loop end up in memory.
template <int kTimes, class F>
PYCOMMS_ALWAYS_INLINE void repeat(const F& f) {
  repeat(f, std::make_integer_sequence<int, kTimes>{});
}

// Any alignment.
template <class V>
PYCOMMS_ALWAYS_INLINE V load(const char* from) {
  V v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}

template <class V>
PYCOMMS_ALWAYS_INLINE void store(char* to, V v) {
  __builtin_memcpy(to, &v, sizeof v);
}

// The first `bytes` bytes, zeros behind them; touches no other memory.
template <class V>
PYCOMMS_ALWAYS_INLINE V load_first(const char* from, size_t bytes) {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
  if constexpr (sizeof(V) == 64) return (V)_mm512_maskz_loadu_epi8((uint64_t{1} << bytes) - 1, from);
  if constexpr (sizeof(V) == 32) return (V)_mm256_maskz_loadu_epi8((uint32_t{1} << bytes) - 1, from);
#endif
  V v = {};
  __builtin_memcpy(&v, from, bytes);
  return v;
}

template <class V>
PYCOMMS_ALWAYS_INLINE void store_first(char* to, V v, size_t bytes) {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
  if constexpr (sizeof(V) == 64) return _mm512_mask_storeu_epi8(to, (uint64_t{1} << bytes) - 1, (__m512i)v);
  if constexpr (sizeof(V) == 32) return _mm256_mask_storeu_epi8(to, (uint32_t{1} << bytes) - 1, (__m256i)v);
#endif
  __builtin_memcpy(to, &v, bytes);
}

// Past the caches where there is an instruction for this size; `to` is aligned to sizeof(V). Needs stream_fence() before
// anything that tells another thread.
template <class V>
PYCOMMS_ALWAYS_INLINE void store_streaming(char* to, V v) {
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64) return _mm512_stream_si512(reinterpret_cast<__m512i*>(to), (__m512i)v);
#endif
#if defined(__AVX__)
  if constexpr (sizeof(V) == 32) return _mm256_stream_si256(reinterpret_cast<__m256i*>(to), (__m256i)v);
#endif
#if defined(__SSE2__)
  if constexpr (sizeof(V) == 16) return _mm_stream_si128(reinterpret_cast<__m128i*>(to), (__m128i)v);
#endif
  store(to, v);
}

PYCOMMS_ALWAYS_INLINE void stream_fence() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

// Bytes from `at` to the next multiple of `alignment`.
PYCOMMS_ALWAYS_INLINE size_t bytes_to_alignment(const void* at, size_t alignment) {
  return (alignment - reinterpret_cast<uintptr_t>(at) % alignment) % alignment;
}

}  // namespace
}  // namespace hostccl
