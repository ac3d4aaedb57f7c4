// How far a stream has come: it counts the pieces of work that it has finished. A Point is a place on that line, and is all
// that an event, a dependency or a waiter keeps: a stream may be destroyed while somebody still holds one.
//
// Threads: advance from the stream's own thread, the rest from any.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

namespace cuemu {

class Timeline {
 public:
  void advance() {
    {
      const std::lock_guard lock(mutex_);
      ++finished_;
    }
    moved_.notify_all();
  }

  bool reached(uint64_t position) const {
    const std::lock_guard lock(mutex_);
    return finished_ >= position;
  }

  // False: the time is up.
  bool wait(uint64_t position, std::chrono::steady_clock::time_point deadline) const {
    std::unique_lock lock(mutex_);
    return moved_.wait_until(lock, deadline, [&] { return finished_ >= position; });
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable moved_;
  uint64_t finished_ = 0;  // GUARDED_BY(mutex_)
};

struct Point {
  std::shared_ptr<const Timeline> timeline;  // null: long past
  uint64_t position = 0;

  bool done() const { return !timeline || timeline->reached(position); }
  bool wait(std::chrono::steady_clock::time_point deadline) const {
    return !timeline || timeline->wait(position, deadline);
  }
};

}  // namespace cuemu
