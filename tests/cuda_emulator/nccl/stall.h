// Work that a fault keeps from beginning until its communicators have been polled often enough, or one of them is given up.
// Threads: any. Must not know: what the work is.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>

namespace nccl_emulator {

class Stall {
 public:
  // polls < 0: it never begins. One of the two functions is called once, on the thread that polls or drops.
  Stall(int64_t polls, std::function<void()> begin, std::function<void()> give_up)
      : polls_(polls), begin_(std::move(begin)), give_up_(std::move(give_up)) {}

  // False: still in progress.
  bool poll() {
    std::unique_lock lock(mutex_);
    if (is_over_) return true;
    if (polls_ < 0) return false;
    if (polls_ > 0) return --polls_, false;
    end(lock, begin_);
    return true;
  }
  // The work will not begin.
  void drop() {
    std::unique_lock lock(mutex_);
    if (!is_over_) end(lock, give_up_);
  }
  bool is_over() const {
    const std::lock_guard lock(mutex_);
    return is_over_;
  }

 private:
  // Both functions go: they hold the communicators, which hold us.
  void end(std::unique_lock<std::mutex>& lock, const std::function<void()>& how) {
    const std::function<void()> chosen = how;
    std::function<void()> begin, give_up;
    begin.swap(begin_);
    give_up.swap(give_up_);
    is_over_ = true;
    lock.unlock();
    chosen();
  }

  mutable std::mutex mutex_;
  bool is_over_ = false;  // GUARDED_BY(mutex_), as all that follows
  int64_t polls_;
  std::function<void()> begin_, give_up_;
};

}  // namespace nccl_emulator
