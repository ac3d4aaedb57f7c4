// A host stream: a queue of work with a thread of its own, the counterpart of a CUDA stream. Work runs in order; whoever
// waits for it may run what the thread has not begun (help), so that a waiter need not sleep while a thread is woken.
// leisure.h says when the thread begins.
//
// Threads: enqueue and help from any. The thread starts with the first work and ends in the destructor, which drains.
// Must not know: what the work is.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/status.h"
#include "hostccl/hostccl.h"
#include "hostccl/leisure.h"

namespace hostccl {

class Stream {
 public:
  // One piece of work; its result is kept for the next notification.
  class Task {
   public:
    virtual ~Task() = default;
    // interruptible: the calling thread waits on a user's account.
    virtual Result run(bool interruptible) = 0;
    virtual bool is_small() const = 0;
  };

  explicit Stream(std::string name) : name_(std::move(name)) {}
  ~Stream();

  // An error when the stream cannot have a thread: nothing was queued.
  pycomms::Status enqueue(std::unique_ptr<Task> task);
  // *position: of the notification in the stream, counted from 1.
  pycomms::Status notify(CompletionFn fn, void* arg, uint64_t* position);
  // Runs the front of the queue on the calling thread, unless that lies behind `position`: it could wait for something that
  // the caller has yet to do. False: nothing to run, or somebody runs already.
  bool help(uint64_t position);

 private:
  // A task, the notification after it, or both.
  struct Entry {
    uint64_t position = 0;
    std::unique_ptr<Task> task;
    CompletionFn fn = nullptr;
    void* arg = nullptr;
  };

  pycomms::Status start_thread();  // REQUIRES(mutex_)
  // Runs the front unless it lies behind `last`. `run` holds run_mutex_; a notification is called without it.
  bool run_front(std::unique_lock<std::mutex>& run, uint64_t last, bool interruptible);
  void main();
  void sleep(std::unique_lock<std::mutex>& lock, int64_t ns);

  const std::string name_;
  std::mutex run_mutex_;                // held by whoever runs an entry
  Result result_ = nccl_abi::kSuccess;  // GUARDED_BY(run_mutex_): first error since the last notification

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Entry> queue_;  // GUARDED_BY(mutex_), as all that follows
  uint64_t pushed_ = 0;      // entries so far
  QueueState state_;
  bool sleeping_ = false;  // the thread does, in arrived_
  bool parked_ = false;    // likewise, until it is woken
  std::thread thread_;
};

}  // namespace hostccl
