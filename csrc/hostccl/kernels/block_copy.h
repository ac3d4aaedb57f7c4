// Plain and streaming copies. Included as vector.h says. Must not know: element types.
#pragma once

#include "vector.h"

namespace hostccl {
namespace {

void copy_block(char* out, const char* in, size_t bytes) { __builtin_memcpy(out, in, bytes); }

void copy_block_streaming(char* out, const char* in, size_t bytes) {
  using V = Vec<uint8_t>;
  constexpr size_t kLine = 64;  // a write-combining buffer: fill it whole, or it goes out in pieces
  const size_t head = bytes_to_alignment(out, kLine);
  if (bytes < head + kLine) {
    __builtin_memcpy(out, in, bytes);
    return;
  }
  __builtin_memcpy(out, in, head);
  size_t at = head;
  for (; bytes - at >= kLine; at += kLine) {
    V line[kLine / kVectorBytes];
    for (size_t v = 0; v < kLine / kVectorBytes; ++v) line[v] = load<V>(in + at + v * kVectorBytes);
    for (size_t v = 0; v < kLine / kVectorBytes; ++v) store_streaming(out + at + v * kVectorBytes, line[v]);
  }
  __builtin_memcpy(out + at, in + at, bytes - at);
  stream_fence();
}

}  // namespace
}  // namespace hostccl
