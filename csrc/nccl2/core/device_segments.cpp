#include "nccl2/core/device_segments.h"

#include <algorithm>

namespace pycomms {

DeviceSegments& DeviceSegments::instance() {
  static auto* one = new DeviceSegments;
  return *one;
}

void DeviceSegments::insert(DeviceSegment segment) {
  segment.serial = next_serial_++;
  live_[segment.address] = segment;
  version_.fetch_add(1, std::memory_order_release);
}

void DeviceSegments::add(const DeviceSegment& segment) {
  const std::lock_guard lock(mutex_);
  insert(segment);
}

void DeviceSegments::remove(void* address) {
  const std::lock_guard lock(mutex_);
  if (listing_) gone_meanwhile_.insert(address);
  if (live_.erase(address) > 0) version_.fetch_add(1, std::memory_order_release);
}

void DeviceSegments::note_expandable(const PoolId& pool) {
  const std::lock_guard lock(mutex_);
  expandable_.insert(pool);
}

void DeviceSegments::begin_listing() {
  const std::lock_guard lock(mutex_);
  listing_ = true;
}

void DeviceSegments::end_listing(const std::vector<DeviceSegment>& listed) {
  const std::lock_guard lock(mutex_);
  for (const DeviceSegment& segment : listed) {
    if (!live_.contains(segment.address) && !gone_meanwhile_.contains(segment.address)) insert(segment);
  }
  listing_ = false;
  gone_meanwhile_.clear();
}

bool DeviceSegments::is_live(void* address, uint64_t serial) const {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(address);
  return found != live_.end() && found->second.serial == serial;
}

bool DeviceSegments::is_expandable(const PoolId& pool) const {
  const std::lock_guard lock(mutex_);
  return expandable_.contains(pool);
}

template <typename Wanted>
std::vector<DeviceSegment> DeviceSegments::sorted(Wanted wanted) const {
  std::vector<DeviceSegment> found;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [address, segment] : live_) {
      if (wanted(segment)) found.push_back(segment);
    }
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.serial < b.serial; });
  return found;
}

std::vector<DeviceSegment> DeviceSegments::of_device(int device) const {
  return sorted([device](const DeviceSegment& segment) { return segment.device == device; });
}

std::vector<DeviceSegment> DeviceSegments::of_pool(const PoolId& pool) const {
  return sorted([&pool](const DeviceSegment& segment) { return segment.pool == pool; });
}

}  // namespace pycomms
