// Named points of a regroup at which whoever tests it may look, or end the process. Nothing while nobody has asked.
// Any thread; the probe runs on the thread that regroups. Must not know: Python.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <utility>

namespace pycomms::c10d_backend {

class RegroupProbe {
 public:
  using Function = std::function<void(const char* point)>;

  static RegroupProbe& of_process() {
    static auto* one = new RegroupProbe;  // never destroyed: threads may outlive main
    return *one;
  }
  // An empty function: nobody looks.
  void set(Function function) {
    auto next = function ? std::make_shared<const Function>(std::move(function)) : nullptr;
    const std::lock_guard lock(mutex_);
    function_.swap(next);
  }
  void reached(const char* point) const {
    std::shared_ptr<const Function> function;
    {
      const std::lock_guard lock(mutex_);
      function = function_;
    }
    if (function != nullptr) (*function)(point);
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const Function> function_;  // guarded by mutex_
};

}  // namespace pycomms::c10d_backend
