// The memory of one device: a range of addresses that nobody may touch, so that host code which dereferences a device
// pointer crashes as it would on a real machine, and a second mapping where the bytes are. Device work reads and writes
// through the second one.
//
// Threads: any.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>

namespace cuemu {

class DeviceMemory {
 public:
  explicit DeviceMemory(size_t capacity);

  void* allocate(size_t bytes);  // null: no room
  bool release(void* start);     // false: no allocation starts there
  bool contains(const void* address) const {
    const auto* at = static_cast<const std::byte*>(address);
    return at >= guarded_ && at < guarded_ + capacity_;
  }
  // Whether all of it lies in one live allocation.
  bool is_live(const void* address, size_t bytes) const;
  struct Range {
    void* start = nullptr;
    size_t bytes = 0;
  };
  Range allocation_of(const void* address) const;  // null: none
  std::byte* bytes_at(const void* address) const {
    return bytes_ + (static_cast<const std::byte*>(address) - guarded_);
  }
  size_t capacity() const { return capacity_; }
  size_t in_use() const;

 private:
  size_t offset_of(const void* address) const {
    return static_cast<size_t>(static_cast<const std::byte*>(address) - guarded_);
  }

  const size_t capacity_;
  int fd_ = -1;
  std::byte* guarded_ = nullptr;  // what the program sees
  std::byte* bytes_ = nullptr;

  mutable std::mutex mutex_;
  std::map<size_t, size_t> used_;  // GUARDED_BY(mutex_): offset -> size
  std::map<size_t, size_t> free_;  // GUARDED_BY(mutex_)
  size_t in_use_ = 0;              // GUARDED_BY(mutex_)
};

}  // namespace cuemu
