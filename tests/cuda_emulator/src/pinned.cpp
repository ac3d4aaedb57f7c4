#include "pinned.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "failure.h"
#include "settings.h"

namespace cuemu {
namespace {

constexpr size_t kPage = 4096;

}  // namespace

void* PinnedMemory::allocate(size_t bytes, unsigned flags) {
  const size_t rounded = std::max(kPage, (bytes + kPage - 1) & ~(kPage - 1));
  void* start = rounded < bytes ? nullptr : std::aligned_alloc(kPage, rounded);
  if (start == nullptr) return nullptr;
  std::memset(start, 0xFF, std::min(bytes, settings().poison_bytes));
  const std::lock_guard lock(mutex_);
  pieces_[static_cast<std::byte*>(start)] = {bytes, flags, true};
  return start;
}

void PinnedMemory::release(void* start) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = pieces_.find(static_cast<std::byte*>(start));
    require(found != pieces_.end() && found->second.allocated, cuda_abi::kInvalidValue);
    pieces_.erase(found);
  }
  std::free(start);
}

void PinnedMemory::add(void* start, size_t bytes, unsigned flags) {
  require(start != nullptr && bytes > 0, cuda_abi::kInvalidValue);
  const auto* first = static_cast<std::byte*>(start);
  const std::lock_guard lock(mutex_);
  const auto after = pieces_.lower_bound(first + bytes);
  const bool overlaps = after != pieces_.begin() && std::prev(after)->first + std::prev(after)->second.bytes > first;
  require(!overlaps, cuda_abi::kHostMemoryAlreadyRegistered);
  pieces_[first] = {bytes, flags, false};
}

void PinnedMemory::remove(void* start) {
  const std::lock_guard lock(mutex_);
  const auto found = pieces_.find(static_cast<std::byte*>(start));
  require(found != pieces_.end() && !found->second.allocated, cuda_abi::kHostMemoryNotRegistered);
  pieces_.erase(found);
}

PinnedMemory::Pieces::const_iterator PinnedMemory::find(const void* address) const {
  const auto* at = static_cast<const std::byte*>(address);
  const auto after = pieces_.upper_bound(at);
  if (after == pieces_.begin()) return pieces_.end();
  const auto piece = std::prev(after);
  return at < piece->first + piece->second.bytes ? piece : pieces_.end();
}

bool PinnedMemory::contains(const void* address, size_t bytes) const {
  const std::lock_guard lock(mutex_);
  const auto piece = find(address);
  return piece != pieces_.end() && static_cast<const std::byte*>(address) + bytes <= piece->first + piece->second.bytes;
}

unsigned PinnedMemory::flags_of(const void* address) const {
  const std::lock_guard lock(mutex_);
  const auto piece = find(address);
  require(piece != pieces_.end(), cuda_abi::kInvalidValue);
  return piece->second.flags;
}

PinnedMemory& pinned_memory() {
  static auto& leaked = *new PinnedMemory;
  return leaked;
}

}  // namespace cuemu
