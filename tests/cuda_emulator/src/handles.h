// Handles as the program sees them: numbers that are never used twice, so that a stale handle is an error and not a crash.
//
// Threads: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "failure.h"

namespace cuemu {

// Kind: one of the tag pointers of abi.h.
template <class Object, class Handle>
class HandleTable {
 public:
  Handle add(std::shared_ptr<Object> object) {
    static std::atomic<uintptr_t> next{0x1000};  // above the stream handles that CUDA reserves
    const uintptr_t value = next.fetch_add(0x10);
    const std::lock_guard lock(mutex_);
    objects_.emplace(value, std::move(object));
    return reinterpret_cast<Handle>(value);
  }

  std::shared_ptr<Object> get(Handle handle) const {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(reinterpret_cast<uintptr_t>(handle));
    require(found != objects_.end(), cuda_abi::kInvalidResourceHandle);
    return found->second;
  }

  std::shared_ptr<Object> remove(Handle handle) {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(reinterpret_cast<uintptr_t>(handle));
    require(found != objects_.end(), cuda_abi::kInvalidResourceHandle);
    auto object = std::move(found->second);
    objects_.erase(found);
    return object;
  }

  size_t size() const {
    const std::lock_guard lock(mutex_);
    return objects_.size();
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<uintptr_t, std::shared_ptr<Object>> objects_;  // GUARDED_BY(mutex_)
};

class Stream;
class Event;
class Graph;
class GraphExec;
class UserObject;
class MemoryPool;

// The tables of the process; they live for ever.
struct Handles {
  HandleTable<Stream, cuda_abi::StreamHandle> streams;
  HandleTable<Event, cuda_abi::EventHandle> events;
  HandleTable<Graph, cuda_abi::GraphHandle> graphs;
  HandleTable<GraphExec, cuda_abi::GraphExecHandle> graph_execs;
  HandleTable<UserObject, cuda_abi::UserObjectHandle> user_objects;
  HandleTable<MemoryPool, cuda_abi::MemPoolHandle> pools;
};
inline Handles& handles() {
  static auto& leaked = *new Handles;
  return leaked;
}

}  // namespace cuemu
