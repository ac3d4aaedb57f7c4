// The one thread of the process that watches what devices do: whether operations have passed, are overdue or have failed.
// It sleeps while there is nothing to watch. Any thread. Must not know: communicators.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "base/status.h"

namespace pycomms {

class Supervised {
 public:
  virtual ~Supervised() = default;
  // Looks once. Takes milliseconds, or a fifth of a second when its engine has failed and nobody knows yet who is gone.
  // False: there is nothing to watch until wake().
  virtual bool supervise(int64_t now) = 0;
};

class Supervisor {
 public:
  // Never destroyed: its thread may be at work when the process ends. A forked child has its own.
  static Supervisor& instance();

  // Starts the thread, the first time. An error when there is none to be had.
  Status add(const std::shared_ptr<Supervised>& one);
  // Something has begun that is to be watched.
  void wake();

 private:
  void main();
  bool look();

  std::mutex mutex_;
  std::vector<std::weak_ptr<Supervised>> all_;  // guarded by mutex_
  bool has_thread_ = false;                     // guarded by mutex_
  std::atomic<uint32_t> idle_{0};               // 1: the thread sleeps until woken
};

}  // namespace pycomms
