// Hooks that run once when a group fails, before anybody is told. Any thread; no lock is held while they run.
#pragma once

#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

namespace pycomms::c10d_backend {

class AbortHooks {
 public:
  void add(int64_t id, std::function<void()> hook) {
    const std::lock_guard lock(mutex_);
    hooks_[id] = std::move(hook);
  }
  void remove(int64_t id) {
    std::function<void()> last;  // destroyed outside of the lock
    const std::lock_guard lock(mutex_);
    if (auto found = hooks_.find(id); found != hooks_.end()) {
      last = std::move(found->second);
      hooks_.erase(found);
    }
  }
  void run() const {
    std::map<int64_t, std::function<void()>> hooks;
    {
      const std::lock_guard lock(mutex_);
      hooks = hooks_;
    }
    for (const auto& [id, hook] : hooks) {
      try {
        hook();
      } catch (const std::exception& e) {
        // The failure that is being reported matters more than that of its hook.
        std::fprintf(stderr, "pycomms: abort hook %lld raised: %s\n", static_cast<long long>(id), e.what());
      }
    }
  }

 private:
  mutable std::mutex mutex_;
  std::map<int64_t, std::function<void()>> hooks_;  // guarded by mutex_
};

}  // namespace pycomms::c10d_backend
