// Copies and fills as pieces of device work, with what CUDA promises about the host memory that they touch. Any thread.
#pragma once

#include <cstddef>
#include <memory>

#include "stream.h"

namespace cuemu {

struct Extent {
  size_t width;   // bytes in a row
  size_t height;  // rows
  size_t to_pitch, from_pitch;
};

// Whether the host waits for the copy: always, or as an asynchronous call does, for pageable memory only.
enum class HostWait { as_needed, always };

void copy(void* to, const void* from, const Extent& extent, const std::shared_ptr<Stream>& stream, HostWait wait);
inline void copy(void* to, const void* from, size_t bytes, const std::shared_ptr<Stream>& stream, HostWait wait) {
  copy(to, from, {bytes, 1, bytes, bytes}, stream, wait);
}
void fill(void* to, int value, const Extent& extent, const std::shared_ptr<Stream>& stream);

}  // namespace cuemu
