#include "nccl2/c10d/allocator_events.h"

#include <c10/util/Exception.h>

#ifdef PYCOMMS_CUDA_ALLOCATOR_EVENTS

#include <c10/cuda/CUDACachingAllocator.h>

#include <algorithm>
#include <mutex>

#include "nccl2/core/device_segments.h"

namespace pycomms::c10d_backend {
namespace {

namespace torch_allocator = c10::cuda::CUDACachingAllocator;
using torch_allocator::TraceEntry;

void* address_of(size_t number) { return reinterpret_cast<void*>(static_cast<uintptr_t>(number)); }
PoolId id_of(const c10::MempoolId_t& pool) { return {pool.first, pool.second}; }

// Under the allocator's lock.
void on_event(const TraceEntry& event) {
  DeviceSegments& segments = DeviceSegments::instance();
  if (event.action_ == TraceEntry::SEGMENT_ALLOC) {
    segments.add({address_of(event.addr_), event.size_, event.device_, id_of(event.mempool_)});
  } else if (event.action_ == TraceEntry::SEGMENT_FREE) {
    segments.remove(address_of(event.addr_));
  } else if (event.action_ == TraceEntry::SEGMENT_MAP) {
    segments.note_expandable(id_of(event.mempool_));
  }
}

std::vector<DeviceSegment> present(torch_allocator::CUDAAllocator& allocator) {
  auto found = allocator.snapshot().segments;
  const auto earlier = [](const auto& a, const auto& b) { return a.registration_counter < b.registration_counter; };
  std::stable_sort(found.begin(), found.end(), earlier);
  std::vector<DeviceSegment> result;
  for (const auto& one : found) {
    const PoolId pool = id_of(one.owner_private_pool_id);
    if (one.is_expandable) {
      DeviceSegments::instance().note_expandable(pool);
    } else {
      result.push_back({address_of(one.address), one.total_size, one.device, pool});
    }
  }
  return result;
}

}  // namespace

void follow_torchs_segments(const char* op) {
  static std::mutex mutex;
  static bool follows = false;  // guarded by mutex
  const std::lock_guard lock(mutex);
  if (follows) return;
  auto& allocator = *static_cast<torch_allocator::CUDAAllocator*>(c10::GetAllocator(c10::DeviceType::CUDA));
  TORCH_CHECK(allocator.name() == "native", op, ": torch's CUDA allocator must be its own, \"native\", and is \"",
              allocator.name(), "\", which does not tell what memory it holds");
  TORCH_CHECK(allocator.initialized(), op, ": CUDA is not initialised in this process");
  DeviceSegments::instance().begin_listing();
  allocator.attachAllocatorTraceTracker(&on_event);
  DeviceSegments::instance().end_listing(present(allocator));
  follows = true;
}

}  // namespace pycomms::c10d_backend

#else

namespace pycomms::c10d_backend {

void follow_torchs_segments(const char* op) {
  TORCH_CHECK(false, op, ": pycomms was built without a view of this torch's CUDA allocator; the build has said so");
}

}  // namespace pycomms::c10d_backend

#endif
