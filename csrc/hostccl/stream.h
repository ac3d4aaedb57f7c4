// A host stream: a queue of work with a thread of its own, the counterpart of a CUDA stream. Work runs in order; whoever
// waits for it may run what the thread has not begun (help), so that a waiter need not sleep while a thread is woken.
//
// The thread begins large work at once. Small work it leaves alone while more is being issued, for some microseconds after
// that: most issuers come to wait soon, and run it for less than what it costs to share their core with a second thread.
//
// Threads: enqueue and help from any. The thread starts with the first work and ends in the destructor, which drains.
// Must not know: what the work is.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/status.h"
#include "hostccl/hostccl.h"

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
  pycomms::Status notify(CompletionFn fn, void* arg);
  // Runs the front of the queue on the calling thread. False: nothing to run, or somebody runs already.
  bool help();

 private:
  // A task, the notification after it, or both.
  struct Entry {
    std::unique_ptr<Task> task;
    CompletionFn fn = nullptr;
    void* arg = nullptr;
  };

  pycomms::Status start_thread();  // REQUIRES(mutex_)
  // `run` holds run_mutex_; a notification is called without it.
  bool run_front(std::unique_lock<std::mutex>& run, bool interruptible);
  void main();
  // How long the thread may leave the queue alone; 0: not at all. REQUIRES(mutex_)
  int64_t leisure(int64_t now);
  void sleep(std::unique_lock<std::mutex>& lock, int64_t ns);

  const std::string name_;
  std::mutex run_mutex_;                // held by whoever runs an entry
  Result result_ = nccl_abi::kSuccess;  // GUARDED_BY(run_mutex_): first error since the last notification

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Entry> queue_;  // GUARDED_BY(mutex_), as all that follows
  bool stopping_ = false;
  bool helped_ = false;    // somebody ran work since the thread last looked
  bool hurry_ = false;     // the queue holds work that is not small
  bool sleeping_ = false;  // the thread does, in arrived_
  bool parked_ = false;    // likewise, until it is woken
  int64_t oldest_ns_ = 0;  // when the first of what is queued came
  int64_t latest_ns_ = 0;  // and the last
  std::thread thread_;
};

}  // namespace hostccl
