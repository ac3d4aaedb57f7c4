// Copy and add, cached and streaming: the inner loops of the limits. Streaming stores leave no copy in the writer's
// cache; they need 64-byte aligned destinations and whole lines, else the cached loop runs.
// Pure functions. Must not know who shares the memory.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace bench {

inline constexpr size_t kLine = 64;

enum class Store { kCached, kStreaming };

#if defined(__AVX512F__)
inline constexpr bool kHasStreaming = true;
using Vec = __m512;
inline Vec load(const float* p) { return _mm512_loadu_ps(p); }
inline void stream(float* p, Vec v) { _mm512_stream_ps(p, v); }
inline void fence() { _mm_sfence(); }
#elif defined(__AVX__)
inline constexpr bool kHasStreaming = true;
using Vec = __m256;
inline Vec load(const float* p) { return _mm256_loadu_ps(p); }
inline void stream(float* p, Vec v) { _mm256_stream_ps(p, v); }
inline void fence() { _mm_sfence(); }
#elif defined(__x86_64__)
inline constexpr bool kHasStreaming = true;
using Vec = __m128;
inline Vec load(const float* p) { return _mm_loadu_ps(p); }
inline void stream(float* p, Vec v) { _mm_stream_ps(p, v); }
inline void fence() { _mm_sfence(); }
#else
inline constexpr bool kHasStreaming = false;
using Vec = float;
inline Vec load(const float* p) { return *p; }
inline void stream(float* p, Vec v) { *p = v; }
inline void fence() {}
#endif
inline constexpr size_t kLanes = sizeof(Vec) / sizeof(float);

inline bool streamable(const void* to, size_t n, Store store) {
  return store == Store::kStreaming && kHasStreaming && reinterpret_cast<uintptr_t>(to) % kLine == 0 &&
         n % (kLine / sizeof(float)) == 0;
}

// to = from
inline void copy(float* __restrict to, const float* __restrict from, size_t n, Store store = Store::kCached) {
  if (!streamable(to, n, store)) {
    std::memcpy(to, from, n * sizeof(float));
    return;
  }
  for (size_t i = 0; i < n; i += kLanes) stream(to + i, load(from + i));
  fence();
}

// to += from
inline void add(float* __restrict to, const float* __restrict from, size_t n) {
  for (size_t i = 0; i < n; ++i) to[i] += from[i];
}

// to = also = to + from
inline void add_to_both(float* __restrict to, const float* __restrict from, float* __restrict also, size_t n,
                        Store store) {
  if (!streamable(also, n, store)) {
    for (size_t i = 0; i < n; ++i) also[i] = to[i] = to[i] + from[i];
    return;
  }
  for (size_t i = 0; i < n; i += kLanes) {
    for (size_t j = i; j < i + kLanes; ++j) to[j] += from[j];
    stream(also + i, load(to + i));
  }
  fence();
}

// both = one + other, in place
inline void add_in_both(float* __restrict one, float* __restrict other, size_t n, Store store) {
  if (!streamable(one, n, store) || !streamable(other, n, store)) {
    for (size_t i = 0; i < n; ++i) one[i] = other[i] = one[i] + other[i];
    return;
  }
  for (size_t i = 0; i < n; i += kLanes) {
    const Vec sum = load(one + i) + load(other + i);
    stream(one + i, sum);
    stream(other + i, sum);
  }
  fence();
}

}  // namespace bench
