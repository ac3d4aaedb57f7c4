#include "device_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "log.h"
#include "settings.h"

namespace cuemu {
namespace {

constexpr size_t kAlignment = 512;

std::byte* map_or_die(size_t bytes, int protection, int flags, int fd) {
  void* at = mmap(nullptr, bytes, protection, flags | MAP_NORESERVE, fd, 0);
  if (at != MAP_FAILED) return static_cast<std::byte*>(at);
  log("mapping %zu bytes of device memory: %s (CUEMU_MEMORY_MB sets the size)", bytes, std::strerror(errno));
  std::abort();
}

}  // namespace

DeviceMemory::DeviceMemory(size_t capacity) : capacity_(capacity), fd_(memfd_create("cuemu", MFD_CLOEXEC)) {
  if (fd_ < 0 || ftruncate(fd_, static_cast<off_t>(capacity)) != 0) {
    log("making %zu bytes of device memory: %s", capacity, std::strerror(errno));
    std::abort();
  }
  bytes_ = map_or_die(capacity, PROT_READ | PROT_WRITE, MAP_SHARED, fd_);
  guarded_ = map_or_die(capacity, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  free_[0] = capacity;
}

void* DeviceMemory::allocate(size_t bytes) {
  if (bytes > capacity_) return nullptr;
  const size_t size = (bytes + kAlignment - 1) & ~(kAlignment - 1);
  size_t offset = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto hole = std::find_if(free_.begin(), free_.end(), [&](const auto& entry) { return entry.second >= size; });
    if (hole == free_.end()) return nullptr;
    offset = hole->first;
    if (hole->second > size) free_[offset + size] = hole->second - size;
    free_.erase(offset);
    used_[offset] = size;
    in_use_ += size;
  }
  // All bits set is NaN in every float type: whoever reads what was never written sees it.
  std::memset(bytes_ + offset, 0xFF, std::min(bytes, settings().poison_bytes));
  return guarded_ + offset;
}

bool DeviceMemory::release(void* start) {
  const std::lock_guard lock(mutex_);
  const auto found = used_.find(offset_of(start));
  if (found == used_.end()) return false;
  auto [offset, size] = *found;
  used_.erase(found);
  in_use_ -= size;
  fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset), static_cast<off_t>(size));
  auto hole = free_.emplace(offset, size).first;
  if (const auto next = std::next(hole); next != free_.end() && offset + size == next->first) {
    hole->second += next->second;
    free_.erase(next);
  }
  if (hole != free_.begin()) {
    const auto before = std::prev(hole);
    if (before->first + before->second == hole->first) {
      before->second += hole->second;
      free_.erase(hole);
    }
  }
  return true;
}

DeviceMemory::Range DeviceMemory::allocation_of(const void* address) const {
  if (!contains(address)) return {};
  const size_t offset = offset_of(address);
  const std::lock_guard lock(mutex_);
  const auto after = used_.upper_bound(offset);
  if (after == used_.begin()) return {};
  const auto& [start, size] = *std::prev(after);
  return offset < start + size ? Range{guarded_ + start, size} : Range{};
}

bool DeviceMemory::is_live(const void* address, size_t bytes) const {
  const Range range = allocation_of(address);
  return range.start != nullptr &&
         static_cast<const std::byte*>(address) + bytes <= static_cast<std::byte*>(range.start) + range.bytes;
}

size_t DeviceMemory::in_use() const {
  const std::lock_guard lock(mutex_);
  return in_use_;
}

}  // namespace cuemu
