// A memory pool: device memory that is allocated and freed in the order of a stream. What is freed on a stream may be used
// by later work of the same stream at once, by others when the stream has got there.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "abi.h"
#include "timeline.h"

namespace cuemu {

class Device;
class Stream;

class MemoryPool {
 public:
  explicit MemoryPool(Device& owner) : device(owner) {}
  ~MemoryPool();

  Device& device;

  void* allocate(size_t bytes, const Stream& stream);  // null: no room
  // False: not from this pool. `freed`: where in the stream it is given back.
  bool release(void* start, const Stream& stream, Point freed);
  // Gives idle memory back to the device until no more than this is kept. What a stream may still use stays.
  void trim(uint64_t keep);
  void trim_to_threshold() { trim(attribute(cuda_abi::kReleaseThreshold)); }

  uint64_t attribute(cuda_abi::MemPoolAttribute which) const;
  void set_attribute(cuda_abi::MemPoolAttribute which, uint64_t value);

 private:
  struct Block {
    void* start;
    uint64_t bytes;
    uint64_t stream;  // its number
    Point freed;
  };

  mutable std::mutex mutex_;
  std::map<void*, uint64_t> used_;                                              // GUARDED_BY(mutex_): start -> bytes
  std::vector<Block> idle_;                                                     // GUARDED_BY(mutex_)
  uint64_t used_bytes_ = 0, used_high_ = 0, reserved_ = 0, reserved_high_ = 0;  // GUARDED_BY(mutex_)
  uint64_t threshold_ = 0;                                                      // GUARDED_BY(mutex_)
  int reuse_[3] = {1, 1, 1};  // GUARDED_BY(mutex_): kept for who asks; only opportunistic reuse changes anything
};

// The current one is what cudaMallocAsync uses: the default pool until the program sets another.
cuda_abi::MemPoolHandle current_pool_handle(Device& device);
cuda_abi::MemPoolHandle default_pool_handle(Device& device);
void set_current_pool(Device& device, cuda_abi::MemPoolHandle pool);
std::vector<std::shared_ptr<MemoryPool>> pools_of(const Device& device);
void add_pool(const std::shared_ptr<MemoryPool>& pool);

}  // namespace cuemu
