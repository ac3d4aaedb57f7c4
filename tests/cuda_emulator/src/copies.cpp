#include "copies.h"

#include <cstring>
#include <mutex>
#include <vector>

#include "device.h"
#include "pinned.h"
#include "submission.h"

namespace cuemu {
namespace {

// A pageable source up to this size is staged, so that the caller may change it at once.
constexpr size_t kStaged = size_t{64} << 20;

size_t span(const Extent& extent, size_t pitch) {
  return extent.height == 0 ? 0 : (extent.height - 1) * pitch + extent.width;
}

bool is_pageable(const void* address, size_t bytes) {
  return device_of(address) == nullptr && !pinned_memory().contains(address, bytes);
}

void copy_rows(std::byte* to, const std::byte* from, const Extent& extent) {
  if (extent.to_pitch == extent.width && extent.from_pitch == extent.width) {
    std::memmove(to, from, extent.width * extent.height);
    return;
  }
  for (size_t row = 0; row < extent.height; ++row) {
    std::memmove(to + row * extent.to_pitch, from + row * extent.from_pitch, extent.width);
  }
}

}  // namespace

void copy(void* to, const void* from, const Extent& extent, const std::shared_ptr<Stream>& stream, HostWait wait) {
  if (extent.width == 0 || extent.height == 0) return;
  require(to != nullptr && from != nullptr, cuda_abi::kInvalidValue);
  require(extent.to_pitch >= extent.width && extent.from_pitch >= extent.width, cuda_abi::kInvalidValue);
  const size_t to_span = span(extent, extent.to_pitch), from_span = span(extent, extent.from_pitch);
  const bool from_pageable = is_pageable(from, from_span), to_pageable = is_pageable(to, to_span);
  const Op direct{.what = "copy", .type = cuda_abi::kMemcpyNode, .run = [=] {
                    check_access(to, to_span);
                    check_access(from, from_span);
                    copy_rows(host_view(to), host_view(from), extent);
                  }};
  Op staged = direct;
  const bool can_stage = from_pageable && from_span <= kStaged && wait == HostWait::as_needed;
  if (can_stage) {
    const auto* bytes = static_cast<const std::byte*>(from);
    const auto stage = std::make_shared<const std::vector<std::byte>>(bytes, bytes + from_span);
    staged.run = [=] {
      check_access(to, to_span);
      copy_rows(host_view(to), stage->data(), extent);
    };
  }
  Point done;
  bool is_captured = false;
  {
    const std::lock_guard lock(submission_mutex());
    is_captured = stream->capture != nullptr;  // then it reads its source at each launch
    done = submit_locked(*stream, is_captured ? direct : staged);
  }
  const bool must_wait = wait == HostWait::always || to_pageable || (from_pageable && !can_stage);
  if (must_wait && !is_captured) stream->device.wait(done);
}

void fill(void* to, int value, const Extent& extent, const std::shared_ptr<Stream>& stream) {
  if (extent.width == 0 || extent.height == 0) return;
  require(to != nullptr && extent.to_pitch >= extent.width, cuda_abi::kInvalidValue);
  submit(*stream, {.what = "fill", .type = cuda_abi::kMemsetNode, .run = [=] {
                     check_access(to, span(extent, extent.to_pitch));
                     std::byte* row = host_view(to);
                     for (size_t i = 0; i < extent.height; ++i, row += extent.to_pitch) {
                       std::memset(row, value, extent.width);
                     }
                   }});
}

}  // namespace cuemu
