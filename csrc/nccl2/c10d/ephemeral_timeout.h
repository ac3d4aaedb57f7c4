// Extra time for the operations that follow addEphemeralTimeout, until the first of them has completed.
// Extensions add up; each ends on its own. Any thread; one load while there is none.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace pycomms::c10d_backend {

class EphemeralTimeout {
 public:
  void add(int64_t ns) {
    const std::lock_guard lock(shared_->mutex);
    shared_->extensions.push_back({shared_->next_id++, ns});
    shared_->total.fetch_add(ns, std::memory_order_relaxed);
  }

  int64_t total() const { return shared_->total.load(std::memory_order_relaxed); }

  // To be called when an operation that was created now completes.
  auto on_completion() const {
    const std::lock_guard lock(shared_->mutex);
    return [shared = shared_, until = shared_->next_id] { shared->drop_before(until); };
  }

 private:
  struct Extension {
    uint64_t id;
    int64_t ns;
  };
  struct Shared {
    void drop_before(uint64_t id) {
      const std::lock_guard lock(mutex);
      std::erase_if(extensions, [&](const Extension& extension) {
        if (extension.id >= id) return false;
        total.fetch_sub(extension.ns, std::memory_order_relaxed);
        return true;
      });
    }
    std::mutex mutex;
    std::vector<Extension> extensions;  // guarded by mutex
    uint64_t next_id = 0;               // guarded by mutex
    std::atomic<int64_t> total{0};
  };
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

}  // namespace pycomms::c10d_backend
