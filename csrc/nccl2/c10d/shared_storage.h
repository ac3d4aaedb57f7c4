// Where a tensor's memory lies in a file that other processes can map: tensors after share_memory_(), and whatever else
// torch keeps in a mapped file with its descriptor open. Any thread. Must not know: engines.
#pragma once

#include <ATen/MapAllocator.h>
#include <ATen/core/Tensor.h>

namespace pycomms::c10d_backend {

struct SharedPlace {
  int fd = -1;  // -1: the memory is private, or too small for this to pay
  uint64_t offset = 0;

  explicit operator bool() const { return fd >= 0; }
};

inline SharedPlace shared_place(const at::Tensor& tensor) {
  constexpr size_t kWorthwhile = 128 << 10;
  if (tensor.nbytes() < kWorthwhile) [[likely]]
    return {};
  const at::MapAllocator* map = at::MapAllocator::fromDataPtr(tensor.storage().data_ptr());
  if (map == nullptr) return {};
  return {map->fd(), static_cast<uint64_t>(tensor.storage_offset() * tensor.element_size())};
}

}  // namespace pycomms::c10d_backend
