#include "pool.h"

#include <algorithm>

#include "device.h"
#include "handles.h"

namespace cuemu {
namespace {

using namespace cuda_abi;

struct PoolsOfDevice {
  MemPoolHandle initial{}, current{};
};

struct Registry {
  std::mutex mutex;
  std::map<int, PoolsOfDevice> by_device;      // GUARDED_BY(mutex)
  std::vector<std::weak_ptr<MemoryPool>> all;  // GUARDED_BY(mutex)
};

Registry& registry() {
  static auto& leaked = *new Registry;
  return leaked;
}

PoolsOfDevice& entry_locked(Registry& pools, Device& device) {
  PoolsOfDevice& entry = pools.by_device[device.index];
  if (entry.initial == nullptr) {
    auto pool = std::make_shared<MemoryPool>(device);
    pools.all.push_back(pool);
    entry.initial = entry.current = handles().pools.add(std::move(pool));
  }
  return entry;
}

}  // namespace

MemoryPool::~MemoryPool() {
  for (const auto& [start, bytes] : used_) device.memory.release(start);
  for (const Block& block : idle_) device.memory.release(block.start);
}

void* MemoryPool::allocate(size_t bytes, const Stream& stream) {
  constexpr uint64_t kGrain = 512;
  const uint64_t size = std::max<uint64_t>(1, (bytes + kGrain - 1) / kGrain) * kGrain;
  const std::lock_guard lock(mutex_);
  const auto fits = [&](const Block& block) {
    return block.bytes == size && (block.stream == stream.number || block.freed.done());
  };
  void* start = nullptr;
  if (const auto found = std::find_if(idle_.begin(), idle_.end(), fits); found != idle_.end()) {
    start = found->start;
    idle_.erase(found);
  } else {
    start = device.memory.allocate(size);
    if (start == nullptr) return nullptr;
    reserved_ += size;
    reserved_high_ = std::max(reserved_high_, reserved_);
  }
  used_[start] = size;
  used_bytes_ += size;
  used_high_ = std::max(used_high_, used_bytes_);
  return start;
}

bool MemoryPool::release(void* start, const Stream& stream, Point freed) {
  const std::lock_guard lock(mutex_);
  const auto found = used_.find(start);
  if (found == used_.end()) return false;
  used_bytes_ -= found->second;
  idle_.push_back({start, found->second, stream.number, std::move(freed)});
  used_.erase(found);
  return true;
}

void MemoryPool::trim(uint64_t keep) {
  const std::lock_guard lock(mutex_);
  std::erase_if(idle_, [&](const Block& block) {
    if (reserved_ <= keep || !block.freed.done()) return false;
    device.memory.release(block.start);
    reserved_ -= block.bytes;
    return true;
  });
}

uint64_t MemoryPool::attribute(MemPoolAttribute which) const {
  const std::lock_guard lock(mutex_);
  switch (which) {
    case kReuseFollowEventDependencies:
    case kReuseAllowOpportunistic:
    case kReuseAllowInternalDependencies:
      return static_cast<uint64_t>(reuse_[which - kReuseFollowEventDependencies]);
    case kReleaseThreshold:
      return threshold_;
    case kReservedCurrent:
      return reserved_;
    case kReservedHigh:
      return reserved_high_;
    case kUsedCurrent:
      return used_bytes_;
    case kUsedHigh:
      return used_high_;
  }
  fail(kInvalidValue);
}

void MemoryPool::set_attribute(MemPoolAttribute which, uint64_t value) {
  const std::lock_guard lock(mutex_);
  switch (which) {
    case kReuseFollowEventDependencies:
    case kReuseAllowOpportunistic:
    case kReuseAllowInternalDependencies:
      reuse_[which - kReuseFollowEventDependencies] = value != 0;
      return;
    case kReleaseThreshold:
      threshold_ = value;
      return;
    case kReservedHigh:  // the high marks can be set to zero only: they start again from now
      require(value == 0, kInvalidValue);
      reserved_high_ = reserved_;
      return;
    case kUsedHigh:
      require(value == 0, kInvalidValue);
      used_high_ = used_bytes_;
      return;
    case kReservedCurrent:
    case kUsedCurrent:
      break;
  }
  fail(kInvalidValue);
}

MemPoolHandle current_pool_handle(Device& device) {
  Registry& pools = registry();
  const std::lock_guard lock(pools.mutex);
  return entry_locked(pools, device).current;
}

MemPoolHandle default_pool_handle(Device& device) {
  Registry& pools = registry();
  const std::lock_guard lock(pools.mutex);
  return entry_locked(pools, device).initial;
}

void set_current_pool(Device& device, MemPoolHandle pool) {
  require(&handles().pools.get(pool)->device == &device, kInvalidValue);
  Registry& pools = registry();
  const std::lock_guard lock(pools.mutex);
  entry_locked(pools, device).current = pool;
}

std::vector<std::shared_ptr<MemoryPool>> pools_of(const Device& device) {
  Registry& pools = registry();
  const std::lock_guard lock(pools.mutex);
  std::vector<std::shared_ptr<MemoryPool>> result;
  std::erase_if(pools.all, [](const auto& pool) { return pool.expired(); });
  for (const auto& weak : pools.all) {
    if (auto pool = weak.lock(); pool && &pool->device == &device) result.push_back(std::move(pool));
  }
  return result;
}

void add_pool(const std::shared_ptr<MemoryPool>& pool) {
  Registry& pools = registry();
  const std::lock_guard lock(pools.mutex);
  pools.all.push_back(pool);
}

}  // namespace cuemu
