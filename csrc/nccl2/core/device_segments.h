// The segments of device memory that torch's allocator holds now, as it tells us. A segment has a serial number, so that one
// is not taken for another that had its address before. Nobody tells while no group wants to know: the version stays 0.
// Any thread; may be told under the allocator's lock, so nothing here calls anybody. Must not know: torch, engines.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

namespace pycomms {

using PoolId = std::pair<uint64_t, uint64_t>;  // torch's; {0, 0} is the default pool

struct DeviceSegment {
  void* address = nullptr;
  size_t bytes = 0;
  int device = 0;
  PoolId pool;
  uint64_t serial = 0;  // in the order in which they were made
};

class DeviceSegments {
 public:
  static DeviceSegments& instance();  // of the process; never destroyed

  // Changes with every segment that comes or goes. One load.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }

  void add(const DeviceSegment& segment);  // the serial number is given here
  void remove(void* address);
  // Memory of this pool grows and shrinks in place: it is never listed.
  void note_expandable(const PoolId& pool);

  // Around a listing of what there was before somebody told: what comes and goes meanwhile wins over the listing.
  void begin_listing();
  void end_listing(const std::vector<DeviceSegment>& listed);

  bool is_live(void* address, uint64_t serial) const;
  bool is_expandable(const PoolId& pool) const;
  // In the order of their serial numbers.
  std::vector<DeviceSegment> of_device(int device) const;
  std::vector<DeviceSegment> of_pool(const PoolId& pool) const;

 private:
  template <typename Wanted>
  std::vector<DeviceSegment> sorted(Wanted wanted) const;
  void insert(DeviceSegment segment);

  std::atomic<uint64_t> version_{0};
  mutable std::mutex mutex_;
  std::map<void*, DeviceSegment> live_;  // guarded by mutex_
  std::set<PoolId> expandable_;          // guarded by mutex_
  bool listing_ = false;                 // guarded by mutex_
  std::set<void*> gone_meanwhile_;       // guarded by mutex_
  uint64_t next_serial_ = 1;             // guarded by mutex_
};

}  // namespace pycomms
